"""Invented domains that the universal models are trained on: schemas with people's questions.

A domain has types of entities with some names, relations between them with questions that ask for
either end in people's own words, and questions about two relations in turn. A file is JSON::

    {"domain": …, "types": {type: {"nouns": […], "is": …, "names": […]}},
     "relations": [{"name", "head", "tail", "forward": […], "backward"?: […]}],
     "two_hops": [{"path": [relation or ^relation, …], "questions": […]}]}

where ``{x}`` in a question is the topic entity.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kgqa.errors import DataError
from kgqa.paths.words import TOPIC, relation_path_text, relation_phrase
from kgqa.training.rankers import RankingBatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

DATA = Path(__file__).parents[2] / "tests" / "data" / "training"
DOMAINS = DATA / "domains"
HELD_OUT = (  # to check on, never trained on
    "chess_federation", "films_and_actors", "hospital_wards_and_staff", "insurance_claims",
    "it_helpdesk_assets", "public_library", "consulting_projects_and_clients", "human_anatomy",
)  # fmt: skip

Steps: TypeAlias = "tuple[tuple[int, int], ...]"

_VALUES = frozenset({"date", "year", "quantity", "money", "number"})  # no topic is one of these
_QUESTIONS = 32  # of a batch, before those that are added
_MORE_OF_TWO = 8  # questions about two hops that are added
_COMPOSED = 0.15  # part of a batch's questions that is made of two questions
_OTHERS = 32  # relation paths of two hops that a question chooses among, beside the right one
_NONE = 0.12  # part of the questions whose answer is taken out of the graph
_EXAMPLES = 0.85  # part of the paths whose ends are known by examples
_ODD_NAME = 0.1  # part of the questions that keep a word of the topic's name
_FORMS = ("{x}'s {phrase}", "the {phrase} of {x}", "the {noun} that {x} {phrase}",
          "{x}'s {noun} ({phrase})")  # fmt: skip
_FORMS_BACK = ("the {noun} with {phrase} {x}", "what has {phrase} {x}", "the {noun} {phrase} {x}")
_ENDS_IN = ("of", "by", "in", "at", "to", "for", "on", "with")  # words a designer may leave out


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a topic of a type, with ``{x}`` in its place, and its relation path."""

    text: str
    type: str
    path: Steps


