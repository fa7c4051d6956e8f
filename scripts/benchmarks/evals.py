"""The data sets that answers are measured on: their KGs, loaded once, and questions drawn of them.

What the caller's environment says of KGs, stores and general LLMs does not reach a run; devices and
caches do.
"""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, Any

import kgqa
from kgqa.graph.sqlite_file import FILE_NAME
from kgqa.questions import read_questions
from kgqa.questions.base import is_held_out

if TYPE_CHECKING:
    from pathlib import Path

SETS = {  # title, form, file, KG
    "webqsp": ("WebQSP", "webqsp-graph", "freebase_subgraph/webqsp.dev-half.jsonl", "fbsub"),
    "cwq": ("CWQ", "cwq-graph", "freebase_subgraph/cwq.dev-half.jsonl", "fbsub"),
    "metaqa1": ("MetaQA, 1 hop", "metaqa", "metaqa/1-hop/qa_dev.txt", "metaqa"),
    "metaqa2": ("MetaQA, 2 hops", "metaqa", "metaqa/2-hop/qa_dev.txt", "metaqa"),
    "metaqa3": ("MetaQA, 3 hops", "metaqa", "metaqa/3-hop/qa_dev.txt", "metaqa"),
}
_TRIPLES: dict[str, tuple[str, dict[str, Any]]] = {  # of a KG: its file, and how it is read
    "fbsub": ("freebase_subgraph/triples.tsv", {"mediators": "[mg]\\.[0-9a-z_]+"}),
    "metaqa": (
        "metaqa/kb.txt",
        {"delimiter": "|", "columns": "head,relation,tail", "header": False, "direction": "both"},
    ),
}
_HIDDEN = ("KGQA_KG", "KGQA_GRAPH", "KGQA_HOME", "NEO4J_URI", "KGQA_GENERAL_MODEL")


def opened(kg: str, data: Path, home: Path) -> kgqa.KG:
    """Return a KG in ``home``, which is loaded from the folder ``data`` unless it is there."""
    for name in _HIDDEN:
        os.environ.pop(name, None)
    if (home / kg / FILE_NAME).exists():
        return kgqa.open(kg, home=home)
    file, options = _TRIPLES[kg]
    return kgqa.ingest("triples", data / file, kg=kg, home=home, **options)


def own_graph(folder: Path, home: Path) -> kgqa.KG:
    """Return the KG of a folder with triples.tsv, perhaps names.tsv; ``home`` as for opened."""
    if (home / folder.name / FILE_NAME).exists():
        return kgqa.open(folder.name, home=home)
    names = folder / "names.tsv"
    more = {"names": names} if names.exists() else {}
    return kgqa.ingest("triples", folder / "triples.tsv", kg=folder.name, home=home, **more)


def cell(result: dict[str, Any], name: str) -> str:
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
        every = file.read_text("utf-8").strip().split("\n")
        kept = [line for line in every if str(json.loads(line)["id"]) in wanted]
    to.write_text("".join(f"{line}\n" for line in kept), "utf-8")
    return form, to
