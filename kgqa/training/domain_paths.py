"""Paths of the invented domains as the universal adapter reads them: which tokens a graph allows.

A topic of a domain's type has the relations of its type, some left out, under names as one designer
may have given them; an example is the path that a question asks for, one name at each station.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from random import Random

    from kgqa.training.domains import Asked, Domain
    from kgqa.trie.lexicon import PathLexicon

    Prompt = Callable[[str, Sequence[str]], list[int]]

_STYLES = ("snake", "snake", "snake", "camel", "words", "upper")  # of relations' names
_HAS = 0.1  # part of the examples in which half of the relations are called "has …"
_MISSING = 0.12  # part of the relations that a topic lacks
_COMPOSED, _OF_TWO = 0.15, 0.25  # parts of the questions: composed ones, others about two hops


@dataclass(slots=True)
class Branching:
    """A prompt with a path as token ids, and where the graph leaves a choice.

    ``places``: positions in ``tokens`` before a choice; ``allowed``: the ids that the graph allows
    next, ascending; ``chosen``: which of them the path takes. Names of entities are no choice.
    """

    tokens: list[int]
    places: list[int] = field(default_factory=list)
    allowed: list[list[int]] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)

    def follow(self, path: Sequence[int], beside: Iterable[Sequence[int]]) -> None:
        """Append ``path``, which the graph allows as it does each of ``beside``."""
        live = [path, *beside]
        for place, token in enumerate(path):
            live = [one for one in live if len(one) > place and one[:place] == path[:place]]
            allowed = sorted({one[place] for one in live})
            if len(allowed) > 1:
                self.places.append(len(self.tokens) - 1)
                self.allowed.append(allowed)
                self.chosen.append(allowed.index(token))
            self.tokens.append(token)


def drawn(domains: Sequence[Domain], random: Random) -> tuple[Domain, Asked]:
    """Return a question of one of ``domains``, more often about two hops than they have them."""
    domain = random.choice(domains)
    kind = random.random()
    if kind < _COMPOSED and (composed := list(domain.composed(random, 1))):
        return domain, composed[0]
    if kind < _COMPOSED + _OF_TWO and (longer := [q for q in domain.questions if len(q.path) > 1]):
        return domain, random.choice(longer)
    return domain, random.choice(domain.questions)


def branching(
    domain: Domain, asked: Asked, lexicon: PathLexicon, prompt: Prompt, random: Random | None
) -> Branching:
    """Return the path that ``asked`` asks for, drawn by ``random``; without it always the same.

    ``prompt``: the token ids before a path, by the question and the names of its topic entities.
    """
    names, ends = domain.types, domain.ends[asked.type]
    style, has = _STYLES[0], False
    if random is not None:
        style, has = random.choice(_STYLES), random.random() < _HAS

    def name_of(type_: str) -> str:
        given = names[type_]["names"]
        return str(given[0] if random is None else random.choice(given))

    def there() -> bool:
        return random is None or random.random() > _MISSING

    topic = name_of(asked.type)
    first, *more = [hop[0] for hop in asked.path]
    firsts = [path[0][0] for path in ends if len(path) == 1 and (path[0][0] == first or there())]
    station = name_of(ends[asked.path[:1]])
    seconds = [
        path[1][0]
        for path in ends
        if len(path) == 2 and path[0][0] == first and (path == asked.path or there())
    ]
    steps = list(dict.fromkeys((*firsts, *seconds)))
    inverse = lexicon.form.inverse
    texts = [
        (inverse if step % 2 else "") + _styled(domain.phrases[step // 2], style, has, random)
        for step in steps
    ]
    relations = {
        step: lexicon.parts("", [(text, "")])[2] for step, text in zip(steps, texts, strict=True)
    }
    head, tail = (lexicon.parts(one, [])[1] for one in (topic, station))
    found = Branching([*prompt(asked.text.replace("{x}", topic), [topic]), *head])
    found.follow(relations[first], [relations[step] for step in firsts])
    found.tokens += tail
    end = [lexicon.closing]
    following = relations[more[0]] if more else end
    found.follow(following, [end, *(relations[step] for step in seconds)])
    return found


def batches_of_paths(
    domains: Sequence[Domain], size: int, lexicon: PathLexicon, prompt: Prompt, random: Random
) -> Iterator[list[Branching]]:
    """Yield batches of ``size`` examples without end; those without any choice are left out."""
    while True:
        made = [branching(*drawn(domains, random), lexicon, prompt, random) for _ in range(size)]
        yield [one for one in made if one.places]


def _styled(phrase: str, style: str, has: bool, random: Random | None) -> str:
    """Return the name of a relation in a style of naming."""
    words = phrase.split()
    if has and random is not None and random.random() < 0.5 and words[0] not in ("has", "is"):
        words = ["has", *words]
    if style == "camel":
        return words[0] + "".join(word.title() for word in words[1:])
    joined = (" " if style == "words" else "_").join(words)
    return joined.upper() if style == "upper" else joined