class Domain:
    """A domain as it stands in a file. Raises DataError."""

    def __init__(self, file: Path) -> None:
        try:
            content = json.loads(file.read_text("utf-8"))
            self._read(content)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{file} is not a domain: {error!r}.") from None
        self.name = file.stem

    def _read(self, content: dict[str, object]) -> None:
        self.types: dict[str, dict[str, Any]] = content["types"]  # type: ignore[assignment]
        relations: list[dict[str, list[str]]] = content["relations"]  # type: ignore[assignment]
        chains: list[dict[str, list[str]]] = content["two_hops"]  # type: ignore[assignment]
        self.phrases = [relation_phrase(str(relation["name"])) for relation in relations]
        number = {str(relation["name"]): at for at, relation in enumerate(relations)}
        self._questions: dict[int, list[str]] = {}  # of each step
        values = {name for name, type_ in self.types.items() if type_.get("is") in _VALUES}
        leads: dict[str, list[tuple[int, str]]] = {name: [] for name in self.types}
        for at, relation in enumerate(relations):
            head, tail = str(relation["head"]), str(relation["tail"])
            leads[head].append((2 * at, tail))
            self._questions[2 * at] = relation["forward"]
            if tail not in values:
                leads[tail].append((2 * at + 1, head))
                self._questions[2 * at + 1] = relation.get("backward", [])
        self.ends: dict[str, dict[Steps, str]] = {}
        for name in set(self.types) - values:
            paths: dict[Steps, str] = {((step, -1),): to for step, to in leads[name]}
            for step, to in leads[name]:
                paths |= {((step, -1), (more, -1)): end for more, end in leads[to]}
            self.ends[name] = paths
        self.questions = [
            Asked(text, str(relations[step // 2]["tail" if step % 2 else "head"]), ((step, -1),))
            for step, texts in self._questions.items()
            for text in texts
        ]
        for chain in chains:
            steps = [2 * number[step.lstrip("^")] + step.startswith("^") for step in chain["path"]]
            first = relations[steps[0] // 2]
            type_ = str(first["tail" if steps[0] % 2 else "head"])
            path = tuple((step, -1) for step in steps)
            if path in self.ends.get(type_, {}):
                self.questions += [Asked(text, type_, path) for text in chain["questions"]]

    def phrasings(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each relation in words, either way, with the questions that ask for it."""
        for type_, paths in self.ends.items():
            for path in paths:
                if len(path) == 1 and (texts := self._questions[path[0][0]]):
                    yield self._text(type_, path, None), texts

    def batch(self, random: Random) -> RankingBatch:
        """Return a batch of questions, drawn by ``random``."""
        asked = random.sample(self.questions, min(_QUESTIONS, len(self.questions)))
        longer = [question for question in self.questions if len(question.path) > 1]
        asked = asked[: _QUESTIONS - _MORE_OF_TWO]
        asked += random.sample(longer, min(_MORE_OF_TWO, len(longer)))
        asked += list(self.composed(random, int(_COMPOSED * _QUESTIONS)))
        return self._batch(asked, random)

    def checks(self) -> RankingBatch:
        """Return every question with every relation path of its type, the same each time."""
        return self._batch(self.questions, None)

    def _batch(self, asked: Sequence[Asked], random: Random | None) -> RankingBatch:
        batch = RankingBatch([], [], [], [], [], [])
        for type_ in dict.fromkeys(question.type for question in asked):
            ours = [question for question in asked if question.type == type_]
            right = {question.path for question in ours}
            paths = [path for path in self.ends[type_] if len(path) == 1 or path in right]
            others = [path for path in self.ends[type_] if len(path) > 1 and path not in right]
            kept = others if random is None else random.sample(others, min(len(others), _OTHERS))
            before = len(batch.paths)
            batch.paths.extend(self._text(type_, path, random) for path in (*paths, *kept))
            batch.hops.extend(map(len, (*paths, *kept)))
            batch.stands_for.extend(
                [1.0] * len(paths) + [len(others) / max(len(kept), 1)] * len(kept)
            )
            for question in ours:
                gold = before + paths.index(question.path)
                every = list(range(before, len(batch.paths)))
                answerable = random is None or random.random() >= _NONE
                if not answerable:  # the relation, and what goes through it, are not in the graph
                    gone = set(question.path)
                    kept_paths = enumerate((*paths, *kept), before)
                    every = [at for at, path in kept_paths if at != gold and path[0] not in gone]
                batch.questions.append(self._without_name(question, random))
                batch.candidates.append(every)
                batch.gold.append([gold] if answerable else [])
        return batch

    def composed(self, random: Random, count: int) -> Iterator[Asked]:
        """Yield at most ``count`` questions: of one relation about the noun phrase of another."""
        for _ in range(count):
            type_ = random.choice(sorted(self.ends))
            path = random.choice(sorted(self.ends[type_]))
            if len(path) < 2 or not (texts := self._questions[path[1][0]]):
                continue
            phrase = self.phrases[path[0][0] // 2]
            noun = random.choice(self.types[self.ends[type_][path[:1]]]["nouns"])
            forms = _FORMS_BACK if path[0][0] % 2 else _FORMS
            form = random.choice(forms).format(x="{x}", noun=noun, phrase=phrase)
            yield Asked(random.choice(texts).replace("{x}", form), type_, path)

    def _text(self, type_: str, path: Steps, random: Random | None) -> str:
        names = self.types[self.ends[type_][path]]["names"]
        if random is None:
            return relation_path_text(path, self.phrases, names[:2])
        examples = random.sample(names, min(2, len(names))) if random.random() < _EXAMPLES else []
        phrases = [_restyled(phrase, random) for phrase in self.phrases]
        return relation_path_text(path, phrases, examples)

    def _without_name(self, asked: Asked, random: Random | None) -> str:
        stand_in = TOPIC
        if random is not None and random.random() < _ODD_NAME:
            words = [word for name in self.types[asked.type]["names"] for word in name.split()]
            stand_in = f"{random.choice(words)} {TOPIC}"
        return asked.text.replace("{x}", stand_in)


def _restyled(phrase: str, random: Random) -> str:
    """Return a relation's words as another designer may have put them."""
    words = phrase.split()
    drawn = random.random()
    if 0.7 <= drawn < 0.8:
        return f"has {phrase}"
    if 0.8 <= drawn < 0.9 and len(words) > 1 and words[-1] in _ENDS_IN:
        return " ".join(words[:-1])
    return phrase


def batches_of(files: Sequence[Path], random: Random) -> Iterator[RankingBatch]:
    """Yield batches without end, each of a domain drawn at random. Raises DataError."""
    domains = [Domain(file) for file in files]
    while True:
        yield random.choice(domains).batch(random)
