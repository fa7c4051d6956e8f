"""What a server can be started with."""

from __future__ import annotations

from kgqa.registry import Options, option

_LIMITS = "limits"


class ServeOptions(Options):
    """The options of ``kgqa serve``."""

    host: str = option(
        "127.0.0.1", "Address to listen on; one that others can reach requires KGQA_API_KEY."
    )
    port: int = option(8080, "Port to listen on; 0 takes a free one.", ge=0, le=65_535)
    allowed_host: tuple[str, ...] = option(
        (), "A host name that clients use for this server, behind a proxy for example."
    )
    allow: tuple[str, ...] = option(
        (), "A model, adapter, reasoner, ranker or general model that a request may name."
    )
    max_models: int = option(
        1,
        "Maximum number of KG-LLMs in memory; the least recently used is dropped.",
        group=_LIMITS,
        ge=1,
    )
    max_queue: int = option(64, "Maximum number of waiting questions.", group=_LIMITS, ge=1)
    max_connections: int = option(
        512, "Maximum number of open connections; the idlest is closed.", group=_LIMITS, ge=8
    )
    max_body: int = option(
        1_000_000, "Maximum size of a request in bytes.", group=_LIMITS, ge=1_000
    )
    time_limit: float = option(
        120.0, "Time limit for a question in seconds, including waiting.", group=_LIMITS, gt=0
    )
