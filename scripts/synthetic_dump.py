"""A seeded dump in Freebase's own form, as big as wanted: what ``bench_ingest`` and tests load.

Its mix is that of the true dump: a third of the lines are names in many languages, a quarter types
(both ways), then keys, entity edges whose ends follow a power law, mediators, values, long texts,
escapes, and one line in a thousand is damaged. Nothing in it is true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from isal import igzip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINES_PER_ENTITY = 20
PREDICATES = 4_000
TYPES = 2_000
_BLOCK = 250_000
_NS = "<http://rdf.freebase.com/ns/"
_RDF_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_NAMES = {
    "name": f"{_NS}type.object.name>",
    "label": "<http://www.w3.org/2000/01/rdf-schema#label>",
    "alias": f"{_NS}common.topic.alias>",
}
_SHARES = {
    "name": 0.15,
    "label": 0.15,
    "alias": 0.03,
    "type": 0.10,
    "rdf_type": 0.08,
    "instance": 0.08,
    "key": 0.08,
    "edge": 0.25,
    "value": 0.04,
    "webpage": 0.03,
    "description": 0.009,
    "damaged": 0.001,
}
_OTHERS = "de fr es it pt nl pl ru ja zh ko sv no da fi cs hu tr ar he fa uk ro bg el ca sk"
_LANGUAGES = ["en"] * 20 + _OTHERS.split(" ")
_WORD_LIST = (
    "River Saint Paul North Album Great Lake Park Live Station Grand Bridge Mountain School King "
    "Queen House Lady Garden Night Street College Hill Battle History Valley Island Song Castle "
    "Étienne 東京 Москва Straße"
)
_WORDS = _WORD_LIST.split(" ")
_ESCAPED = [r"\"Quoted\"", r"G\u00FCng\u00F6r", r"\u6771\u4EAC", r"Back\\slash", r"Stra\u00DFe"]
_DIGITS = "0123456789bcdfghjklmnpqrstvwxyz_"
_DAMAGE = (
    "{s} {p} {o} .",  # spaces for tabs: still a triple
    "{s}\t{p}\t{o}",  # no dot
    "{s}\t{p}\t.",
    '{s}\t{p}\t"not closed@en\t.',
    "plain nonsense",
    '{s}\t{p}\t"unknown \\q escape"@en\t.',
    "{s}\t{p}\t{o}\t{o}\t.",
)


def mid(index: int) -> str:
    """Return the mid of an entity, the same in every dump."""
    number, text = (index * 2_654_435_761) % (1 << 32), ""
    for _ in range(7):
        text = _DIGITS[number % 32] + text
        number //= 32
    return f"m.0{text.lstrip('0') or '0'}"


def write_dump(path: Path, lines: int, seed: int = 0) -> None:
    """Write a gzip of ``lines`` lines to ``path``. The same seed gives the same bytes."""
    with igzip.open(path, "wb", compresslevel=1) as file:
        for block in _blocks(lines, seed):
            file.write(block)


def _blocks(lines: int, seed: int) -> Iterator[bytes]:
    rng = np.random.default_rng(seed)
    entities = [f"{_NS}{mid(index)}>" for index in range(max(2, lines // LINES_PER_ENTITY))]
    predicates = [
        f"{_NS}{domain}.{kind}.property_{number}>"
        for number in range(PREDICATES)
        for domain, kind in [(f"domain{number % 60}", f"type{number % TYPES}")]
    ]
    # every seventh type is a mediator's
    types = [f"{_NS}domain{number % 60}.type{number}>" for number in range(TYPES)]
    head = [
        f'{types[number]}\t{_NS}freebase.type_hints.mediator>\t"true"\t.\n'
        for number in range(0, TYPES, 7)
    ]
    yield "".join(head[:lines]).encode()
    left, entity = lines - min(len(head), lines), 0
    kinds = list(_SHARES)
    shares = np.cumsum(list(_SHARES.values()))
    shares /= shares[-1]
    while left:
        count = min(_BLOCK, left)
        left -= count
        kind = np.searchsorted(shares, rng.random(count)).tolist()
        steps = rng.random(count) < 1 / LINES_PER_ENTITY
        subject = (entity + np.cumsum(steps)) % len(entities)
        entity = int(subject[-1])
        popular = (rng.pareto(0.9, count) * 50).astype(np.int64) % len(entities)
        predicate = (rng.pareto(0.8, count) * 20).astype(np.int64) % PREDICATES
        numbers = rng.integers(0, 1 << 30, count).tolist()
        rows = zip(
            kind, subject.tolist(), popular.tolist(), predicate.tolist(), numbers, strict=True
        )
        yield "".join(
            _line(kinds[what], who, entities[who], entities[other], predicates[step], types, number)
            for what, who, other, step, number in rows
        ).encode()


def _line(
    what: str, who: int, subject: str, other: str, predicate: str, types: list[str], number: int
) -> str:
    # nodes of every seventh type are mediators: they have types and edges, but no name
    nameless = who % TYPES % 7 == 0
    kind = types[who % TYPES if nameless or number % 3 else (who * 7 + 1) % TYPES]
    step, value = f"{_NS}type.object.key>", f'"/wikipedia/en/Page_{number}"'
    if what == "damaged":
        return _DAMAGE[number % len(_DAMAGE)].format(s=subject, p=predicate, o=other) + "\n"
    if what == "edge":
        step, value = predicate, other
    elif what in _NAMES and not nameless:
        language = _LANGUAGES[number % len(_LANGUAGES)]
        first, second = _WORDS[number // 64 % len(_WORDS)], _WORDS[who % len(_WORDS)]
        if number // 4096 % 50 == 0:
            first = _ESCAPED[number % len(_ESCAPED)]
        step, value = _NAMES[what], f'"{first} {second} {who}"@{language}'
    elif what == "type":
        step, value = f"{_NS}type.object.type>", kind
    elif what == "rdf_type":
        step, value = _RDF_TYPE, kind
    elif what == "instance":
        subject, step, value = kind, f"{_NS}type.type.instance>", subject
    elif what == "value":
        date = f'"{1500 + number % 520}-{number // 600 % 12 + 1:02}-{number // 7200 % 28 + 1:02}"'
        step, value = predicate, f'"{number % 5000}.5"'
        if number % 2:
            value = f"{date}^^<http://www.w3.org/2001/XMLSchema#date>"
    elif what == "webpage":
        step = f"{_NS}common.topic.topic_equivalent_webpage>"
        value = f"<http://en.wikipedia.org/wiki/index.html?curid={number}>"
    elif what == "description":
        text = " ".join(_WORDS[(number + step) % len(_WORDS)] for step in range(40))
        step, value = f"{_NS}common.topic.description>", f'"{text}"@en'
    return f"{subject}\t{step}\t{value}\t.\n"
