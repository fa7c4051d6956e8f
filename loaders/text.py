"""Text that a general LLM extracts triplets from: for users who have no KG.

Each paragraph is one call. The reply is lines ``head | relation | tail | number of the sentence``;
one of another form, or whose head or tail does not stand in the paragraph or its title, is rejected
with its reason. Names
that are the same when normalised are one entity, whose id is that form; the most frequent spelling
is its name, the others are aliases. An edge keeps the sentence that says it and the id of its
paragraph. A call that fails leaves out its paragraph, which is counted and named. Different names
of one thing are not joined, and of a fact no more is checked than that both its names stand in the
paragraph.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, ClassVar, Protocol

from kgqa.errors import DumpMalformedError, KgqaError, UsageError
from kgqa.graph.names import is_storable, normalise
from kgqa.loaders.base import Rejects, Report, edge_batch, entity_batch, lose, relation_batch
from kgqa.loaders.text_paragraphs import (
    LONGEST,
    Paragraph,
    count_paragraphs,
    files_of,
    paragraphs_of,
)
from kgqa.registry import Options, flag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch, Direction
    from kgqa.progress import Progress

PROMPT_VERSION = 1
NOTHING = "none"
LONGEST_NAME = 200  # characters
LONGEST_RELATION = 80

CUT = "the reply was cut short here"
COLUMNS = "not head | relation | tail | sentence"
EMPTY = "an empty part"
NO_NUMBER = "no number of a sentence"
NO_SENTENCE = "no sentence of this number"
TOO_LONG = "a name or relation too long to be one"
NO_WORD = "a name or relation without a letter or digit"
NOT_TEXT = "holds something that is not text"
TO_ITSELF = "head and tail are the same"
NO_HEAD = "the head is not in the paragraph"
NO_TAIL = "the tail is not in the paragraph"

_TASK = """\
Take the facts out of a paragraph. Write each fact on a line of its own, in four parts with | \
between them:
head | relation | tail | number of the sentence that says so

Head and tail are names of people, places, works, organisations or things, dates or numbers, \
written as the paragraph writes them. Where it says he, she or it, write the name. The relation is \
a few words, the same words for the same relation. Write only what the paragraph says. Where it \
says no fact, write: none

Title: Marsh Lark
1. The Marsh Lark is a small boat built in Aven in 1911.
2. It was designed by Ona Reed, who was born in Tolm.

Marsh Lark | built in | Aven | 1
Marsh Lark | year built | 1911 | 1
Marsh Lark | designed by | Ona Reed | 2
Ona Reed | born in | Tolm | 2

Now this paragraph. Write only the lines.

"""


@dataclass(frozen=True, slots=True)
class Triplet:
    """A fact that a paragraph states; ``sentence`` is the index of its sentence."""

    head: str
    relation: str
    tail: str
    sentence: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line of a reply that is not a valid triplet; ``line`` counts from 1."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """A parsed reply. ``lines``: the number of nonblank lines, each a triplet, rejected or "none".

    ``nothing``: the reply says that the paragraph states no fact.
    """

    triplets: tuple[Triplet, ...]
    rejected: tuple[Rejected, ...]
    lines: int
    nothing: bool


def prompt(title: str, sentences: Sequence[str]) -> str:
    """Return the prompt for extracting triplets from a paragraph."""
    heading = f"Title: {title}\n" if title else ""
    return _TASK + heading + "\n".join(f"{at}. {text}" for at, text in enumerate(sentences, 1))


def read_reply(text: str, title: str, sentences: Sequence[str], *, cut: bool = False) -> Extraction:
    """Parse a model's reply into triplets of a paragraph, and malformed lines with reasons.

    ``cut``: the reply reached its token limit, so that its last line cannot be trusted.
    """
    # only line feeds end a line: other separators that Unicode knows may stand in a name
    lines = [
        (at, text_line.strip())
        for at, text_line in enumerate(text.split("\n"), 1)
        if text_line.strip()
    ]
    if len(lines) == 1 and normalise(lines[0][1]) == NOTHING and not cut:
        return Extraction((), (), 1, nothing=True)
    # no name holds a |
    words = f" {normalise(' '.join(sentences))} | {normalise(title)} "
    triplets: list[Triplet] = []
    rejected: list[Rejected] = []
    for place, (number, line) in enumerate(lines, 1):
        triplet = CUT if cut and place == len(lines) else _parse_line(line, words, len(sentences))
        if isinstance(triplet, str):
            rejected.append(Rejected(number, triplet, line))
        else:
            triplets.append(triplet)
    return Extraction(tuple(triplets), tuple(rejected), len(lines), nothing=False)


def _parse_line(line: str, words: str, sentences: int) -> Triplet | str:
    """Parse a line as a triplet, or return why it is malformed; ``words``: the paragraph's text."""
    parts = [" ".join(part.split()) for part in line.split("|")]
    if len(parts) != 4:
        return COLUMNS
    head, relation, tail, number = parts
    if not all(parts):
        return EMPTY
    if not (number.isascii() and number.isdecimal() and len(number) < 6):
        return NO_NUMBER
    if not 1 <= int(number) <= sentences:
        return NO_SENTENCE
    if max(len(head), len(tail)) > LONGEST_NAME or len(relation) > LONGEST_RELATION:
        return TOO_LONG
    if not all(is_storable(part) and part.isprintable() for part in parts):
        return NOT_TEXT
    first, said, second = (normalise(part) for part in parts[:3])
    if not (first and said and second):
        return NO_WORD
    if first == second:
        return TO_ITSELF
    if f" {first} " not in words:
        return NO_HEAD
    if f" {second} " not in words:
        return NO_TAIL
    return Triplet(head, relation, tail, int(number) - 1)


