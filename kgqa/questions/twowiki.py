"""2WikiMultihopQA as it is published: a JSON list of questions, or one question a line.

Of a question are read ``answer`` (by its ``answer_id``, where there is one), the gold triplets
(``evidences``) and the paragraphs' titles. No field names the topic entities: they are the titles
of the supporting facts that stand in the question, as the question writes them (``Kes (film)`` may
stand there as ``Kes``); where none does, the subjects of the evidences that do. The set has no
graph: a KG is made of its paragraphs by ``kgqa ingest text``, which reads the same file.

An entry without answer and evidences is a question of the test part, and has no gold answer.
``yes`` and ``no`` are answers that no entity is. What it does not do: look anything up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.graph.names import normalise
from kgqa.loaders.text_json import Fault, context, json_entries
from kgqa.questions.base import Question, Triple, id_of, text_of, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kgqa.questions.base import Read

_WIKIDATA = re.compile(r"Q[1-9]\d*")
_LONGEST_CHAIN = 8  # triplets that are followed one after the other


def read_2wiki(path: Path) -> Iterator[Read]:
    """Yield the questions of a file by the number of their entry (their line in JSON lines).

    Raises DataError where the file cannot be read, or is a list that breaks off.
    """
    try:
        for number, entry in json_entries(path):
            if isinstance(entry, Fault):
                yield number, entry.reason
                continue
            try:
                yield number, _question(entry, number)
            except ValueError as error:
                yield number, str(error)
    except (DumpMalformedError, DumpNotFoundError) as error:
        raise unreadable(path, error.message.rstrip(".")) from None


def _question(row: dict[str, Any], number: int) -> Question:
    question = text_of(row, "question")
    evidences = _triples(row, "evidences")
    ids = _ids(row, evidences)
    answer = row.get("answer")
    if answer is None or answer == "":
        if evidences:
            raise ValueError('"evidences" without an "answer"')
        answers: list[str] = []
    else:
        answers = [text_of(row, "answer")]
    titles = _titles(row)
    topics = standing_in(question, titles) or standing_in(question, [one[0] for one in evidences])
    names: dict[str, str] = {}
    chains = chains_of(evidences)
    ends = {normalise(one) for one in answers}
    kind = row.get("type")
    return Question(
        id=id_of(row, "_id", number),
        question=question,
        topic_entities=_by_id(topics, ids, names),
        answers=_by_id(answers, ids, names),
        hops=max((len(chain) for chain in chains), default=None),
        type=kind if isinstance(kind, str) else "",
        relation_paths=list(
            dict.fromkeys(
                tuple(relation for _, relation, _ in chain)
                for chain in chains
                if normalise(chain[-1][2]) in ends
            )
        ),
        names=names,
        gold_triplets=evidences,
    )


def chains_of(evidences: Sequence[Triple]) -> list[tuple[Triple, ...]]:
    """Return the gold triplets in chains: each begins where the one before it ends.

    A chain begins at a subject that no other triplet has as its object (at any where all have one),
    and is as long as it can be without a triplet that comes twice.

    >>> film, birth = ("Kes", "director", "Ken Loach"), ("Ken Loach", "born", "1936")
    >>> chains_of([birth, film])
    [(('Kes', 'director', 'Ken Loach'), ('Ken Loach', 'born', '1936'))]
    """
    objects = {normalise(tail) for _, _, tail in evidences}
    starts = [one for one in evidences if normalise(one[0]) not in objects] or list(evidences)
    chains: list[tuple[Triple, ...]] = [(one,) for one in starts]
    whole = []
    while chains:
        chain = chains.pop(0)
        end = normalise(chain[-1][2])
        onward = [one for one in evidences if normalise(one[0]) == end and one not in chain]
        if onward and len(chain) < _LONGEST_CHAIN:
            chains += [(*chain, one) for one in onward]
        else:
            whole.append(chain)
    return list(dict.fromkeys(whole))


def standing_in(question: str, titles: Sequence[str]) -> list[str]:
    """Return those of ``titles`` that stand in ``question`` as whole words, in the titles' order.

    A title with something in brackets may stand there without it, and is returned without it then.
    One that stands only inside a longer title is not meant.

    >>> standing_in("Who directed Kes Again?", ["Kes", "Kes Again (film)"])
    ['Kes Again']
    """
    left = f" {normalise(question)} "
    spelled: dict[str, str] = {}  # a way in which a title may stand there → the title
    for title in titles:
        bare = title.partition("(")[0].strip()
        for way in (title.strip(), bare if title.rstrip().endswith(")") else ""):
            if normalise(way):
                spelled.setdefault(way, title)
    found: dict[str, str] = {}
    for way in sorted(spelled, key=lambda one: -len(normalise(one))):
        wanted = f" {normalise(way)} "
        if spelled[way] not in found and wanted in left:
            left = left.replace(wanted, " | ")
            found[spelled[way]] = way
    return [found[title] for title in dict.fromkeys(titles) if title in found]


def _titles(row: dict[str, Any]) -> list[str]:
    """Return the titles of the supporting facts, those of all paragraphs where there are none."""
    facts = row.get("supporting_facts") or []
    if not isinstance(facts, list) or not all(
        isinstance(one, list) and one and isinstance(one[0], str) for one in facts
    ):
        raise ValueError('"supporting_facts" is no list of [title, sentence]')
    paragraphs = context(row) if row.get("context") is not None else []
    return list(dict.fromkeys([one[0] for one in facts] or [one.title for one in paragraphs]))


def _triples(row: dict[str, Any], name: str) -> list[Triple]:
    given = row.get(name) or []
    if not isinstance(given, list):
        raise ValueError(f'"{name}" is no list of triplets')
    found: list[Triple] = []
    for place, one in enumerate(given, 1):
        if not (
            isinstance(one, list)
            and len(one) == 3
            and all(isinstance(part, str) and part.strip() for part in one)
        ):
            raise ValueError(f'item {place} of "{name}" is no [subject, relation, object]')
        found.append((one[0].strip(), one[1].strip(), one[2].strip()))
    return list(dict.fromkeys(found))


def _ids(row: dict[str, Any], evidences: Sequence[Triple]) -> dict[str, str]:
    """Return the ids that the file gives for names, by their normalised form."""
    ids: dict[str, str] = {}
    given = row.get("evidences_id") or []
    if not isinstance(given, list):
        raise ValueError('"evidences_id" is no list of triplets')
    if len(given) == len(evidences):  # of comparisons most have none
        for (head, _, tail), one in zip(evidences, given, strict=True):
            if not isinstance(one, list) or len(one) != 3:
                raise ValueError('"evidences_id" is no list of triplets')
            for name, id_ in ((head, one[0]), (tail, one[2])):
                if isinstance(id_, str) and _WIKIDATA.fullmatch(id_):
                    ids.setdefault(normalise(name), id_)
    answer, id_ = row.get("answer"), row.get("answer_id")
    if isinstance(answer, str) and isinstance(id_, str) and _WIKIDATA.fullmatch(id_):
        ids[normalise(answer)] = id_
    return ids


def _by_id(texts: Sequence[str], ids: Mapping[str, str], names: dict[str, str]) -> list[str]:
    """Return the id of each text that has one, noting its name; else the text."""
    found = []
    for text in texts:
        id_ = ids.get(normalise(text))
        if id_ is not None:
            names.setdefault(id_, text)
        found.append(id_ or text)
    return list(dict.fromkeys(found))
