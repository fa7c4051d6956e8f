"""Draws the ConceptNet sample: true lines of the dump, and assertions put into its form."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SEED = 5
PER_CONCEPT = 22  # assertions of one concept, both ways together
PER_RELATION = 5  # … with one relation
TRUE_LINES = {"ExternalURL": 12, "Synonym": 60, "RelatedTo": 60}  # at most, of one relation
CONCEPTS = [
    "dog",
    "cat",
    "bird",
    "fish",
    "tree",
    "river",
    "ocean",
    "rain",
    "snow",
    "water",
    "bread",
    "apple",
    "coffee",
    "kitchen",
    "knife",
    "refrigerator",
    "oven",
    "house",
    "bed",
    "chair",
    "book",
    "library",
    "school",
    "teacher",
    "student",
    "pencil",
    "paper",
    "doctor",
    "hospital",
    "medicine",
    "car",
    "bus",
    "airplane",
    "bicycle",
    "piano",
    "guitar",
    "violin",
    "music",
    "computer",
    "telephone",
]
RELATIONS = frozenset(
    [
        "IsA",
        "AtLocation",
        "UsedFor",
        "CapableOf",
        "HasProperty",
        "HasSubevent",
        "HasPrerequisite",
        "Causes",
        "HasA",
        "ReceivesAction",
        "MotivatedByGoal",
        "Desires",
        "PartOf",
        "NotDesires",
        "NotCapableOf",
        "CausesDesire",
        "MadeOf",
        "NotHasProperty",
        "SymbolOf",
        "CreatedBy",
        "RelatedTo",
    ]
)

# Words of assertions that say nothing, or nothing one wants to read in a sample.
LEFT_OUT = frozenset(
    [
        "this",
        "that",
        "it",
        "something",
        "someone",
        "you",
        "k",
        "s",
        "one",
        "usually",
        "kill",
        "die",
        "dead",
        "death",
        "hurt",
        "human",
        "skin",
        "sex",
        "gun",
        "dork",
        "freak",
        "high",
        "sue",
        "stupid",
        "drunk",
        "nuddered",
        "hate",
        "steal",
        "rape",
        "blood",
        "naked",
        "sexy",
        "drug",
        "suicide",
        "fat",
        "ugly",
    ]
)


def _true_lines(source: Path) -> list[str]:
    room = Counter(TRUE_LINES)
    kept = []
    for line in source.read_text(encoding="utf-8").splitlines():
        relation = line.split("\t")[1].removeprefix("/r/")
        if relation not in TRUE_LINES or room[relation] > 0:
            room[relation] -= 1
            kept.append(line)
    return kept


def _uri(phrase: str) -> str:
    return "/c/en/" + phrase.strip().lower().replace(" ", "_")


def _formed(relation: str, head: str, tail: str) -> str:
    """Return an assertion in the dump's form; who said it is not known, so sources are empty."""
    facts = {"dataset": "/d/conceptnet/4/en", "license": "cc:by/4.0", "sources": [], "weight": 1.0}
    uri = f"/a/[/r/{relation}/,{head}/,{tail}/]"
    return "\t".join((uri, f"/r/{relation}", head, tail, json.dumps(facts, ensure_ascii=False)))


def lines(shared: Path) -> list[str]:
    """Return the sample's lines, sorted as the dump is."""
    folder = shared / "conceptnet"
    told = (folder / "cn100k_train.txt").read_text(encoding="utf-8").splitlines()
    random.Random(SEED).shuffle(told)
    known, used = frozenset(CONCEPTS), Counter[tuple[str, ...]]()
    kept = set()
    # What joins two of the concepts comes first, so that walks of two edges find their way.
    told.sort(key=lambda line: -len(known & set(line.split("\t")[1:])))
    for line in told:
        relation, head, tail = line.split("\t")
        of_ours = [concept for concept in (head, tail) if concept in known]
        if relation not in RELATIONS or not of_ours or head == tail:
            continue
        if relation == "IsA" and len(of_ours) == 2:  # the one is not a kind of the other
            continue
        if LEFT_OUT & {*head.split(), *tail.split()}:
            continue
        if max(len(head.split()), len(tail.split())) > 3 or not (head + tail).isascii():
            continue
        if any(used[c,] >= PER_CONCEPT or used[c, relation] >= PER_RELATION for c in of_ours):
            continue
        for concept in of_ours:
            used[concept,] += 1
            used[concept, relation] += 1
        kept.add(_formed(relation, _uri(head), _uri(tail)))
    return sorted({*kept, *_true_lines(folder / "conceptnet5_assertions_sample.csv")})