FAILED = "paragraph whose call failed"
NO_FACT = "paragraph without a fact"
NO_REPLY = "an empty reply"
OTHER_FILE = "file of another kind"
_HOPELESS = 8  # calls that fail before any is answered: then no paragraph is to blame
_ROWS = 1_000


class ExtractionReply(Protocol):
    """A model's reply, with its number of tokens."""

    @property
    def text(self) -> str:
        """The text of the reply."""

    @property
    def completion_tokens(self) -> int:
        """The number of tokens of the reply, as the server counts them."""


class Complete(Protocol):
    """Calls a model, such as :meth:`kgqa.models.general.GeneralLLM.complete`; thread-safe."""

    def __call__(self, prompt: str, *, max_tokens: int) -> ExtractionReply:
        """Return the reply to ``prompt``. A KgqaError that it raises fails this call alone."""


class TextOptions(Options):
    """How triplets are extracted from texts."""

    heading: ClassVar[str] = "text"

    limit: int | None = flag(None, "Read only this many paragraphs.", ge=1)
    reply_tokens: int = flag(1_024, "Maximum number of tokens in a reply.", ge=1)
    # not part of the options' text, by which a stopped load is recognised
    concurrency: int = flag(8, "Number of simultaneous calls.", ge=1, repr=False)


