"""How well the linker found the topic entities that a file gives for its questions.

What it does not do: link for the answer; it links the question again, which gives the same
candidates in milliseconds, and looks where the given entities stand among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgqa.errors import LinkingError
from kgqa.evaluation.intervals import interval
from kgqa.evaluation.metrics import mean_percent
from kgqa.evaluation.metrics_gold import known_topics, meant
from kgqa.linking.linker import link, topic_entities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.evaluation.report_record import Record
    from kgqa.graph.store import GraphStore
    from kgqa.questions.base import Question

FIVE = 5
# figure: what it is called in a report
TITLES = {
    "first": "linking: given entity first",
    "in_linked": "linking: given entity among the linked",
    "all_linked": "linking: all given entities linked",
    "in_five": "linking: given entity in the first five",
}


def linking_of(store: GraphStore, question: Question) -> dict[str, Any] | None:
    """Return what the linker makes of a question, None where the file gives no topic entity.

    ``first``, ``in_five``: whether a given entity is the best candidate, or one of the first five
    (``candidates``, ids). ``in_linked``, ``all_linked``: whether one, or all of them, are among
    ``linked``, the topic entities that paths start from.
    """
    expected = meant(store, known_topics(store, question), question.names)
    if not expected.ids:
        return None
    try:
        candidates = link(store, question.question, limit=2 * FIVE)
    except LinkingError:
        candidates = []
    ids = [one.id for one in candidates]
    linked = [one.id for one in topic_entities(candidates)]
    gold = set(expected.ids)
    return {
        "candidates": ids[:FIVE],
        "linked": linked,
        "first": bool(gold.intersection(expected.canonical(ids[:1]))),
        "in_five": bool(gold.intersection(expected.canonical(ids[:FIVE]))),
        "in_linked": bool(gold.intersection(expected.canonical(linked))),
        "all_linked": gold.issubset(expected.canonical(linked)),
    }


def linking_figures(records: Sequence[Record], seed: int = 0) -> dict[str, Any] | None:
    """Return percentages over the questions with a given topic entity, None for a run without.

    A malformed line counts as missed. ``intervals`` has ``[low, high]`` of each.
    """
    of_linker = [one.linking for one in records if one.linking is not None]
    if not of_linker:
        return None
    missed = sum(one.linking is None and one.outcome == "malformed" for one in records)
    columns = {name: [*(float(one[name]) for one in of_linker), *[0.0] * missed] for name in TITLES}
    return {
        "questions": len(of_linker) + missed,
        **{name: mean_percent(shares) for name, shares in columns.items()},
        "topics": round(sum(len(one["linked"]) for one in of_linker) / len(of_linker), 3),
        "intervals": {
            name: [round(100 * one, 2) for one in interval(shares, seed=seed) or ()]
            for name, shares in columns.items()
        },
    }
