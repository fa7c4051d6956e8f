"""Whether the joined tokens of a path's parts are those that its whole string would have.

Joined tokens *define* the language; a model has seen whole strings, so the user should know.
Checked on real paths, drawn with a seed, and on difficult names.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kgqa.errors import KgqaError
from kgqa.graph.model import keys_array
from kgqa.paths.walk import TAIL, joined_tables, walk
from kgqa.trie.export import token_text
from kgqa.trie.lexicon import names_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.lexicon import PathLexicon

PathNames: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""A path as the texts it is made of: its head's name, and the relation and tail of each hop."""

SAMPLE = 500  # real paths that are checked
EXAMPLES = 5  # paths that are kept to be shown
_MOST = 500  # paths out of a topic that are drawn from; of one with more, shorter ones
_SHOWN = 12  # tokens of an example that are shown on either side

NAMES = (
    "1999",
    "3.14159",
    "12345678901",
    " leading",
    "  two leading",
    "trailing ",
    "a -> b",
    " -> ",
    "->",
    "New",
    "New York",
    "New York City",
    "U.S.",
    "U.S. Route 66",
    "😀",
    "👩‍👩‍👧 family",
    "北京",
    "北京市 (Beijing)",
    "東京タワー",
    "한국어",
    "naïve café",
    "O'Brien's",
    '"quoted"',
    "don't",
    "(parentheses)",
    "C++",
    "#hash",
    "-1",
    "...",
    "x",
)
_RELATIONS = ("people.person.place_of_birth", "^capital", "r", "film.actor.film..film.performance")


@dataclass(frozen=True, slots=True)
class JoinExample:
    """A path that would be tokenised otherwise: its text, and the tokens where the two differ."""

    text: str
    joined: tuple[str, ...]
    whole: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JoinCheck:
    """How many of ``sampled`` real and ``adversarial`` paths differ as whole strings; examples."""

    sampled: int
    differing: int
    adversarial: int
    adversarial_differing: int
    examples: tuple[JoinExample, ...] = ()

    def note(self) -> str | None:
        """Return the line that the user should know, None if joining equals whole strings."""
        if not self.differing and not self.adversarial_differing:
            return None
        counts = (
            f"{self.differing:,} of {self.sampled:,} paths of the KG"
            if self.differing
            else f"none of {self.sampled:,} paths of the KG, but {self.adversarial_differing:,} of "
            f"{self.adversarial:,} made-up difficult ones"
        )
        shown = ""
        if self.examples:
            one = self.examples[0]
            shown = (
                f"; in {one.text!r} it would write {_shown(one.whole)} where the parts give "
                f"{_shown(one.joined)}"
            )
        return (
            "A path's tokens are those of its parts, joined. This tokenizer would write whole "
            f"strings otherwise: {counts}{shown}. Answers do not depend on it."
        )


def _shown(tokens: Sequence[str]) -> str:
    if not tokens:
        return "nothing"
    return "|".join(tokens[:_SHOWN]) + ("|…" if len(tokens) > _SHOWN else "")


def check_joining(lexicon: PathLexicon, sample: Sequence[PathNames], *, seed: int = 0) -> JoinCheck:
    """Compare joined tokens with those of whole strings, of ``sample`` and of difficult names."""
    found = [one for path in sample if (one := _difference(lexicon, path)) is not None]
    made = adversarial_paths(seed)
    hard: list[JoinExample] = []
    for path in made:
        try:
            one = _difference(lexicon, path)
        except KgqaError as error:  # a name that no KG may have must not stop the work on one
            one = JoinExample(lexicon.form.path(*path), (error.message,), ())
        if one is not None:
            hard.append(one)
    return JoinCheck(
        len(sample), len(found), len(made), len(hard), tuple((found + hard)[:EXAMPLES])
    )


def adversarial_paths(seed: int) -> list[PathNames]:
    """Return paths over the difficult names, one for each name as a head and as a tail."""
    choose = random.Random(seed)
    tails = choose.sample(NAMES, len(NAMES))
    ends = choose.sample(NAMES, len(NAMES))
    return [
        (head, ((choose.choice(_RELATIONS), tail), (choose.choice(_RELATIONS), end)))
        for head, tail, end in zip(NAMES, tails, ends, strict=True)
    ]


def whole_tokens(lexicon: PathLexicon, path: PathNames) -> list[int]:
    """Return the token ids of a path whose string is tokenised in one piece."""
    [ids] = lexicon.encoder.encode([lexicon.form.lead + lexicon.form.path(*path)])
    return [*lexicon.opening, *ids, lexicon.closing]


def _difference(lexicon: PathLexicon, path: PathNames) -> JoinExample | None:
    joined = lexicon.sequence(*path)
    whole = whole_tokens(lexicon, path)
    if joined == whole:
        return None
    start = _alike(joined, whole)
    end = _alike(joined[start:][::-1], whole[start:][::-1])
    return JoinExample(
        lexicon.form.path(*path),
        *(
            tuple(token_text(lexicon.encoder, token) for token in one[start : len(one) - end])
            for one in (joined, whole)
        ),
    )


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def sample_paths(
    store: GraphStore, rules: WalkRules, form: PathFormat, *, count: int = SAMPLE, seed: int = 0
) -> list[PathNames]:
    """Return a path of each of ``count`` random topics at most, in texts; a hub has none."""
    choose = np.random.default_rng(seed)
    table, over = walk(store, keys_array(_random_topics(store, count, choose)), rules, _MOST)
    while len(over) and rules.hops > 1:  # shorter ones out of what has very many
        rules = replace(rules, hops=rules.hops - 1)
        more, over = walk(store, over, rules, _MOST)
        table = joined_tables([table, more])
    if not len(table):
        return []
    rows = choose.permutation(len(table))
    table = table.take(rows[np.unique(table.topic[rows], return_index=True)[1]])
    names = store.relations().names
    nodes = np.unique(np.concatenate([table.topic, table.hops[:, :, TAIL].ravel()]))
    nodes = nodes[nodes >= 0]
    name = dict(zip(nodes.tolist(), names_of(store, nodes), strict=True))
    return [
        (
            name[topic],
            tuple(
                (form.relation(first, second, names), name[tail])
                for first, _, second, tail in hops[:length]
            ),
        )
        for topic, length, hops in zip(
            table.topic.tolist(), table.length.tolist(), table.hops.tolist(), strict=True
        )
    ]


def _random_topics(store: GraphStore, count: int, choose: np.random.Generator) -> list[int]:
    info = store.info
    nodes = info.entities + info.mediators + info.values
    found: dict[int, None] = {}
    for after in choose.integers(-1, max(nodes, 1), 4 * count).tolist():  # some come again
        found.update(dict.fromkeys(store.topic_keys(after, 1).tolist()))
        if len(found) == count:
            break
    return sorted(found)
