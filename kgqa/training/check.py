"""Path accuracy: how often the best path of a held-out question takes a gold relation path.

Paths are decoded under the constraint from the question's topic entities, as a question is asked
later on. Which of a relation path's tails was written does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgqa.decoding.engine import DecodingRequest
from kgqa.decoding.searches import beam
from kgqa.errors import KgqaError
from kgqa.models.profile import engine_for
from kgqa.paths.walk import FIRST, SECOND
from kgqa.trie.composed import ComposedConstraint
from kgqa.trie.lexicon import PathLexicon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from kgqa.graph.store import GraphStore
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import WalkRules
    from kgqa.progress import Progress
    from kgqa.training.data import Example

_K = 4  # paths that are decoded for the best one


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A question that is not trained on, the relation paths that are right, and its graph."""

    question: str
    topics: tuple[str, ...]  # names
    topic_ids: tuple[str, ...]
    gold: frozenset[tuple[str, ...]]
    graph: Callable[[], AbstractContextManager[GraphStore]]


def held_out_of(
    examples: Sequence[Example], graph: Callable[[], AbstractContextManager[GraphStore]]
) -> list[HeldOut]:
    """Return the questions of held-out examples; ``graph`` opens the graph they are asked of."""
    by_question: dict[str, list[Example]] = {}
    for example in examples:
        by_question.setdefault(example.question_id, []).append(example)
    checks = []
    for of in by_question.values():
        gold = frozenset(example.relations for example in of)
        checks.append(HeldOut(of[0].question, of[0].topics, of[0].topic_ids, gold, graph))
    return checks


class PathCheck:
    """Decodes the best path of each of ``questions`` with a model and counts the right ones.

    The model may be trained between two counts; it is the object that ``kg_llm`` holds.
    """

    def __init__(
        self,
        kg_llm: KgLLM,
        questions: Sequence[HeldOut],
        rules: Callable[[GraphStore], WalkRules],
        form: PathFormat,
        progress: Progress,
    ) -> None:
        self._kg_llm = kg_llm
        self._questions = questions
        self._rules = rules
        self._form = form
        self._lexicon = PathLexicon(kg_llm.encoder, form)
        self._engine = engine_for(kg_llm, progress=progress)

    def __len__(self) -> int:
        return len(self._questions)

    def right(self) -> int:
        """Return how many best paths take a gold relation path; where decoding fails, none does."""
        return sum(self._is_right(question) for question in self._questions)

    def _is_right(self, question: HeldOut) -> bool:
        try:
            with question.graph() as store:
                return any(path in question.gold for path in self._best(store, question))
        except KgqaError:
            return False

    def _best(self, store: GraphStore, question: HeldOut) -> Iterator[tuple[str, ...]]:
        """Yield the relation path of each id path that the best hypothesis stands for."""
        keys = store.keys_of(question.topic_ids)
        constraint = ComposedConstraint(store, keys, self._rules(store), self._lexicon)
        job = DecodingRequest(
            prompt=self._kg_llm.prompt_ids(question.question, question.topics),
            constraint=constraint,
            search=beam(constraint, _K),
            rule=self._kg_llm.card.score_rule,
        )
        # under the constraint, as later: unconstrained accuracy says little of what users get
        hypotheses = self._engine.decode(job).found().hypotheses
        if not hypotheses:
            return
        table = constraint.ground(hypotheses[0].state)
        names = store.relations().names
        for hops, length in zip(table.hops, table.length.tolist(), strict=True):
            yield tuple(
                self._form.relation(int(hop[FIRST]), int(hop[SECOND]), names)
                for hop in hops[:length]
            )
