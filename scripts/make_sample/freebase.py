"""Draws the Freebase sample: what stands round the topics, written as the dump writes it.

Does not judge facts: what it draws from is `subgraph`'s.
"""

from __future__ import annotations

import gzip
import io
from collections import defaultdict
from typing import TYPE_CHECKING

from facts import (
    ALIASES,
    DESCRIPTIONS,
    MALFORMED,
    OTHER_LANGUAGES,
    TOPICS,
    WIKIPEDIA,
)
from subgraph import KIND_OF, Subgraph

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NS = "http://rdf.freebase.com/ns/"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"

PER_TOPIC = 7  # neighbours of a topic by one predicate
MAX_TYPES = 2
PER_AWARD = 5
MAX_LEADS = 8  # ends of one mediator: beyond, it is a list, not a fact
PER_BIG = 16  # … where the list is what people ask for
BIG = frozenset(
    [
        "film.actor.film",
        "film.film.starring",
        "book.author.works_written",
        "music.artist.album",
        "people.person.children",
        "government.us_president.vice_president",
        "film.director.film",
        "sports.sports_team.roster",
        "music.musical_group.member",
        "location.country.official_language",
        "tv.tv_program.regular_cast",
    ]
)
# What is told of an entity that is not a topic, so that a second hop leads somewhere.
PLAIN_FACTS = frozenset(
    [
        "people.person.place_of_birth",
        "people.person.nationality",
        "people.person.profession",
        "people.deceased_person.place_of_death",
        "people.person.religion",
        "location.location.containedby",
        "film.film.directed_by",
        "film.film.genre",
        "film.film.country",
        "film.film.language",
        "film.film.written_by",
        "film.film.music",
        "book.written_work.author",
        "book.book.genre",
        "location.country.capital",
        "location.country.currency_used",
        "location.country.official_language",
        "location.country.form_of_government",
        "music.album.artist",
        "music.album.genre",
        "music.artist.genre",
        "sports.sports_team.arena_stadium",
        "sports.sports_team.sport",
        "organization.organization.founders",
        "organization.organization.headquarters",
        "location.location.time_zones",
        "music.composition.composer",
        "book.written_work.original_language",
        "tv.tv_program.country_of_origin",
        "tv.tv_program.original_network",
        "fictional_universe.fictional_character.character_created_by",
    ]
)
# True and endless, or of no use to a reader of paths.
UNWANTED = frozenset(
    [
        "location.citytown.postal_codes",
        "location.location.events",
        "time.event.locations",
        "location.location.geolocation",
        "location.geocode.latitude",
        "location.geocode.longitude",
        "celebrities.celebrity.net_worth",
        "location.statistical_region.population",
        "celebrities.celebrity.sexual_relationships",
        "celebrities.romantic_relationship.celebrity",
        "location.statistical_region.places_exported_to",
        "location.statistical_region.places_imported_from",
        "american_football.football_player.rushing",
        "american_football.football_player.passing",
        "travel.travel_destination.tourist_attractions",
        "travel.tourist_attraction.near_travel_destination",
    ]
)
UNWANTED_WORDS = (
    ".gdp_",
    ".gni_",
    "batting_stat",
    "statistics",
    "football_player.games",
    "matches_played",
    "military_conflicts",
    "guest_roles",
)


def draw(graph: Subgraph) -> set[tuple[str, str, str]]:
    """Return the sample's facts: round each topic, then among everything that was reached."""
    out: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for head, predicate, tail in sorted(graph.edges):
        if {predicate, graph.inverse.get(predicate, "")} & UNWANTED:
            continue
        if not any(word in predicate for word in UNWANTED_WORDS):
            out[head][predicate].append(tail)
    named = [line.strip() for line in TOPICS.replace("\n", ";").split(";")]
    mids = defaultdict(list)
    for mid, name in graph.names.items():
        mids[name].append(mid)
    topics = {mid for name in named for mid in mids[name]}
    weight = {node: len(out[node]) for node in out}

    def rank(node: str) -> tuple[bool, int, str]:
        """Topics first, then what the source tells most of."""
        far = (
            [end for ends in out[node].values() for end in ends] if node in graph.mediators else []
        )
        known = node in topics or sum(end in topics for end in far) > 1
        return (not known, -(weight.get(node, 0) if not far else len(far)), node)

    kept: set[tuple[str, str, str]] = set()
    reached = set(topics)

    def keep_mediator(node: str, came_from: str) -> bool:
        """Take a mediator with all its edges, if it leads to anything but where it came from."""
        leads = {
            end
            for ends in out[node].values()
            for end in ends
            if end in graph.names and end != came_from
        }
        if not leads or len(leads) > MAX_LEADS:
            return False
        for predicate, ends in out[node].items():
            for end in ends:
                if end not in graph.mediators:
                    kept.add((node, predicate, end))
                    reached.add(end)
        return True

    for topic in sorted(topics):
        for predicate, ends in sorted(out[topic].items()):
            room = PER_BIG if predicate in BIG else PER_TOPIC
            room = PER_AWARD if predicate.startswith(("award.", "influence.")) else room
            for end in sorted(ends, key=rank):
                if room and (end not in graph.mediators or keep_mediator(end, topic)):
                    kept.add((topic, predicate, end))
                    reached.add(end)
                    room -= 1
    for node in sorted(reached - topics):
        for predicate, ends in sorted(out[node].items()):
            if predicate in PLAIN_FACTS:
                kept.update(
                    (node, predicate, end)
                    for end in ends[:2]
                    if end not in graph.mediators or keep_mediator(end, node)
                )
            kept.update((node, predicate, end) for end in ends if end.startswith('"'))
    # Both directions stand where Freebase has both; among named entities nothing else is added.
    for head, predicate, tail in sorted(kept):
        if predicate in graph.inverse and not tail.startswith('"'):
            kept.add((tail, graph.inverse[predicate], head))
    return _largest_component(kept)


