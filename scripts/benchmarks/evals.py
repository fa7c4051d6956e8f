"""Runs of `kgqa` by the scripts that measure answers: a home of their own, figures as JSON.

What the caller's environment says of KGs, stores and general LLMs does not reach them; devices and
caches do.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_file import FILE_NAME
from kgqa.questions import read_questions
from kgqa.questions.base import is_held_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


SETS = {  # title, form, file, KG
    "webqsp": ("WebQSP", "webqsp-graph", "freebase_subgraph/webqsp.dev-half.jsonl", "fbsub"),
    "cwq": ("CWQ", "cwq-graph", "freebase_subgraph/cwq.dev-half.jsonl", "fbsub"),
    "metaqa1": ("MetaQA, 1 hop", "metaqa", "metaqa/1-hop/qa_dev.txt", "metaqa"),
    "metaqa2": ("MetaQA, 2 hops", "metaqa", "metaqa/2-hop/qa_dev.txt", "metaqa"),
    "metaqa3": ("MetaQA, 3 hops", "metaqa", "metaqa/3-hop/qa_dev.txt", "metaqa"),
}
ROOT = Path(__file__).parents[2]
_HIDDEN = ("KGQA_KG", "KGQA_GRAPH", "KGQA_HOME", "NEO4J_URI", "KGQA_GENERAL_MODEL")


def kgqa(arguments: Sequence[str], home: Path, module: str = "kgqa") -> str:
    """Run a command and return what it printed; end with what it complained of."""
    environment = {key: value for key, value in os.environ.items() if key not in _HIDDEN}
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**environment, "KGQA_HOME": str(home), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SystemExit(f"kgqa {' '.join(arguments)}: {said}")
    return done.stdout


def load(kgs: Iterable[str], data: Path, home: Path) -> None:
    """Load ``kgs`` from the folder ``data`` into ``home`` unless they are there."""
    triples = {
        "fbsub": ["freebase_subgraph/triples.tsv", "--mediators", "[mg]\\.[0-9a-z_]+"],
        "metaqa": [
            *("metaqa/kb.txt", "--delimiter", "|", "--columns", "head,relation,tail"),
            *("--set", "header=false", "--direction", "both"),
        ],
        "cn100k": [
            *("conceptnet/cn100k_train.txt", "--columns", "relation,head,tail"),
            *("--direction", "both"),
        ],
    }
    for kg in kgs:
        if (home / kg / FILE_NAME).exists():
            continue
        if kg in triples:
            file, *flags = triples[kg]
            kgqa(["ingest", "triples", str(data / file), "--kg", kg, *flags], home)
        else:
            kgqa(["ingest", kg, str(data / kg), "--kg", kg], home)


def loaded(kg: str, data: Path, home: Path) -> SqliteStore:
    """Return the store of a KG, which is loaded from the folder ``data`` unless it is there."""
    load([kg], data, home)
    return SqliteStore(home / kg / FILE_NAME, name=kg)


def figures(
    arguments: Sequence[str], home: Path, out: Path, module: str = "kgqa"
) -> dict[str, Any]:
    """Return the figures of `kgqa eval`; a run that was stopped goes on from ``out``."""
    result: dict[str, Any] = json.loads(
        kgqa(["eval", *arguments, "--out", str(out), "--json"], home, module)
    )
    return result


def share(result: dict[str, Any], name: str) -> str:
    """Return a figure with its interval, as a cell of a table."""
    between = result["intervals"].get(name)
    shown = "" if between is None else f" [{between[0]:.1f}, {between[1]:.1f}]"
    return f"{result[name]:.1f}{shown}"


def draw(file: Path, form: str, number: int, seed: int, to: Path) -> tuple[str, Path]:
    """Write ``number`` questions of the validation fifth of ``file``; return their form and file.

    MetaQA's ids are line numbers, so its questions are written as JSON lines, which keep them.
    """
    questions = [
        question for question in read_questions(file, form).questions if is_held_out(question.id)
    ]
    wanted = set(
        random.Random(seed).sample(
            [question.id for question in questions], min(number, len(questions))
        )
    )
    to = to.with_suffix(".jsonl")
    to.parent.mkdir(parents=True, exist_ok=True)
    if form == "metaqa":
        fields = ("id", "question", "topic_entities", "answers", "hops")
        kept = [
            json.dumps({field: getattr(question, field) for field in fields})
            for question in questions
            if question.id in wanted
        ]
        form = "jsonl"
    else:
        every = file.read_text("utf-8").splitlines()
        kept = [line for line in every if str(json.loads(line)["id"]) in wanted]
    to.write_text("".join(f"{line}\n" for line in kept), "utf-8")
    return form, to
