"""Which search decodes the paths of a question, and with which options.

Options are checked before anything is loaded; the searches themselves are in ``kgqa.decoding``.
What this does not do: run one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kgqa.answers.answer import SearchUse
from kgqa.errors import UsageError
from kgqa.registry import SEARCHES

if TYPE_CHECKING:
    from kgqa.decoding.search import Certificate, Search, SearchStrategy
    from kgqa.trie.constraint import Constraint

SearchKind: TypeAlias = Literal["beam", "diverse", "exact", "sample"]

# Which search an option belongs to. An option of another search would be passed over in silence.
_OF = {
    "groups": "diverse",
    "diversity_penalty": "diverse",
    "seed": "sample",
    "max_forwards": "exact",
}


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How paths are searched for; None is the search's own default.

    ``kind``: ``beam`` (the ranked list of ``generate``), ``diverse`` (groups kept apart), ``exact``
    (the most probable paths, proven), ``sample`` (drawn without replacement). ``groups`` (1 to K,
    default K) and ``diversity_penalty`` (at least 0, default 1) are of ``diverse``, ``seed`` (at
    least 0, default 0) of ``sample``. ``max_forwards`` (at least 1, default without end) is of
    ``exact``: the forwards that a question may take part in; then it ends with what it has.

    Raises UsageError for an option of another search.
    """

    kind: SearchKind = "beam"
    groups: int | None = None
    diversity_penalty: float | None = None
    seed: int | None = None
    max_forwards: int | None = None

    def __post_init__(self) -> None:
        for option, kind in _OF.items():
            if getattr(self, option) is not None and kind != self.kind:
                flag = "--" + option.replace("_", "-")
                raise UsageError(
                    f"{flag} belongs to --search {kind}, and the search is {self.kind}.",
                    f"Leave out {flag}, or use --search {kind}.",
                )
        if self.max_forwards is not None and self.max_forwards < 1:
            raise UsageError(f"A search takes at least 1 forward, not {self.max_forwards}.")

    def check(self, k: int, length_penalty: float = 0.0) -> None:
        """Raise UsageError where the options cannot be meant for ``k`` paths."""
        self._strategy().check(k, length_penalty)

    def search(self, constraint: Constraint, k: int, length_penalty: float = 0.0) -> Search:
        """Return a search for ``k`` paths. Raises UsageError where an option cannot be meant."""
        return self._strategy().start(constraint, k, length_penalty)

    def _strategy(self) -> SearchStrategy[Any]:
        given = {option: getattr(self, option) for option, kind in _OF.items() if kind == self.kind}
        if "max_forwards" in given:
            given["max_forward_passes"] = given.pop("max_forwards")
        strategy: SearchStrategy[Any] = SEARCHES.entry(self.kind).load()(
            SEARCHES.options(self.kind, given)
        )
        return strategy

    def use(self, certificate: Certificate | None) -> SearchUse:
        """Return what is told of a search that has ended with ``certificate``."""
        if certificate is None:
            return SearchUse(self.kind)
        return SearchUse(
            self.kind,
            certificate.proven,
            certificate.certain,
            certificate.bound,
            certificate.demands,
        )


BEAM = SearchOptions()
