"""The options of the searches. Importing them loads neither numpy nor a model."""

from __future__ import annotations

from kgqa.registry import Options, option


class BeamOptions(Options):
    """Beam search has no options of its own."""


class DiverseOptions(Options):
    """The options of diverse beam search."""

    groups: int | None = option(None, "Number of groups of beams, 1 to K (by default K).", ge=1)
    diversity_penalty: float = option(
        1.0,
        "Penalty of a token for each hypothesis of an earlier group that has just chosen it.",
        ge=0.0,
    )


class ExactOptions(Options):
    """The options of exact search."""

    max_forward_passes: int | None = option(
        None,
        "Maximum number of forward passes for a question; the search then ends with what it found.",
        ge=1,
    )


class SampleSearchOptions(Options):
    """The options of sampling without replacement."""

    seed: int = option(0, "Seed of the random numbers.", ge=0)
