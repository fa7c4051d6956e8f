"""Text that a general LLM draws triplets from: for whoever has no KG.

Each paragraph is one call; what the model writes is read line by line (``text_triplets``). Names
that are the same when normalised are one entity, whose id is that form; the spelling that comes
most often is its name, the others are aliases. An edge keeps the sentence that says it and the id
of its paragraph. A call that fails leaves out its paragraph, which is counted and named. What it
does not do: call the model (a callable is handed in), join different names of one thing, or check a
fact beyond that both its names stand in the paragraph.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from kgqa.errors import DumpMalformedError, KgqaError
from kgqa.graph.model import EDGE_SCHEMA, EdgeBatch
from kgqa.graph.names import normalise
from kgqa.loaders.batches import entity_batch, relation_batch
from kgqa.loaders.text_paragraphs import LONGEST, count_paragraphs, files_of, paragraphs_of
from kgqa.loaders.text_triplets import PROMPT_VERSION, prompt, read_reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch, Direction
    from kgqa.loaders.base import Rejects, Report
    from kgqa.loaders.text_paragraphs import Paragraph
    from kgqa.loaders.text_triplets import Triplet
    from kgqa.progress import Progress

FAILED = "paragraph whose call failed"
NO_FACT = "paragraph without a fact"
NO_REPLY = "an empty reply"
OTHER_FILE = "file of another kind"
_HOPELESS = 8  # calls that fail before any is answered: then it is no paragraph's fault
_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model wrote; ``cut``: it came to its limit of tokens in the middle."""

    text: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call to be made: the paragraph's number, and what the model is asked."""

    number: int
    prompt: str


Ask: TypeAlias = "Callable[[Iterable[Call]], Iterator[tuple[Call, Reply | KgqaError]]]"
"""Makes calls, several at a time if it likes: each with its reply or its error, in any order."""


@dataclass(frozen=True, slots=True)
class TextOptions:
    """What decides a reply: a load of other options does not go on with the stages of this one.

    ``model`` and ``server`` say who is asked, ``max_tokens`` how long a reply may be. ``limit``:
    only the first paragraphs.
    """

    model: str = ""
    server: str = ""
    max_tokens: int = 0
    limit: int | None = None
    longest: int = LONGEST
    prompt_version: int = PROMPT_VERSION


class TextLoader:
    """Reads text through ``ask``; see the module."""

    name = "text"
    direction: Direction = "both"
    licence = ""
    where = "your own files: kgqa ingest text FILE…"

    def __init__(self, ask: Ask, options: TextOptions | None = None) -> None:
        self.options = options or TextOptions()
        self._ask = ask

    def count(self, sources: Sequence[Path]) -> int:
        """Return how many paragraphs ``sources`` have, up to the limit. Raises as ``read``."""
        found = count_paragraphs(files_of(sources)[0])
        return found if self.options.limit is None else min(found, self.options.limit)

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield edges as replies come, in the order of the paragraphs; entities at the end.

        ``report.lines`` counts the lines of replies. A line that is no triplet is rejected under
        its paragraph's id, and so is a paragraph whose call failed. Raises DumpNotFoundError,
        DumpMalformedError where no text is found, and the first calls' own error where none of them
        is answered.
        """
        files, others = files_of(sources)
        total = self.count(sources)
        if not total:
            names = ", ".join(name for _, name in files[:3])
            raise DumpMalformedError(
                f"There is no paragraph in {names}.", "Give files that hold text."
            )
        if others:
            report.dropped[OTHER_FILE] += len(others)
        paragraphs = islice(paragraphs_of(files, report.dropped, rejects), self.options.limit)
        graph = _Names()
        rows: list[tuple[str, str, str, str]] = []
        answered = failed = 0
        with progress.task("drawing triplets", total, "paragraphs") as task:
            for paragraph, reply in self._replies(paragraphs):
                task.advance()
                if isinstance(reply, KgqaError):
                    failed += 1
                    report.dropped[FAILED] += 1
                    rejects.add(paragraph.id, 0, FAILED, str(reply))
                    if not answered and failed >= min(_HOPELESS, total):
                        raise reply
                    continue
                answered += 1
                for triplet in _drawn(paragraph, reply, report, rejects):
                    rows.append(graph.edge(triplet, paragraph))
                if len(rows) >= _ROWS:
                    yield _edges(rows)
                    rows = []
        if rows:
            yield _edges(rows)
        if graph.entities:
            yield entity_batch(
                list(graph.entities),
                name=[_commonest(one)[0] for one in graph.entities.values()],
                aliases=[_commonest(one)[1:] for one in graph.entities.values()],
            )
            yield relation_batch(graph.relations)

    def _replies(
        self, paragraphs: Iterable[Paragraph]
    ) -> Iterator[tuple[Paragraph, Reply | KgqaError]]:
        """Yield each paragraph with its reply or its error, in their order."""
        asked: dict[int, Paragraph] = {}
        early: dict[int, Reply | KgqaError] = {}

        def calls() -> Iterator[Call]:
            for number, paragraph in enumerate(paragraphs):
                asked[number] = paragraph
                yield Call(number, prompt(paragraph.title, paragraph.sentences))

        following = 0
        for call, reply in self._ask(calls()):
            early[call.number] = reply
            while following in early:
                yield asked.pop(following), early.pop(following)
                following += 1


class _Names:
    """The entities and relations met so far, with how often each spelling came."""

    def __init__(self) -> None:
        self.entities: dict[str, Counter[str]] = {}
        self.relations: dict[str, str] = {}

    def edge(self, triplet: Triplet, paragraph: Paragraph) -> tuple[str, str, str, str]:
        """Return the row of EDGE_SCHEMA for a triplet of a paragraph."""
        words = normalise(triplet.relation)
        relation = words.replace(" ", "_")
        self.relations[relation] = words
        about = {"sentence": paragraph.sentences[triplet.sentence], "paragraph": paragraph.id}
        return (
            self._entity(triplet.head),
            relation,
            self._entity(triplet.tail),
            json.dumps(about, ensure_ascii=False),
        )

    def _entity(self, name: str) -> str:
        id_ = normalise(name)
        self.entities.setdefault(id_, Counter())[name] += 1
        return id_


def _drawn(
    paragraph: Paragraph, reply: Reply, report: Report, rejects: Rejects
) -> tuple[Triplet, ...]:
    """Return the triplets of a reply; count its lines, write down those that are none."""
    drawn = read_reply(reply.text, paragraph.title, paragraph.sentences, cut=reply.cut)
    report.lines += drawn.lines
    if drawn.nothing:
        report.dropped[NO_FACT] += 1
    if not drawn.lines:
        rejects.add(paragraph.id, 0, NO_REPLY, "")
    for one in drawn.rejected:
        rejects.add(paragraph.id, one.line, one.reason, one.text)
    return drawn.triplets


def _commonest(spellings: Counter[str]) -> list[str]:
    return sorted(spellings, key=lambda one: (-spellings[one], one))


def _edges(rows: Sequence[tuple[str, str, str, str]]) -> EdgeBatch:
    columns = [pa.array(column, type=pa.string()) for column in zip(*rows, strict=True)]
    return EdgeBatch(pa.RecordBatch.from_arrays(columns, schema=EDGE_SCHEMA))
