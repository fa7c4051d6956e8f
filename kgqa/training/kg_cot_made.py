"""Questions made from a KG as a reasoner is trained on them.

``templates`` and ``self_made`` put a relation path into words and follow one walk along it. A
reasoner is asked for all that the relation path leads to, so it is followed again, whole. What this
does not do: put anything into words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.model import Kind
from kgqa.paths.walk import TAIL
from kgqa.training.kg_cot_data import WalkQuestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import IntArray
    from kgqa.methods.kg_cot.hops import HopTable
    from kgqa.paths.format import PathFormat
    from kgqa.progress import Progress
    from kgqa.training.data import Example
    from kgqa.training.kg_cot_data import Steps


def made_questions(
    table: HopTable, examples: Sequence[Example], form: PathFormat, progress: Progress
) -> list[WalkQuestion]:
    """Return a question for each example, its answers all the tails of the relation path.

    A relation path is text; of relations that share it all are meant. One that leads nowhere but
    back to the topic entity gives no question. ``form``: what wrote the examples.
    Raises GraphError.
    """
    labels = _Labels(table, form)
    found = []
    with progress.task("made questions", len(examples), "questions") as task:
        for number, example in enumerate(examples):
            topics = table.store.keys_of(example.topic_ids)
            topics = np.unique(topics[topics >= 0])
            ends = _followed(table, labels, topics, example.relations)
            answers = np.unique(np.concatenate([*ends.values(), np.empty(0, np.int64)]))
            if len(answers):
                found.append(
                    WalkQuestion(
                        f"{example.question_id}:{number}",
                        example.question,
                        topics,
                        answers,
                        len(example.relations),
                        tuple(ends),
                    )
                )
            task.advance()
    return found


def _followed(
    table: HopTable, labels: _Labels, topics: IntArray, relations: Sequence[str]
) -> dict[Steps, IntArray]:
    """Return the tails (keys) of each relation path that is called ``relations``."""
    found: dict[Steps, IntArray] = {(): topics}
    for place, relation in enumerate(relations, 1):
        longer: dict[Steps, IntArray] = {}
        for steps, frontier in found.items():
            out = table.out_of(frontier)
            for number in np.unique(out.relation).tolist():
                label, step = labels[number]
                if label == relation:
                    here = out.relation == number
                    if place == len(relations):  # nobody asks for a mediator
                        here &= out.kind != Kind.MEDIATOR
                    tails = np.unique(out.hop[here, TAIL])
                    tails = np.setdiff1d(tails, topics, assume_unique=True)
                    if len(tails):
                        longer[*steps, step] = tails
        found = longer
    return found


class _Labels:
    """The text and the steps of a table's relations by number; the table meets more as it walks."""

    def __init__(self, table: HopTable, form: PathFormat) -> None:
        self._table = table
        self._form = form
        self._names = table.store.relations().names
        self._known: list[tuple[str, tuple[int, int]]] = []

    def __getitem__(self, number: int) -> tuple[str, tuple[int, int]]:
        if number >= len(self._known):
            for first, second in self._table.relations()[len(self._known) :].tolist():
                label = self._form.relation(first, second, self._names)
                self._known.append((label, (first, second)))
        return self._known[number]
