"""The rows of the ablations and baselines, how each is run, and the tables that they make.

A run is one `kgqa eval` of one question file with some flags; several tables may show the same one.
Each has a folder of its own and goes on from it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.errors import EntityNotFoundError
from kgqa.graph.model import keys_array
from kgqa.linking.resolve import resolve_entities
from kgqa.paths.walk import WalkRules, walk
from kgqa.questions.base import is_held_out
from kgqa.questions.meanings import known_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.questions import Question

ROOT = Path(__file__).parents[2]
KG = "fbsub"
SETS = {"webqsp": "WebQSP", "cwq": "CWQ"}
MOST_PATHS = 200_000  # paths of an entity that are counted
_OURS = ("KGQA_", "NEO4J_", "OPENAI_")
_KEPT = ("KGQA_CACHE", "KGQA_DEVICE")


@dataclass(frozen=True)
class Row:
    """A run: its name, the flags of `kgqa eval`, the KG, and whether a general LLM takes part."""

    name: str
    label: str
    flags: tuple[str, ...] = ()
    general: bool = False
    kg: str = KG
    published: str = ""
    slow: bool = False  # tens of seconds a question, without a general LLM

    @property
    def module(self) -> str:
        """What is run: `kgqa`, or with the method that is only compared with."""
        return "scripts.benchmarks.unconstrained" if "unconstrained" in self.flags else "kgqa"

    @property
    def costly(self) -> bool:
        """Whether it may be asked of fewer questions than the others."""
        return self.general or self.slow


@dataclass(frozen=True)
class Table:
    """A table: its title, its rows, and what is said under it."""

    title: str
    rows: tuple[Row, ...]
    said: str = ""
    sizes: bool = False  # whether the rows are hops, and show the sizes of tries


DEFAULT = Row(
    "default",
    "the default: K 10, L 2, beam, expansion, no general LLM",
    published="58.0 / 70.1 / 57.0 and 32.8 / 64.3 / 39.4 (P / R / F1 without the general LLM)",
)
FROM_03 = ("--set", "answer_threshold=0.3")
VOTE = Row("vote", "no expansion: a vote over the decoded paths", ("--set", "expand=false"))
GENERAL = Row(
    "general",
    "with the general LLM",
    general=True,
    published="92.2 / 74.1 and 75.8 / 61.7 (Hit / F1, Llama-3.1-8B and GPT-4o-mini)",
)


def noise_rows() -> tuple[Row, ...]:
    """Return the rows of changed graphs."""
    return tuple(
        Row(f"{change}-{share}", f"{share} % of the edges {change}", kg=f"{KG}-{change}-{share}")
        for change in ("removed", "falsified")
        for share in (5, 20, 50)
    )


TABLES = (
    Table(
        "The constraint",
        (
            Row("vote", "constraint on, a vote over the paths", VOTE.flags, published="100 (CWQ)"),
            Row(
                "unconstrained",
                "constraint off, the same model and prompt",
                (
                    "--method",
                    "unconstrained",
                ),
                published="48.1 (CWQ)",
                slow=True,
            ),
        ),
        "*Paths in the graph* is the share of written paths that are in the graph. The published "
        "figures are the share among correctly answered questions, which is *grounded of correct* "
        "here.",
    ),
    Table(
        "The two models",
        (
            DEFAULT,
            GENERAL,
        ),
    ),
    Table(
        "Training the KG-LLM",
        (
            Row("zero-shot", "zero-shot: no adapter", ("--adapter", "none")),
            Row("few-shot", "few-shot: three examples, no adapter", ("--preset", "few-shot")),
            Row("default", "tuned: the bundled adapter"),
        ),
    ),
    Table(
        "Number of decoded paths (K)",
        tuple(
            Row(f"k{k}" if k != 10 else "default", f"K = {k}", ("--k", str(k)) if k != 10 else ())
            for k in (1, 3, 5, 10, 20)
        ),
    ),
    Table(
        "Maximum number of hops (L)",
        tuple(
            Row(
                f"l{hops}" if hops != 2 else "default",
                f"L = {hops}",
                ("--hops", str(hops)) if hops != 2 else (),
            )
            for hops in (1, 2, 3, 4)
        ),
        sizes=True,
    ),
    Table(
        "Search",
        (
            Row("default", "beam"),
            Row("diverse", "diverse beam, penalty 1", ("--search", "diverse")),
            Row(
                "exact",
                "exact, at most 60 forward passes",
                ("--search", "exact", "--set", "max_forward_passes=60"),
            ),
        ),
    ),
    Table(
        "From paths to answers",
        (
            VOTE,
            Row(
                "combined",
                "relation paths combined, answer threshold 0.3",
                ("--set", "max_tails=1", *FROM_03),
            ),
            Row("expanded", "the same, and expanded", FROM_03),
            Row("default", "the same, threshold 0.9 for several topic entities: the default"),
        ),
        "Each row adds a step of [From paths to answers](answers.md) to the row above it. In the "
        "second row, relation paths with a single tail are still expanded.",
    ),
    Table(
        "Mediators",
        (
            Row("default", "collapsed, L = 2"),
            Row("keep-l2", "kept, L = 2 edges", ("--set", "mediators=keep")),
            Row("keep-l4", "kept, L = 4 edges", ("--set", "mediators=keep", "--hops", "4")),
        ),
    ),
    Table(
        "A faulty graph",
        (Row("default", "the graph as it is"), *noise_rows()),
        "Gold answers are those of the unchanged graph. Paths are checked in the changed one.",
    ),
)


def runs(only: Sequence[str] = ()) -> list[Row]:
    """Return every run once, in the order of the tables; ``only`` some, by name."""
    every = {row.name: row for table in reversed(TABLES) for row in reversed(table.rows)}
    ordered = list(dict.fromkeys(row.name for table in TABLES for row in table.rows))
    unknown = sorted(set(only) - set(every))
    if unknown:
        raise SystemExit(f"There is no row {unknown[0]}. There are: {', '.join(ordered)}.")
    return [every[name] for name in ordered if not only or name in only]


def draw(file: Path, number: int, seed: int, to: Path, first: int | None = None) -> int:
    """Write ``number`` questions of the validation fifth of ``file``, drawn by ``seed``, to ``to``.

    They stay in the file's order. ``first``: only those that were drawn first, so many. Returns how
    many there are.
    """
    with file.open(encoding="utf-8") as lines:
        held = [line for line in lines if is_held_out(str(json.loads(line)["id"]))]
    drawn = random.Random(seed).sample(range(len(held)), min(number, len(held)))
    chosen = sorted(drawn[:first])
    to.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(held[place] for place in chosen)
    if to.exists() and to.read_text("utf-8") != text:
        raise SystemExit(
            f"{to} holds other questions: name another folder with --out, or keep --questions and "
            "--seed as they were."
        )
    to.write_text(text, "utf-8")
    return len(chosen)


@dataclass
class Runner:
    """Runs rows as `kgqa eval` in processes of their own, and keeps their figures.

    ``server``: the environment of the general LLM, and its model's name. ``costly``: of how many
    questions costly rows are asked; None: of all.
    """

    out: Path
    home: Path
    server: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    answer_tokens: int | None = None
    costly: int | None = None

    def command(self, row: Row, name: str) -> list[str]:
        """Return the command of a row over the question set ``name``."""
        some = f"-{self.costly}" if row.costly and self.costly else ""
        file = self.out / "questions" / f"{name}{some}.jsonl"
        made = [f"{name}-graph", str(file), "--split", "validation", "--kg", row.kg, *row.flags]
        if "--method" not in row.flags:
            made += ["--method", "gcr"]
        if row.general:
            made += ["--general-model", self.model]
            if self.answer_tokens is not None:
                made += ["--set", f"answer_tokens={self.answer_tokens}"]
        return [*made, "--out", str(self.out / name / row.name), "--json"]

    def kept(self, row: Row, name: str) -> dict[str, Any] | None:
        """Return the figures of a row that was run with the same command before."""
        file = self._figures(row, name)
        if not file.exists():
            return None
        found = json.loads(file.read_text("utf-8"))
        return dict(found["figures"]) if found["command"] == self.command(row, name) else None

    def _figures(self, row: Row, name: str) -> Path:
        return self.out / name / row.name / "figures.json"

    def run(self, row: Row, name: str) -> dict[str, Any]:
        """Run a row and return its figures, ``{"failed": why}`` where it fails."""
        command = self.command(row, name)
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(_OURS) or key in _KEPT
        }
        environment |= {"KGQA_HOME": str(self.home)}
        if row.general:
            environment |= self.server
        done = subprocess.run(
            [sys.executable, "-m", row.module, "eval", *command],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            return {"failed": last}
        figures: dict[str, Any] = json.loads(done.stdout)
        file = self._figures(row, name)
        part = file.with_suffix(".partial")
        part.write_text(json.dumps({"command": command, "figures": figures}), "utf-8")
        part.replace(file)
        return figures


def trie_sizes(
    store: GraphStore, questions: Iterable[Question], hops: Sequence[int]
) -> dict[int, float]:
    """Return for each L the median number of paths out of the topic entities of ``questions``.

    An entity with more than ``MOST_PATHS`` paths counts as having so many.
    """
    found: set[int] = set()
    for question in questions:
        with contextlib.suppress(EntityNotFoundError):
            found |= {one.key for one in resolve_entities(store, known_topics(store, question))}
    sizes = {}
    for length in hops:
        counts = []
        for key in sorted(found):
            table, over = walk(
                store, keys_array([key]), WalkRules(hops=length, direction="out"), MOST_PATHS
            )
            counts.append(MOST_PATHS if len(over) else len(table))
        sizes[length] = statistics.median(counts) if counts else 0.0
    return sizes


def markdown(
    figures: Mapping[str, Mapping[str, Mapping[str, Any]]],
    sizes: Mapping[str, Mapping[int, float]],
    asked: Mapping[str, int],
    about: str,
) -> str:
    """Return all tables; ``figures``: of each question set each row's, by name."""
    parts = [
        f"{' and '.join(f'{asked[one]} {SETS[one]}' for one in asked)} questions of the validation "
        f"fifths, drawn at random; {about} 95 % bootstrap intervals in brackets. **The subgraph "
        "over-represents answers, so these figures cannot be compared with published ones**; the "
        "published figures of GCR (Freebase, whole test sets, an 8B model) are in a separate "
        "column. If a row was asked fewer questions, its first cell says so; they are a subset of "
        "the others.",
    ]
    run = {name for one in figures.values() for name in one}
    for every in TABLES:
        table = replace(every, rows=tuple(row for row in every.rows if row.name in run))
        if len(table.rows) < 2:  # nothing to compare
            continue
        parts += ["", f"### {table.title}", "", *_table(table, figures, sizes, asked)]
        if table.said:
            parts += ["", table.said]
    return "\n".join(parts)


