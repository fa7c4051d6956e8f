"""The Freebase facts a sample is drawn from: entities told apart, so that every mid is a real one.

The source joins entities by name. A name is taken only where its mid is certain: the name has one
mid, or the kinds of thing that predicates ask for (a film, a person, …) and the mids' own kinds
leave one. Whatever stays open is left out.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MID = re.compile(r"[mg]\.[0-9a-z_]+")
LEFT_OUT = frozenset(["base", "user", "freebase", "kg", "type", "common", "dataworld", "pipeline"])

# What a type says about the kind of thing; a type that is not here says nothing.
KINDS = {
    "person": "people.person people.deceased_person film.actor film.director film.producer "
    "film.writer tv.tv_actor book.author government.politician sports.pro_athlete basketball."
    "basketball_player american_football.football_player soccer.football_player royalty.monarch "
    "visual_art.visual_artist government.us_president military.military_person",
    "film": "film.film media_common.netflix_title",
    "tv": "tv.tv_program",
    "book": "book.book book.written_work book.literary_series",
    "edition": "book.book_edition",
    "album": "music.album",
    "recording": "music.recording",
    "release": "music.release",
    "song": "music.composition",
    "game": "cvg.computer_videogame cvg.game_version",
    "place": "location.location location.country location.citytown location.us_state "
    "location.statistical_region location.administrative_division location.us_county "
    "travel.travel_destination",
    "character": "film.film_character book.book_character tv.tv_character fictional_universe."
    "fictional_character",
    "group": "music.musical_group",
    "team": "sports.sports_team soccer.football_team",
    "organization": "business.employer education.educational_institution",
    "event": "time.event military.military_conflict sports.sports_championship_event",
    "genre": "film.film_genre music.genre media_common.literary_genre",
    "language": "language.human_language",
    "artwork": "visual_art.artwork",
    "play": "theater.play theater.theater_production",
    "episode": "tv.tv_series_episode",
}
KIND_OF = {kind_type: kind for kind, types in KINDS.items() for kind_type in types.split()}
SURE = 0.9  # share of a name's typed mentions that must agree for the name to be one thing

DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{4}-\d\d|\d{4}")
XSD = "http://www.w3.org/2001/XMLSchema#"
DATE_TYPES = {10: "date", 7: "gYearMonth", 4: "gYear"}
PLAIN_TYPES = {"type.int", "type.float"}

# Where the source is wrong: facts turned round, and the mids that only they speak of.
MISTAKEN = frozenset(("m.0c1t85x", "m.0c1t1lr"))
_VICE, _FOUNDED = "government.us_president.vice_president", "organization.organization.founders"
_INFLUENCED, _ZONES = "influence.influence_node.influenced", "location.location.time_zones"
MISTAKEN_FACTS = (
    ("John Adams", _VICE, "George Washington"),
    ("Theodore Roosevelt", _VICE, "William McKinley"),
    ("Richard Nixon", _VICE, "Dwight D. Eisenhower"),
    ("Mordecai Manuel Noah", _FOUNDED, "New York University"),
    ("Albert Gallatin", _FOUNDED, "New York University"),
    ("Claude Monet", _INFLUENCED, "Charles-François Daubigny"),
    ("F. Scott Fitzgerald", _INFLUENCED, "T. S. Eliot"),
    ("Western European Time Zone", _ZONES, "Spain"),
)
# Two cities of one name: the one in England, but for what speaks of Canada.
LONDON, OTHER_LONDON, SPEAK_OF_CANADA = "m.04jpl", "m.0b1t1", ("Canada", "Justin Bieber")
# Two people of one name, both known by what they did: the poet's wife and the actress.
SHAKESPEARE, HIS_WIFE, THE_ACTRESS = "m.081k8", "m.03mzbg", "m.02vntj"


@dataclass
class Subgraph:
    """Facts with certain ids. An end is a mid, or a literal as the dump writes it."""

    edges: set[tuple[str, str, str]] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)  # mid → name; none for mediators
    mediators: dict[str, str] = field(default_factory=dict)  # mid → type
    roles: dict[str, tuple[str, str]] = field(default_factory=dict)  # predicate → domain, range
    inverse: dict[str, str] = field(default_factory=dict)


def rows(path: Path) -> Iterator[list[str]]:
    """Yield the tab-separated fields of each line."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n").split("\t")


def _ontology(folder: Path) -> tuple[dict[str, tuple[str, str]], dict[str, str], set[str]]:
    roles = {}
    for line in (folder / "fb_roles").read_text().splitlines():
        domain, predicate, expected = line.split()[:3]
        roles[predicate] = (domain, expected)
    inverse = {}
    for one, other in rows(folder / "reverse_properties"):
        inverse[one], inverse[other] = other, one
    return roles, inverse, set((folder / "cvt_types.txt").read_text().split())


