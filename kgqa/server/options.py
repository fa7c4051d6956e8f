"""What a server can be started with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

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
    workers: int | None = option(
        None,
        "Number of processes that answer, which share models; by default one for each core, at "
        "most 8, and 1 with a GPU. 1 answers in the server's own process.",
        ge=1,
    )
    keys: Path | None = option(
        None, "A TOML file of keys: for each client a table with its key, KGs and limits."
    )
    access_log: Literal["line", "json", "none"] = option(
        "line", "Form of the log of requests, on standard error."
    )
    cache_mb: int = option(
        64, "Size of the cache of answers in MB; 0 caches none.", group=_LIMITS, ge=0
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

    end_seconds: int = option(
        30,
        "Seconds that running questions are given when the server is stopped.",
        group=_LIMITS,
        ge=0,
    )

    @property
    def worker_count(self) -> int:
        """The number of worker processes."""
        return self.workers or (1 if _has_gpu() else min(8, len(os.sched_getaffinity(0))))

    @property
    def shares_models(self) -> bool:
        """Whether workers are forked with loaded models, impossible with a GPU."""
        return not _has_gpu()


def _has_gpu() -> bool:
    """Return whether models run on a GPU, without importing torch."""
    device = os.environ.get("KGQA_DEVICE")
    return device not in (None, "cpu") or (device is None and Path("/dev/nvidiactl").exists())
