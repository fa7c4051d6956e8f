"""Records of a run → figures: percentages over every question, whatever became of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.evaluation.metrics import CHAINS, TRIPLET_SCORES, interval, mean_percent
from kgqa.evaluation.record import Outcome, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_STRICT = ("hits_at_1", "hit_at_k", "mrr", "f1", "precision", "recall")
_LEGACY = ("hit", "f1", "precision", "recall", "acc")
_LINKING = ("first", "in_linked", "all_linked", "in_five")
_UNREACHABLE = "not reachable"  # the hops of a question whose answers no path leads to


def summarise(records: Sequence[Record], *, kg: str, method: str, format: str) -> dict[str, Any]:
    """Compute the JSON of ``kgqa eval`` from records; a figure that no question has is None.

    ``by_hop`` and ``by_type``: ``{questions, hits_at_1, hit_at_k, f1, interval}`` (of Hits@1);
    ``intervals``: ``[low, high]`` of 95 %; ``outcomes``: counts of where questions ended.
    """
    answered = [record for record in records if record.answered]
    correct = [record for record in answered if record.hit_at_k]
    choices = [record.accuracy for record in records if record.accuracy is not None]
    recalls = [record.path_recall for record in records if record.path_recall is not None]
    columns = {name: [float(getattr(record, name)) for record in records] for name in _STRICT}
    legacy = {
        family: {
            name: [record.legacy.get(family, {}).get(name, 0.0) for record in records]
            for name in _LEGACY
        }
        for family in ("gcr", "rog")
    }
    columns["hit"] = legacy["gcr"]["hit"]
    columns["reachable"] = [float(record.reachable) for record in records]
    if choices:
        # a malformed question of a multiple-choice file is one that was not answered
        columns["accuracy"] = [*choices, *[0.0] * _malformed(records)]
    if recalls:
        columns["path_recall"] = recalls
    means = {name: mean_percent(shares) for name, shares in columns.items()}
    return {
        "format": format,
        "kg": kg,
        "method": method,
        "questions": len(records),
        "answered": len(answered),
        "hit": means["hit"],
        **{name: means[name] for name in _STRICT[:3]},
        "accuracy": means.get("accuracy"),
        **{name: means[name] for name in _STRICT[3:]},
        "legacy": {
            family: {name: mean_percent(shares) for name, shares in scores.items()}
            for family, scores in legacy.items()
        },
        "grounded_paths": mean_percent([record.grounded_paths for record in answered]),
        "faithful_of_correct": mean_percent([float(record.grounded) for record in correct]),
        "path_recall": means.get("path_recall"),
        "reachable": means["reachable"],
        "by_hop": _by_part(
            records, lambda record: _UNREACHABLE if record.hops is None else str(record.hops)
        ),
        "by_type": _by_part(
            [record for record in records if record.type], lambda record: record.type
        ),
        "intervals": {name: _interval(shares) for name, shares in columns.items()},
        "unanswerable": unanswerable_figures(records),
        "outcomes": dict(Counter(record.outcome for record in records).most_common()),
        "seconds": percentiles([o.seconds for o in answered if o.seconds is not None], 50, 95),
        "forwards": percentiles([o.forwards for o in answered if o.forwards is not None], 50),
        "general_llm": _general_llm_use(records),
        "linking": linking_figures(records),
        "triplets": triplet_figures(records, method),
    }


def unanswerable_figures(records: Sequence[Record]) -> dict[str, Any]:
    """Return the number of questions without gold answers, and percentages on refusals.

    ``found``: the share of them that was not answered (None without any); ``falsely_refused``: of
    the other questions, the share with a right answer that was held back.
    """
    asked = [record for record in records if record.outcome != Outcome.MALFORMED]
    none = [float(record.hits_at_1) for record in asked if not record.gold]
    return {
        "questions": len(none),
        "found": mean_percent(none) if none else None,
        "falsely_refused": mean_percent([float(record.refused) for record in asked if record.gold]),
    }


def linking_figures(records: Sequence[Record]) -> dict[str, Any] | None:
    """Return linking percentages over questions with given topics (malformed: missed), or None."""
    linkings = [record.linking for record in records if record.linking is not None]
    if not linkings:
        return None
    missed = _malformed(records)
    columns = {
        name: [*(float(linking[name]) for linking in linkings), *[0.0] * missed]
        for name in _LINKING
    }
    return {
        "questions": len(linkings) + missed,
        **{name: mean_percent(shares) for name, shares in columns.items()},
        "topics": round(sum(len(linking["linked"]) for linking in linkings) / len(linkings), 3),
        "intervals": {name: _interval(shares) for name, shares in columns.items()},
    }


def triplet_figures(records: Sequence[Record], method: str) -> dict[str, float | None] | None:
    """Return triplet percentages; None without gold triplets unless ``method`` is DoG.

    ``f1``, ``precision``, ``recall``: over questions with gold triplets (malformed: missed), None
    without any. ``ill``: the share of malformed triplets among all written.
    """
    triplets = [record.triplets for record in records if record.triplets is not None]
    golden = [triplet for triplet in triplets if triplet["f1"] is not None]
    if not golden and method != CHAINS:
        return None
    missed = _malformed(records)
    scores = {
        name: mean_percent([*(row[name] for row in golden), *[0.0] * missed]) if golden else None
        for name in TRIPLET_SCORES
    }
    ill, written = (sum(triplet[name] for triplet in triplets) for name in ("ill", "written"))
    return {**scores, "ill": round(100 * ill / written, 2) if written else None}


def _malformed(records: Sequence[Record]) -> int:
    """Count the malformed questions."""
    return sum(record.outcome == Outcome.MALFORMED for record in records)


def _by_part(records: Sequence[Record], part: Callable[[Record], str]) -> dict[str, dict[str, Any]]:
    """Return main figures of the records by the value of ``part``: hop count or type."""
    parts: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        parts[part(record)].append(record)
    return {
        name: {
            "questions": len(parts[name]),
            **{
                figure: mean_percent([getattr(record, figure) for record in parts[name]])
                for figure in ("hits_at_1", "hit_at_k", "f1")
            },
            "interval": _interval([record.hits_at_1 for record in parts[name]]),
        }
        for name in sorted(parts)
    }


def _interval(shares: Sequence[float]) -> list[float] | None:
    """Return the 95 % interval of the mean of shares in percent, None without any."""
    bounds = interval(shares)
    return None if bounds is None else [round(100 * bound, 2) for bound in bounds]


def _general_llm_use(records: Sequence[Record]) -> dict[str, Any] | None:
    """Sum the calls and tokens of the general LLM over records, None if it was not used."""
    uses = [record.general_llm for record in records if record.general_llm]
    if not uses:
        return None
    counts = ("calls", "prompt_tokens", "completion_tokens")
    return {"model": uses[0]["model"], **{name: sum(use[name] for use in uses) for name in counts}}


def percentiles(values: Sequence[float], *which: int) -> dict[str, float | None]:
    """Return the percentiles ``which`` by name (50: ``p50``), each None without values."""
    return {
        f"p{record}": round(float(np.percentile(values, record)), 3) if len(values) else None
        for record in which
    }
