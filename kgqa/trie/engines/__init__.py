"""Where work units run: in this process, in processes of this machine, or on a Ray cluster.

Every engine gives the same units in the same order, so the index does not depend on it. It holds a
bounded number of them in flight, and never writes: only the process that started the run does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from kgqa.graph.model import IntArray
    from kgqa.trie.units import Job, Resources, Unit


class Engine(Protocol):
    """Runs the units of a run."""

    def run(
        self, resources: Resources, units: Iterable[IntArray], job: Job
    ) -> Generator[Unit, None, None]:
        """Yield the result of each of ``units`` (topic keys, ascending) in their order.

        ``resources`` opens a store and makes a lexicon, where the units run. Raises what a unit
        raises, and IndexFault where a worker is lost and the unit cannot be had from another.
        Closing the iterator early ends what was started for it.
        """