def _largest_component(kept: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Return the facts of the largest part in which everything hangs together."""
    beside: dict[str, set[str]] = defaultdict(set)
    for head, _, tail in kept:
        if not tail.startswith('"'):
            beside[head].add(tail)
            beside[tail].add(head)
    left, largest = set(beside), set[str]()
    while left:
        front = {min(left)}
        part = set(front)
        while front:
            front = {node for met in front for node in beside[met]} - part
            part |= front
        left -= part
        largest = max(largest, part, key=len)
    return {fact for fact in kept if fact[0] in largest}


def _main_types(types: set[str]) -> list[str]:
    """Return what a node is, without the roles it plays in single predicates."""
    return sorted(types, key=lambda its_type: (its_type not in KIND_OF, its_type))[:MAX_TYPES]


def _iri(node: str) -> str:
    return f"<{node if '://' in node else NS + node}>"


def _text(text: str, language: str = "en") -> str:
    escaped = text.replace('"', '\\"')
    return f'"{escaped}"@{language}'


def lines(graph: Subgraph, kept: set[tuple[str, str, str]], shared: Path) -> Iterable[str]:
    """Return the sample's lines, sorted as the dump is, with broken ones strewn in."""
    facts: set[tuple[str, str, str]] = set()

    def tell(head: str, predicate: str, value: str) -> None:
        facts.add((_iri(head), _iri(predicate), value))

    types: dict[str, set[str]] = defaultdict(set)
    for head, predicate, tail in kept:
        tell(head, predicate, tail if tail.startswith('"') else _iri(tail))
        domain, expected = graph.roles[predicate]
        types[head].add(domain)
        if not tail.startswith('"'):
            types[tail].add(expected)
    by_name: dict[str, list[str]] = defaultdict(list)  # also by name@mid, where several share it
    for node in sorted(types):
        if node in graph.mediators:
            tell(node, "type.object.type", _iri(graph.mediators[node]))
            tell(node, RDF_TYPE, _iri(graph.mediators[node]))
            continue
        by_name[graph.names[node]].append(node)
        by_name[f"{graph.names[node]}@{node}"].append(node)
        tell(node, "type.object.name", _text(graph.names[node]))
        for its_type in _main_types(types[node]):
            tell(node, "type.object.type", _iri(its_type))
    for name, aliases in ALIASES.items():
        for node in by_name[name]:
            for alias in aliases:
                tell(node, "common.topic.alias", _text(alias))
    for name, others in OTHER_LANGUAGES.items():
        for node in by_name[name]:
            for language, other in others.items():
                tell(node, "type.object.name", _text(other, language))
    for name, text in DESCRIPTIONS.items():
        for node in by_name[name]:
            tell(node, "common.topic.description", _text(text))
    for name, key in WIKIPEDIA.items():
        for node in by_name[name]:
            tell(node, "http://rdf.freebase.com/key/wikipedia.en", f'"{key}"')
            tell(node, "type.object.key", f'"/wikipedia/en/{key}"')
            page = key.replace("$002E", ".")
            tell(
                node,
                "common.topic.topic_equivalent_webpage",
                _iri(f"http://en.wikipedia.org/wiki/{page}"),
            )
            tell(node, LABEL, _text(name))
            tell(node, "type.object.type", _iri("common.topic"))
    for shared_name in (
        key for key in {**ALIASES, **OTHER_LANGUAGES, **WIKIPEDIA} if len(by_name[key]) > 1
    ):
        raise SystemExit(f"{shared_name}: several entities have this name; write name@mid.")
    whole = sorted("\t".join((*fact, ".")) for fact in facts)
    whole.extend(_schema_lines(shared))
    whole.sort()
    step = len(whole) // (len(MALFORMED) + 1)
    for number, broken in enumerate(MALFORMED, start=1):
        whole.insert(number * step, broken)
    return whole


def _schema_lines(shared: Path) -> list[str]:
    """Return lines of the real dump that are about the schema, not about things."""
    source = shared / "freebase_rdf" / "true_dump_lines.nt"
    instances: list[str] = []
    others: list[str] = []
    for line in source.read_text(encoding="utf-8").splitlines():
        head, predicate, *_ = line.split("\t")
        if "/ns/m." in head:
            continue
        (instances if predicate.endswith("type.type.instance>") else others).append(line)
    return instances[:40] + others[:120]


def write(path: Path, text: Iterable[str]) -> None:
    """Write the lines compressed, the same bytes every time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = io.BytesIO()
    with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=9, mtime=0) as file:
        file.write("".join(line + "\n" for line in text).encode())
    path.write_bytes(raw.getvalue())