def _table(
    table: Table,
    figures: Mapping[str, Mapping[str, Mapping[str, Any]]],
    sizes: Mapping[str, Mapping[int, float]],
    asked: Mapping[str, int],
) -> list[str]:
    published = any(row.published for row in table.rows)
    heads = [""]
    for one in figures:
        title = SETS[one]
        heads += [f"{title} Hits@1", "Hit@K", "F1", "Hit as published", "s"]
        heads += ["median paths"] if table.sizes else []
    heads += ["paths in the graph", "grounded of correct"]
    heads += ["published"] if published else []
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in table.rows:
        cells = [row.label]
        for one in figures:
            found = figures[one].get(row.name)
            cells += _cells(found, asked[one])
            if table.sizes:
                length = int(row.label.rpartition(" ")[2])
                size = sizes.get(one, {}).get(length)
                cells.append("" if size is None else f"{size:,.0f}")
        cells += [_share(figures, row.name, "grounded_paths")]
        cells += [_share(figures, row.name, "faithful_of_correct")]
        cells += [row.published] if published else []
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _cells(found: Mapping[str, Any] | None, asked: int) -> list[str]:
    if found is None:
        return ["not run", "", "", "", ""]
    if "failed" in found:
        return [f"failed: {found['failed']}".replace("|", "/"), "", "", "", ""]
    cells = []
    for name in ("hits_at_1", "hit_at_k", "f1", "hit"):
        between = found["intervals"].get(name)
        shown = "" if between is None else f" [{between[0]:.1f}, {between[1]:.1f}]"
        cells.append(f"{found[name]:.1f}{shown}")
    if found["questions"] != asked:
        cells[0] += f" of {found['questions']}"
    seconds = found["seconds"]["p50"]
    return [*cells, "" if seconds is None else f"{seconds:.2f}"]


def _share(figures: Mapping[str, Mapping[str, Mapping[str, Any]]], row: str, name: str) -> str:
    """Return a share for each question set."""
    shown = []
    for one in figures:
        found = figures[one].get(row)
        if found is None or "failed" in found:
            shown.append("")
        else:
            shown.append(f"{found[name]:.1f}")
    return " / ".join(shown) if any(shown) else ""
