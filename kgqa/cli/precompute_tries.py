"""``kgqa precompute-tries``: the tries of topic entities, built before anyone asks."""

from __future__ import annotations

from typing import Any

from kgqa.api.index import IndexOptions
from kgqa.cli.common import Run, takes_options


@takes_options(IndexOptions)
def precompute_tries(run: Run, options: dict[str, Any]) -> None:
    """Build the trie index, or continue a run that was stopped."""
    with run.kg() as kg:
        built = kg.index(**options)
    counts = built.counts

    def human() -> None:
        """Print the counts of the built index as text."""
        from kgqa.cli.terminal import say

        say(
            f"{counts.added:,} entities added in {counts.seconds:.1f} s; the index of "
            f"{built.kg} now has {counts.stored:,} tries with {counts.paths:,} paths of at most "
            f"{built.hops} hops in {counts.shards} shards, {counts.bytes / 1e6:.1f} MB."
        )
        if counts.composed:
            say(
                f"{counts.composed:,} entities have more than {built.cap:,} paths; theirs are "
                "composed on the fly when asked."
            )

    run.print(human, built.to_dict())
