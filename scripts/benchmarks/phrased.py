"""Questions made of a KG with people's phrases for its relations, to train bundled models on.

A phrase file has a relation a line: its name, noun phrases and questions, in each ``{x}`` for the
entity. A path of one hop becomes one of its relation's questions; one of two asks the second
relation's question about the first one's noun phrase.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.model import keys_array
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import FIRST, SECOND, TAIL, WalkRules, walk
from kgqa.trie.precompute import all_topics

if TYPE_CHECKING:
    from kgqa.graph.store import GraphStore

PHRASES = Path(__file__).parents[2] / "tests" / "data" / "training" / "freebase_phrases.tsv"
TOPICS = 12_000
CAP = 3_000  # paths of a topic that is still used: hubs would drown the others
LONGEST = 60  # characters of a name that is used


def write_questions(store: GraphStore, to: Path, one_hop: int, two_hops: int) -> None:
    """Write up to so many questions of each relation, and of each pair of relations."""
    rows = (line.split("\t") for line in PHRASES.read_text("utf-8").splitlines() if line[0] != "#")
    phrases = {name: (nouns.split("|"), asked.split("|")) for name, nouns, asked in rows}
    draw, form, names = random.Random(0), PathFormat(), store.relations().names
    every = all_topics(store).tolist()
    topics = sorted(draw.sample(every, min(TOPICS, len(every))))
    tails: dict[tuple[str, ...], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for start in range(0, len(topics), 256):
        table, _ = walk(store, keys_array(topics[start : start + 256]), WalkRules(2, "out"), CAP)
        for topic, hops, length in zip(table.topic, table.hops, table.length, strict=True):
            path = tuple(form.relation(hop[FIRST], hop[SECOND], names) for hop in hops[:length])
            if all(relation in phrases for relation in path):
                tails[path][int(topic)].add(int(hops[length - 1, TAIL]))
    lines = []
    for path, ends in sorted(tails.items()):
        for topic in draw.sample(sorted(ends), min((one_hop, two_hops)[len(path) - 1], len(ends))):
            entities = store.entities(np.array([topic, *sorted(ends[topic])]))
            asked = entities.label(0)
            if len(asked) > LONGEST:
                continue
            for relation in path[:-1]:
                asked = draw.choice(phrases[relation][0]).replace("{x}", asked)
            row = {
                "id": f"phrased:{len(lines)}",
                "question": draw.choice(phrases[path[-1]][1]).replace("{x}", asked),
                "topic_entities": entities.ids[:1],
                "answers": entities.ids[1:],
                "relation_paths": [[half for relation in path for half in relation.split("..")]],
            }
            lines.append(json.dumps(row) + "\n")
    to.write_text("".join(lines), "utf-8")