def _known_kinds(folder: Path, roles: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Return what kind of thing a mid is, by a set of facts that are given by mid."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for head, relation, tail in rows(folder / "train.txt"):
        halves = [half.strip("/").replace("/", ".") for half in relation.split("./")]
        domain, expected = roles.get(halves[0], ("", ""))[0], roles.get(halves[-1], ("", ""))[1]
        for mid, its_type in ((head, domain), (tail, expected)):
            if its_type in KIND_OF:
                votes[mid[1:].replace("/", ".")][KIND_OF[its_type]] += 1
    return {mid: count.most_common(1)[0][0] for mid, count in votes.items()}


def _question_mids(folder: Path) -> Counter[str]:
    seen: Counter[str] = Counter()
    for file in ("webqsp.dev-half.jsonl", "cwq.dev-half.jsonl"):
        for line in (folder / file).read_text(encoding="utf-8").splitlines():
            question = json.loads(line)
            seen.update([*question.get("q_mid", []), *question.get("a_mid", [])])
    return seen


class _Namer:
    """Says which mid a name means where a predicate asks for a type."""

    def __init__(self, shared: Path, roles: dict[str, tuple[str, str]]) -> None:
        self.mids: dict[str, list[str]] = defaultdict(list)
        for mid, name in rows(shared / "freebase_subgraph" / "mid2name.tsv"):
            self.mids[name].append(mid)
        self.known = _known_kinds(shared / "fb15k237", roles)
        self.asked = _question_mids(shared / "freebase_subgraph")
        more: dict[str, list[str]] = defaultdict(list)
        for mid, name in rows(shared / "fb15k237" / "entity2text.txt"):
            more[name].append(mid[1:].replace("/", "."))
        for name, mids in more.items():
            if name not in self.mids and len(mids) == 1 and mids[0] in self.known:
                self.mids[name] = mids
        self.votes: dict[str, Counter[str]] = defaultdict(Counter)

    def vote(self, name: str, its_type: str) -> None:
        if its_type in KIND_OF:
            self.votes[name][KIND_OF[its_type]] += 1

    def main_kind(self, name: str) -> str:
        """Return the kind that nearly all mentions of a name agree on, or an empty string."""
        votes = self.votes[name]
        if not votes:
            return ""
        kind, count = votes.most_common(1)[0]
        return kind if count >= SURE * votes.total() else ""

    def mid(self, name: str, its_type: str) -> str:
        """Return the mid, or an empty string where it is not certain."""
        mids = self.mids.get(name, [])
        main = self.main_kind(name)
        kind = KIND_OF.get(its_type, main)
        if len(mids) == 1:
            known = self.known.get(mids[0])
            if self.votes[name] and not main and known is None:
                return ""
            return mids[0] if kind in ("", known or main) else ""
        if not kind:
            asked = [mid for mid in mids if self.asked[mid]]
            return asked[0] if len(asked) == 1 and not self.votes[name] else ""
        same = [mid for mid in mids if self.known.get(mid) == kind]
        if len(same) == 1:
            return same[0]
        if same:
            same.sort(key=lambda mid: -self.asked[mid])
            return same[0] if self.asked[same[0]] > 3 * self.asked[same[1]] else ""
        # None known as such: the one that questions ask about, if the others are something else.
        unknown = [mid for mid in mids if mid not in self.known]
        return unknown[0] if len(unknown) == 1 and (kind == main or self.asked[unknown[0]]) else ""


def literal(text: str, expected: str) -> str:
    """Return a value as the dump writes it, or an empty string where it is none."""
    if expected == "type.datetime" and DATE.fullmatch(text):
        return f'"{text}"^^<{XSD}{DATE_TYPES[len(text)]}>'
    if expected in PLAIN_TYPES and re.fullmatch(r"-?\d+(\.\d+)?", text):
        return f'"{text}"'
    return ""


def read(shared: Path) -> Subgraph:
    """Return the facts whose direction is sure and whose ends are certain, with their inverses."""
    graph = Subgraph()
    graph.roles, graph.inverse, cvt = _ontology(shared / "freebase_ontology")
    namer = _Namer(shared, graph.roles)
    facts = []
    for head, predicate, tail, direction, _ in rows(shared / "freebase_subgraph" / "triples.tsv"):
        if direction not in ("trusted", "inferred") or predicate not in graph.roles:
            continue
        if predicate.partition(".")[0] in LEFT_OUT:
            continue
        domain, expected = graph.roles[predicate]
        facts.append((head, predicate, tail))
        for node, its_type in ((head, domain), (tail, expected)):
            if not MID.fullmatch(node):
                namer.vote(node, its_type)
            elif its_type in cvt:
                graph.mediators[node] = its_type
    for head, predicate, tail in facts:
        domain, expected = graph.roles[predicate]
        ends = []
        for node, its_type, other in ((head, domain, tail), (tail, expected, head)):
            if its_type in cvt or MID.fullmatch(node):
                ends.append(node if graph.mediators.get(node) == its_type else "")
            elif its_type in PLAIN_TYPES or its_type == "type.datetime":
                ends.append(literal(node, its_type))
            elif its_type.startswith("type."):
                ends.append("")
            else:
                mid = namer.mid(node, its_type)
                if node == "London":
                    mid = OTHER_LONDON if other in SPEAK_OF_CANADA else LONDON
                ends.append(mid)
                if mid:
                    graph.names[mid] = node.replace('\\"', '"')
        if set(ends) & MISTAKEN or {
            (head, predicate, tail),
            (tail, graph.inverse.get(predicate, ""), head),
        } & set(MISTAKEN_FACTS):
            continue
        if all(ends) and ends[0] != ends[1]:
            graph.edges.add((ends[0], predicate, ends[1]))
            if predicate in graph.inverse and not ends[1].startswith('"'):
                graph.roles.setdefault(graph.inverse[predicate], (expected, domain))
                graph.edges.add((ends[1], graph.inverse[predicate], ends[0]))
    _tell_apart(graph)
    return graph


def _tell_apart(graph: Subgraph) -> None:
    """Give the poet's marriage to the woman he married."""
    of_his = {end for head, _, end in graph.edges if head == SHAKESPEARE} & graph.mediators.keys()
    for head, predicate, tail in sorted(graph.edges):
        if {head, tail} & of_his and THE_ACTRESS in (head, tail):
            graph.edges.remove((head, predicate, tail))
            ends = [HIS_WIFE if end == THE_ACTRESS else end for end in (head, tail)]
            graph.edges.add((ends[0], predicate, ends[1]))
            graph.names[HIS_WIFE] = graph.names[THE_ACTRESS]