class TextLoader:
    """Reads text through ``complete``; see the module."""

    name = "text"
    direction: Direction = "both"
    licence = ""
    where = "your own files: kgqa ingest text FILE…"
    extracts = True  # is made with what asks a general LLM
    Options = TextOptions

    def __init__(
        self,
        options: TextOptions | None = None,
        complete: Complete | None = None,
        model: str = "",
    ) -> None:
        """Set the options, and the function that calls the model; :meth:`read` needs it.

        ``model`` identifies model and server: a stopped load continues only with the same.
        """
        self.options = options or TextOptions()
        self.identity = f"{model}, prompt {PROMPT_VERSION}, paragraphs of {LONGEST}"
        self._complete = complete

    def count(self, sources: Sequence[Path]) -> int:
        """Count the paragraphs of ``sources``, up to the limit. Raises as ``read``."""
        total = count_paragraphs(files_of(sources)[0])
        return total if self.options.limit is None else min(total, self.options.limit)

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield edges as replies come, in the order of the paragraphs; entities at the end.

        ``report.lines`` counts the lines of replies. A line that is malformed is rejected under its
        paragraph's id, and so is a paragraph whose call failed. Raises UsageError without a model,
        DumpNotFoundError, DumpMalformedError if no text is found, and the first calls' own error if
        none of them is answered.
        """
        if self._complete is None:
            raise UsageError(
                "Triplets are extracted from text by a general LLM, and none is named.",
                "Name one by `general_model`, and its server by OPENAI_BASE_URL.",
            )
        files, others = files_of(sources)
        total = self.count(sources)
        if not total:
            names = ", ".join(name for _, name in files[:3])
            raise DumpMalformedError(
                f"No paragraph was found in {names}.", "Give files that hold text."
            )
        if others:
            lose(report.dropped, OTHER_FILE, len(others), others[0].name)
        paragraphs = islice(paragraphs_of(files, report.dropped, rejects), self.options.limit)
        graph = _Names()
        rows: list[tuple[str, str, str, str]] = []
        answered = failed = 0
        with progress.task("extracting triplets", total, "paragraphs") as task:
            for paragraph, reply in self._ordered_replies(self._complete, paragraphs):
                task.advance()
                try:
                    triplets = self._triplets(paragraph, reply.result(), report, rejects)
                except KgqaError as error:
                    failed += 1
                    report.dropped[FAILED] += 1
                    rejects.add(paragraph.id, 0, FAILED, str(error))
                    if not answered and failed >= min(_HOPELESS, total):
                        raise
                    continue
                answered += 1
                rows += [graph.edge(triplet, paragraph) for triplet in triplets]
                if len(rows) >= _ROWS:
                    yield edge_batch(*zip(*rows, strict=True))
                    rows = []
        if rows:
            yield edge_batch(*zip(*rows, strict=True))
        if graph.entities:
            spellings = [_by_frequency(entity) for entity in graph.entities.values()]
            yield entity_batch(
                list(graph.entities),
                name=[first for first, *_ in spellings],
                aliases=[rest for _, *rest in spellings],
            )
            yield relation_batch(graph.relations)

    def _ordered_replies(
        self, complete: Complete, paragraphs: Iterable[Paragraph]
    ) -> Iterator[tuple[Paragraph, Future[ExtractionReply]]]:
        """Yield each paragraph with its reply, in order; calls run in daemon threads.

        Daemon threads do not keep an interrupted program from ending.
        """
        free = Semaphore(self.options.concurrency)
        waiting: deque[tuple[Paragraph, Future[ExtractionReply]]] = deque()

        def call(paragraph: Paragraph, reply: Future[ExtractionReply]) -> None:
            """Call the model on a paragraph, and set its reply or its error."""
            try:
                asked = prompt(paragraph.title, paragraph.sentences)
                reply.set_result(complete(asked, max_tokens=self.options.reply_tokens))
            except BaseException as error:  # raised where the reply is wanted
                reply.set_exception(error)
            finally:
                free.release()

        for paragraph in paragraphs:
            free.acquire()
            waiting.append((paragraph, Future()))
            Thread(target=call, args=waiting[-1], daemon=True).start()
            while waiting and waiting[0][1].done():
                yield waiting.popleft()
        yield from waiting

    def _triplets(
        self, paragraph: Paragraph, reply: ExtractionReply, report: Report, rejects: Rejects
    ) -> tuple[Triplet, ...]:
        """Return the triplets of a reply; count its lines, and reject the malformed ones."""
        cut = reply.completion_tokens >= self.options.reply_tokens
        extraction = read_reply(reply.text, paragraph.title, paragraph.sentences, cut=cut)
        report.lines += extraction.lines
        if extraction.nothing:
            lose(report.dropped, NO_FACT, 1, paragraph.id)
        if not extraction.lines:
            rejects.add(paragraph.id, 0, NO_REPLY, "")
        for line in extraction.rejected:
            rejects.add(paragraph.id, line.line, line.reason, line.text)
        return extraction.triplets


class _Names:
    """The entities and relations found so far, with the counts of their spellings."""

    def __init__(self) -> None:
        self.entities: dict[str, Counter[str]] = {}
        self.relations: dict[str, str] = {}

    def edge(self, triplet: Triplet, paragraph: Paragraph) -> tuple[str, str, str, str]:
        """Return the row of EDGE_SCHEMA for a triplet, and record its relation and entities."""
        words = normalise(triplet.relation)
        relation = words.replace(" ", "_")
        self.relations[relation] = words
        about = {"sentence": paragraph.sentences[triplet.sentence], "paragraph": paragraph.id}
        head, tail = self._entity(triplet.head), self._entity(triplet.tail)
        return head, relation, tail, json.dumps(about, ensure_ascii=False)

    def _entity(self, name: str) -> str:
        """Count a spelling of an entity's name; return the entity's id."""
        id_ = normalise(name)
        self.entities.setdefault(id_, Counter())[name] += 1
        return id_


def _by_frequency(spellings: Counter[str]) -> list[str]:
    """Return spellings, the most frequent first."""
    return sorted(spellings, key=lambda spelling: (-spellings[spelling], spelling))
