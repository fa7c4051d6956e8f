"""2WikiMultihopQA as it is published: a JSON list of questions, or one question a line.

Topics are the titles of supporting facts that stand in the question (``Kes (film)`` maybe as
``Kes``); else the subjects of evidences that do. Without answer and evidences an entry is of the
test part. ``yes`` and ``no`` are answers that no entity is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.graph.names import normalise
from kgqa.loaders.text_paragraphs import Fault, context, json_entries
from kgqa.questions.base import Entry, Question, QuestionFormat, Triple, unreadable
from kgqa.questions.rows import Id, Kind, OptionalText, OrNone, Row, Text, question_of, unique

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


_WIKIDATA = re.compile(r"Q[1-9]\d*")
_LONGEST_CHAIN = 8  # triplets that are followed one after the other


_Title = Annotated[  # of a supporting fact: [title, sentence]
    tuple[str], BeforeValidator(lambda fact: fact[:1] if isinstance(fact, list) else fact)
]


class TwoWiki(QuestionFormat):
    """2WikiMultihopQA; an entry's number is its position in the list, or its line."""

    unit = "entry"

    def read(self, path: Path) -> Iterator[Entry]:
        """Yield the questions of a file; a list that breaks off is an error."""
        try:
            for number, entry in json_entries(path):
                bad = isinstance(entry, Fault)
                yield number, entry.reason if bad else question_of(_TwoWikiRow, entry)
        except (DumpMalformedError, DumpNotFoundError) as error:
            raise unreadable(path, error.message.rstrip(".")) from None


class _TwoWikiRow(Row):
    """An entry of 2WikiMultihopQA."""

    id: Id = Field("", alias="_id")
    question: Text
    type: Kind = ""
    answer: OptionalText = None
    answer_id: Kind = ""
    evidences: Annotated[list[tuple[Text, Text, Text]] | None, OrNone] = None
    evidences_id: Annotated[list[Any] | None, OrNone] = None
    supporting_facts: Annotated[list[_Title] | None, OrNone] = None
    context: list[Any] | None = None

    def to_question(self) -> Question:
        """Convert the row to a question. Raises ValueError."""
        evidences = list(dict.fromkeys(self.evidences or ()))
        if evidences and self.answer is None:
            raise ValueError('"evidences" without an "answer"')
        ids = self._ids_by_name(evidences)
        answers = [] if self.answer is None else [self.answer]
        titles = self._supporting_titles()
        topics = titles_in(self.question, titles) or titles_in(
            self.question, [head for head, _, _ in evidences]
        )
        names: dict[str, str] = {}
        chains = chains_of(evidences)
        ends = {normalise(answer) for answer in answers}
        paths = [
            tuple(relation for _, relation, _ in chain)
            for chain in chains
            if normalise(chain[-1][2]) in ends
        ]
        return Question(
            id=self.id,
            question=self.question,
            topic_entities=_ids_or_texts(topics, ids, names),
            answers=_ids_or_texts(answers, ids, names),
            hops=max((len(chain) for chain in chains), default=None),
            type=self.type,
            relation_paths=list(dict.fromkeys(paths)),
            names=names,
            gold_triplets=evidences,
        )

    def _supporting_titles(self) -> list[str]:
        """Return the titles of supporting facts, or of all paragraphs if there are none."""
        paragraphs = [] if self.context is None else context({"context": self.context})
        facts = [title for (title,) in self.supporting_facts or ()]
        return unique(facts or [paragraph.title for paragraph in paragraphs])

    def _ids_by_name(self, evidences: Sequence[Triple]) -> dict[str, str]:
        """Return the Wikidata ids of names in the evidences and of the answer."""
        ids: dict[str, str] = {}
        given = self.evidences_id or []
        if len(given) == len(evidences):  # comparisons mostly have none
            for (head, _, tail), ids_given in zip(evidences, given, strict=True):
                if not isinstance(ids_given, list) or len(ids_given) != 3:
                    raise ValueError('"evidences_id" is not a list of triplets')
                for name, id_ in ((head, ids_given[0]), (tail, ids_given[2])):
                    if isinstance(id_, str) and _WIKIDATA.fullmatch(id_):
                        ids.setdefault(normalise(name), id_)
        if self.answer is not None and _WIKIDATA.fullmatch(self.answer_id):
            ids[normalise(self.answer)] = self.answer_id
        return ids


def chains_of(evidences: Sequence[Triple]) -> list[tuple[Triple, ...]]:
    """Return the gold triplets as chains, each of which begins at the end of the preceding one.

    A chain begins at a subject that no other triplet has as its object (at any if all have one),
    and is as long as it can be without a triplet that comes twice.

    >>> film, birth = ("Kes", "director", "Ken Loach"), ("Ken Loach", "born", "1936")
    >>> chains_of([birth, film])
    [(('Kes', 'director', 'Ken Loach'), ('Ken Loach', 'born', '1936'))]
    """
    objects = {normalise(tail) for _, _, tail in evidences}
    starts = [fact for fact in evidences if normalise(fact[0]) not in objects]
    chains: list[tuple[Triple, ...]] = [(fact,) for fact in starts or evidences]
    whole = []
    while chains:
        chain = chains.pop(0)
        end = normalise(chain[-1][2])
        onward = [fact for fact in evidences if normalise(fact[0]) == end and fact not in chain]
        if onward and len(chain) < _LONGEST_CHAIN:
            chains += [(*chain, fact) for fact in onward]
        else:
            whole.append(chain)
    return list(dict.fromkeys(whole))


def titles_in(question: str, titles: Sequence[str]) -> list[str]:
    """Return the ``titles`` that occur in ``question`` as whole words, in the titles' order.

    A title with something in brackets may stand there without it, and is returned without it then.
    One that stands only inside a longer title does not count.

    >>> titles_in("Who directed Kes Again?", ["Kes", "Kes Again (film)"])
    ['Kes Again']
    """
    left = f" {normalise(question)} "
    spelled: dict[str, str] = {}  # a way in which a title may stand there → the title
    for title in titles:
        bare = title.partition("(")[0].strip()
        for way in (title.strip(), bare if title.rstrip().endswith(")") else ""):
            if normalise(way):
                spelled.setdefault(way, title)
    names: dict[str, str] = {}
    for way in sorted(spelled, key=lambda way: -len(normalise(way))):
        wanted = f" {normalise(way)} "
        if spelled[way] not in names and wanted in left:
            left = left.replace(wanted, " | ")
            names[spelled[way]] = way
    return [names[title] for title in dict.fromkeys(titles) if title in names]


def _ids_or_texts(texts: Sequence[str], ids: Mapping[str, str], names: dict[str, str]) -> list[str]:
    """Replace texts by their ids where known, adding these texts to ``names`` (by id)."""
    rows = []
    for text in texts:
        id_ = ids.get(normalise(text))
        if id_ is not None:
            names.setdefault(id_, text)
        rows.append(id_ or text)
    return unique(rows)
