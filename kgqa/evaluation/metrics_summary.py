"""All records of a run → its figures: percentages over every question, with 95 % intervals.

What it does not do: decide which questions count; each record is one of the denominator.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.evaluation.intervals import interval
from kgqa.evaluation.metrics import mean_percent
from kgqa.evaluation.metrics_linking import linking_figures
from kgqa.evaluation.metrics_triplets import triplet_figures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kgqa.evaluation.report_record import Record

STRICT = ("hits_at_1", "hit_at_k", "mrr", "f1", "precision", "recall")
_LEGACY = ("hit", "f1", "precision", "recall", "acc")
UNREACHABLE = "not reachable"  # the hops of a question whose answers no path leads to


def summarise(
    records: Sequence[Record], *, kg: str, method: str, form: str, seed: int = 0
) -> dict[str, Any]:
    """Return the JSON of ``kgqa eval``.

    ``by_hop`` and ``by_type`` map a hop or type to ``{questions, hits_at_1, hit_at_k, f1,
    interval}`` (of Hits@1); ``intervals`` maps a figure to ``[low, high]``; ``outcomes`` counts
    where questions ended; ``linking`` is that of :mod:`kgqa.evaluation.metrics_linking`,
    ``triplets`` that of :mod:`kgqa.evaluation.metrics_triplets`. A figure that no question has is
    None.
    """
    answered = [one for one in records if one.answered]
    correct = [one for one in answered if one.hit_at_k]
    choices = [one.accuracy for one in records if one.accuracy is not None]
    # a malformed question of a multiple-choice file is one that was not answered
    malformed = sum(one.outcome == "malformed" for one in records)
    recalls = [one.path_recall for one in records if one.path_recall is not None]
    columns = {name: [float(getattr(one, name)) for one in records] for name in STRICT}
    legacy = {
        family: {
            name: [one.legacy.get(family, {}).get(name, 0.0) for one in records] for name in _LEGACY
        }
        for family in ("gcr", "rog")
    }
    columns["hit"] = legacy["gcr"]["hit"]
    columns["reachable"] = [float(one.reachable) for one in records]
    if choices:
        columns["accuracy"] = [*choices, *[0.0] * malformed]
    if recalls:
        columns["path_recall"] = recalls
    return {
        "format": form,
        "kg": kg,
        "method": method,
        "questions": len(records),
        "answered": len(answered),
        "hit": mean_percent(columns["hit"]),
        **{name: mean_percent(columns[name]) for name in STRICT[:3]},
        "accuracy": mean_percent(columns["accuracy"]) if choices else None,
        **{name: mean_percent(columns[name]) for name in STRICT[3:]},
        "legacy": {
            family: {name: mean_percent(shares) for name, shares in scores.items()}
            for family, scores in legacy.items()
        },
        "grounded_paths": mean_percent([one.grounded_paths for one in answered]),
        "faithful_of_correct": mean_percent([float(one.grounded) for one in correct]),
        "path_recall": mean_percent(recalls) if recalls else None,
        "reachable": mean_percent(columns["reachable"]),
        "by_hop": _parts(records, _hop, seed),
        "by_type": _parts([one for one in records if one.type], lambda one: one.type, seed),
        "intervals": {name: _interval(shares, seed) for name, shares in columns.items()},
        "outcomes": dict(Counter(one.outcome for one in records).most_common()),
        "seconds": _percentiles([o.seconds for o in answered if o.seconds is not None], 50, 95),
        "forwards": _percentiles([o.forwards for o in answered if o.forwards is not None], 50),
        "general_llm": _general(records),
        "linking": linking_figures(records, seed),
        "triplets": triplet_figures(records, method),
    }


def _hop(record: Record) -> str:
    return UNREACHABLE if record.hops is None else str(record.hops)


def _parts(
    records: Sequence[Record], part: Callable[[Record], str], seed: int
) -> dict[str, dict[str, Any]]:
    parts: dict[str, list[Record]] = defaultdict(list)
    for one in records:
        parts[part(one)].append(one)
    return {
        name: {
            "questions": len(parts[name]),
            **{
                figure: mean_percent([getattr(one, figure) for one in parts[name]])
                for figure in ("hits_at_1", "hit_at_k", "f1")
            },
            "interval": _interval([one.hits_at_1 for one in parts[name]], seed),
        }
        for name in sorted(parts)
    }


def _interval(shares: Sequence[float], seed: int) -> list[float] | None:
    found = interval(shares, seed=seed) if len(shares) else None
    return None if found is None else [round(100 * one, 2) for one in found]


def _general(records: Sequence[Record]) -> dict[str, Any] | None:
    uses = [one.general_llm for one in records if one.general_llm]
    if not uses:
        return None
    counts = ("calls", "prompt_tokens", "completion_tokens")
    return {"model": uses[0]["model"], **{name: sum(use[name] for use in uses) for name in counts}}


def _percentiles(values: Sequence[float], *which: int) -> dict[str, float | None]:
    return {
        f"p{one}": round(float(np.percentile(values, one)), 3) if len(values) else None
        for one in which
    }
