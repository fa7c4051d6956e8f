"""Questions without their topic entities, asked of the linker: what comes first, what goes wrong.

The subgraph round WebQSP and CWQ joins entities by name and has no aliases; it over-represents
answers. MetaQA's marks on the topic are taken out. What it does not do: answer questions.
"""

from __future__ import annotations

import csv
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgqa.errors import LinkingError
from kgqa.evaluation.metrics import interval
from kgqa.graph.model import EDGE_SCHEMA, ENTITY_SCHEMA, EdgeBatch, EntityBatch, Kind
from kgqa.graph.names import normalise
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.linking.linker import link, topic_entities
from kgqa.loading.pipeline import assemble
from kgqa.progress import Silent
from kgqa.questions import read_questions
from kgqa.questions.base import is_held_out
from kgqa.questions.meanings import known_topics, meanings_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.linking.linker import Candidate, TextEncoder
    from kgqa.questions import Question

SETS = ("webqsp", "cwq", "metaqa")
SHARES = ("first", "in_five", "in_ten", "in_linked", "all_linked", "exactly_linked")
_MEDIATOR = re.compile(r"^[mg]\.")
_ASKED = 10  # candidates


def questions_of(shared: Path, name: str, split: str) -> list[Question]:
    """Return the questions of a set; ``split``: all, validation (the held-out fifth) or rest."""
    data = shared / "data"
    if name == "metaqa":
        files = [(data / "metaqa" / f"{hops}-hop" / "qa_dev.txt", "metaqa") for hops in (1, 2, 3)]
    else:
        files = [(data / "freebase_subgraph" / f"{name}.dev-half.jsonl", f"{name}-graph")]
    every = [one for file, form in files for one in read_questions(file, form).questions]
    if split == "all":
        return every
    return [one for one in every if is_held_out(one.id) == (split == "validation")]


def kg_of(name: str) -> str:
    """Return the folder of the KG that a set is asked of."""
    return "metaqa" if name == "metaqa" else "freebase_subgraph"


def build(shared: Path, kg: str, folder: Path) -> SqliteStore:
    """Write a KG's triples into an embedded store and open it."""
    if kg == "metaqa":
        lines = (shared / "data" / kg / "kb.txt").read_text("utf-8").splitlines()
        triples = [tuple(line.split("|")) for line in lines]
    else:
        with (shared / "data" / kg / "triples.tsv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
        triples = [tuple(row[:3]) for row in rows]
    edges = [{"head": head, "relation": what, "tail": tail} for head, what, tail in triples]
    ids = sorted({end for head, _, tail in triples for end in (head, tail)})
    nodes = [
        {"id": id_, "name": None, "kind": Kind.MEDIATOR}
        if _MEDIATOR.match(id_)
        else {"id": id_, "name": id_, "kind": Kind.ENTITY}
        for id_ in ids
    ]
    tables = assemble(
        [
            EntityBatch(pa.RecordBatch.from_pylist(nodes, schema=ENTITY_SCHEMA)),
            EdgeBatch(pa.RecordBatch.from_pylist(edges, schema=EDGE_SCHEMA)),
        ],
        name=kg,
        source=kg,
        direction="out",
        dropped=Counter(),
    )
    path = folder / f"{kg}.sqlite"
    SqliteWriter(path).write(tables, Silent())
    return SqliteStore(path)


@dataclass(slots=True)
class Linked:
    """What came of the questions: a share for each of ``SHARES``, milliseconds, the misses."""

    shares: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in SHARES})
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    topics: int = 0
    right_topics: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    misses: list[tuple[str, str, list[str], list[Candidate]]] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """Return percentages over all questions with 95 % intervals, and milliseconds."""
        total = len(self.wall)
        wall, cpu = sorted(self.wall), sorted(self.cpu)
        return {
            "questions": total,
            **{name: 100 * sum(shares) / total for name, shares in self.shares.items()},
            "intervals": {
                name: [100 * one for one in interval(shares) or ()]
                for name, shares in self.shares.items()
            },
            "topics_per_question": self.topics / total,
            "topic_precision": 100 * self.right_topics / max(1, self.topics),
            "ms_p50": wall[total // 2],
            "ms_p95": wall[int(total * 0.95)],
            "cpu_ms_p50": cpu[total // 2],
            "cpu_ms_p95": cpu[int(total * 0.95)],
            "misses": dict(self.classes.most_common()),
        }


def measure(
    store: GraphStore, questions: Iterable[Question], encoder: TextEncoder | None = None
) -> Linked:
    """Link every question and compare with the topic entities that its file gives."""
    found = Linked()
    for question in questions:
        expected = meanings_of(store, known_topics(store, question), question.names)
        gold = set(expected.ids)
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            candidates = link(store, question.question, _ASKED, encoder=encoder)
        except LinkingError:
            candidates = []
        found.wall.append(1_000 * (time.perf_counter() - wall))
        found.cpu.append(1_000 * (time.process_time() - cpu))
        ids = expected.canonical([one.id for one in candidates])
        linked = set(expected.canonical([one.id for one in topic_entities(candidates)]))
        found.topics += len(linked)
        found.right_topics += len(linked & gold)
        right = {
            "first": ids[:1],
            "in_five": ids[:5],
            "in_ten": ids,
            "in_linked": linked,
        }
        for name, those in right.items():
            found.shares[name].append(float(bool(gold.intersection(those))))
        found.shares["all_linked"].append(float(bool(gold) and gold <= linked))
        found.shares["exactly_linked"].append(float(gold == linked))
        if not gold.intersection(ids[:1]):
            kind = fault(question.question, expected.names, gold, candidates)
            found.classes[kind] += 1
            found.misses.append((kind, question.question, list(expected.names), candidates))
    return found


def fault(
    question: str, names: Sequence[str], gold: set[str], candidates: Sequence[Candidate]
) -> str:
    """Return what kind of miss it is that the first candidate is not a gold entity."""
    if not gold:
        return "the file gives none"
    right = next((one for one in candidates if one.id in gold), None)
    if right is not None:
        first = candidates[0]
        if right.start < first.end and first.start < right.end:
            return "another entity of the same words"
        return "another part of the question"
    words = set(normalise(question).split())
    shares = [len(words & set(normalise(name).split())) / len(name.split()) for name in names]
    if max(shares, default=0.0) >= 1.0:
        return "name written, not among ten"
    return "name written in part" if any(shares) else "no word of the name written"
