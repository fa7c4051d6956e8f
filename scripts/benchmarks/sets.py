"""All available question sets as small KGs with rows, and whether an answer is the one wanted.

A row has ``id``, ``question``, ``answers`` (a list stands for forms of one answer), and
``topic_entities`` where they are given to the method.
"""

from __future__ import annotations

import hashlib
import math
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kgqa
from kgqa.questions import read_questions
from scripts.benchmarks import common
from scripts.benchmarks.evals import SETS, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kgqa.answers.answer import Answer

Row = dict[str, Any]

TESTS = Path(__file__).resolve().parents[2] / "tests" / "data"
OWN = ("own", "own_later", "own_third")
OWN_FILES = ("questions", "conditions", "whole", "yes_no")
REAL = {"elements": "elements.db", "flights": "", "starwars": "starwars.tsv"}


@dataclass(frozen=True)
class Asked:
    """A KG that :meth:`open` loads into a folder, and the questions of it."""

    name: str
    load: Callable[[Path], kgqa.KG]
    rows: list[Row]
    linked: bool = True
    more: dict[str, Any] = field(default_factory=dict)


def every_set(shared: Path | None) -> dict[str, list[Asked]]:
    """Return the KGs of each set; only the project's own without the folder ``shared``."""
    sets = {"own": [asked for name in OWN for asked in folders(TESTS / name)]}
    if shared is None:
        return sets
    data = shared / "data"
    return {
        **sets,
        "shared": [*folders(data / "own")],
        "northwind": [*northwind(data / "text2cypher")],
        "real": [*real(data / "real")],
        **{name: [benchmark(data, name)] for name in SETS},
    }


def folders(root: Path) -> Iterator[Asked]:
    """Yield the KG of each folder with triples, asked all its files of questions."""
    for folder in sorted(path.parent for path in root.glob("*/triples.tsv")):
        names = folder / "names.tsv"
        more = {"names": names} if names.exists() else {}

        def load(home: Path, folder: Path = folder, more: dict[str, Any] = more) -> kgqa.KG:
            return kgqa.ingest("triples", folder / "triples.tsv", kg=folder.name, home=home, **more)

        files = [folder / f"{name}.jsonl" for name in OWN_FILES]
        rows = [
            {**row, "id": f"{folder.name}/{file.stem}/{row['id']}"}
            for file in files
            if file.exists()
            for row in common.json_lines(file)
        ]
        yield Asked(folder.name, load, rows)


def northwind(data: Path) -> Iterator[Asked]:
    """Yield Neo4j's Northwind as tables; rows of one column alone can be compared."""
    rows = [
        {
            "id": row["id"],
            "question": row["question"],
            "answers": [cell for cells in row["rows"] for cell in cells[:1]],
        }
        for row in common.json_lines(data / "northwind.questions.jsonl")
        if len(row["keys"]) == 1 and not row["pool"]
    ]

    def load(home: Path) -> kgqa.KG:
        return kgqa.ingest("tables", data / "northwind_tables", kg="northwind", home=home)

    yield Asked("northwind", load, rows)


def real(data: Path) -> Iterator[Asked]:
    """Yield the public data sets that people have asked; a follow-up question is left out."""
    for name, file in REAL.items():
        source = data / name / file if file else data / name
        form = "triples" if file.endswith(".tsv") else "tables"

        def load(home: Path, source: Path = source, form: str = form) -> kgqa.KG:
            return kgqa.ingest(form, source, kg=source.stem, home=home)

        rows = [
            {**row, "answers": row["gold"] if row["form"] != "none" else []}
            for row in common.json_lines(data / "questions" / f"{name}.jsonl")
            if not row.get("after")
        ]
        yield Asked(name, load, rows)


def benchmark(data: Path, name: str) -> Asked:
    """Return one of the published benchmarks; their topic entities are given."""
    _, form, file, kg = SETS[name]
    rows = [
        {
            "id": f"{name}/{question.id}",
            "question": question.question,
            "topic_entities": [question.names.get(id_, id_) for id_ in question.topic_entities],
            "answers": [[id_, question.names.get(id_, id_)] for id_ in question.answers],
        }
        for question in read_questions(data / file, form).questions
    ]
    return Asked(kg, lambda home: opened(kg, data, home), rows, linked=False)


def rank_of(row: Row) -> str:
    """Return what rows are ordered by, to take the same ones of a set each time."""
    return hashlib.blake2b(row["id"].encode()).hexdigest()


def right(row: Row, answer: Answer, *, first: bool = False) -> bool:
    """Return whether the answer gives all that is wanted and no more; ``first``: one of it first.

    A number is right to four digits; nothing wanted means that nothing must be answered.
    """
    given = [{*map(key, (entity.id or "", entity.name))} for entity in answer.answers]
    wanted = [
        {*map(key, forms if isinstance(forms, list) else [forms])} for forms in row["answers"]
    ]
    if not wanted or not given:
        return not wanted and not given
    if answer.count is not None and [{key(answer.count)}] == wanted:
        return True
    if first:
        return any(forms & given[0] for forms in wanted)
    return are_all(given, wanted)


def are_all(given: Sequence[set[str]], wanted: Sequence[set[str]]) -> bool:
    """Return whether what is given is all that is wanted and no more, each with its forms."""
    return all(any(forms & names for names in given) for forms in wanted) and all(
        any(forms & names for forms in wanted) for names in given
    )


def key(value: object) -> str:
    """Return a name or number in the form that two of them are compared in."""
    text = str(value).strip().casefold()
    with suppress(ValueError):
        number = float(text.replace(",", ""))
        return f"{number:.4g}" if math.isfinite(number) else text
    return text
