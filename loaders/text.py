"""Text that a general LLM extracts triplets from: for users who have no KG.

Each paragraph is one call; what the model writes is read line by line (``text_triplets``). Names
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
from itertools import islice
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, Protocol

from kgqa.errors import DumpMalformedError, KgqaError, UsageError
from kgqa.graph.names import normalise
from kgqa.loaders.base import edge_batch, entity_batch, relation_batch
from kgqa.loaders.text_paragraphs import LONGEST, count_paragraphs, files_of, paragraphs_of
from kgqa.loaders.text_triplets import PROMPT_VERSION, prompt, read_reply
from kgqa.registry import Options, option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
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
_HOPELESS = 8  # calls that fail before any is answered: then no paragraph is to blame
_ROWS = 1_000


class ExtractionReply(Protocol):
    """What a model wrote, and how many tokens that took."""

    @property
    def text(self) -> str:
        """The reply."""

    @property
    def completion_tokens(self) -> int:
        """Its tokens as the server counts them."""


class Complete(Protocol):
    """Asks a model; :meth:`kgqa.models.general.GeneralLLM.complete` is one. Called by threads."""

    def __call__(self, prompt: str, *, max_tokens: int) -> ExtractionReply:
        """Return the reply to ``prompt``. A KgqaError that it raises fails this call alone."""


class TextOptions(Options):
    """How triplets are extracted from texts."""

    limit: int | None = option(
        None, "Read only this many paragraphs.", flag=True, group="text", ge=1
    )
    reply_tokens: int = option(
        1_024, "Maximum number of tokens in a reply.", flag=True, group="text", ge=1
    )
    # not part of the options' text, by which a stopped load is recognised
    concurrency: int = option(
        8, "Number of simultaneous calls.", flag=True, group="text", ge=1, repr=False
    )


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
        """Take options, and what asks the model; :meth:`read` needs it.

        ``model`` says which model and server that is: a load that was stopped goes on only with the
        same.
        """
        self.options = options or TextOptions()
        self.identity = f"{model}, prompt {PROMPT_VERSION}, paragraphs of {LONGEST}"
        self._complete = complete

    def count(self, sources: Sequence[Path]) -> int:
        """Return how many paragraphs ``sources`` have, up to the limit. Raises as ``read``."""
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
                f"There is no paragraph in {names}.", "Give files that hold text."
            )
        if others:
            report.dropped[OTHER_FILE] += len(others)
        paragraphs = islice(paragraphs_of(files, report.dropped, rejects), self.options.limit)
        graph = _Names()
        rows: list[tuple[str, str, str, str]] = []
        answered = failed = 0
        with progress.task("extracting triplets", total, "paragraphs") as task:
            for paragraph, reply in self._replies(self._complete, paragraphs):
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

    def _replies(
        self, complete: Complete, paragraphs: Iterable[Paragraph]
    ) -> Iterator[tuple[Paragraph, Future[ExtractionReply]]]:
        """Yield each paragraph with its reply, in their order; calls run in daemon threads.

        Those do not keep a program that is interrupted from ending.
        """
        free = Semaphore(self.options.concurrency)
        waiting: deque[tuple[Paragraph, Future[ExtractionReply]]] = deque()

        def call(paragraph: Paragraph, reply: Future[ExtractionReply]) -> None:
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
        """Return the triplets of a reply; count its lines, reject those that are malformed."""
        cut = reply.completion_tokens >= self.options.reply_tokens
        extraction = read_reply(reply.text, paragraph.title, paragraph.sentences, cut=cut)
        report.lines += extraction.lines
        if extraction.nothing:
            report.dropped[NO_FACT] += 1
        if not extraction.lines:
            rejects.add(paragraph.id, 0, NO_REPLY, "")
        for line in extraction.rejected:
            rejects.add(paragraph.id, line.line, line.reason, line.text)
        return extraction.triplets


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
        head, tail = self._entity(triplet.head), self._entity(triplet.tail)
        return head, relation, tail, json.dumps(about, ensure_ascii=False)

    def _entity(self, name: str) -> str:
        id_ = normalise(name)
        self.entities.setdefault(id_, Counter())[name] += 1
        return id_


def _by_frequency(spellings: Counter[str]) -> list[str]:
    return sorted(spellings, key=lambda spelling: (-spellings[spelling], spelling))
