"""A small KG in a real embedded store, for the tests of this room."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kgqa.graph.model import EDGE_SCHEMA, ENTITY_SCHEMA, EdgeBatch, EntityBatch, Kind
from kgqa.loading.pipeline import assemble
from tests.trie.language import store_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.sqlite import SqliteStore


# id: (name, aliases)
ENTITIES: dict[str, tuple[str, list[str]]] = {
    "m.obama": ("Barack Obama", ["President Obama"]),
    "m.michelle": ("Michelle Obama", []),
    "m.hitler": ("Adolf Hitler", []),
    "m.chavez": ("Hugo Chávez", []),
    "m.utica_ny": ("Utica", []),
    "m.utica_oh": ("Utica", []),
    "m.ny": ("New York", ["NY"]),
    "m.ohio": ("Ohio", []),
    "m.usa": ("United States of America", ["USA"]),
    "m.germany": ("Germany", []),
    "m.german": ("German Language", []),
    "m.paris": ("Paris", ["City of Light"]),
    "m.paris_tx": ("Paris", []),
    "m.hilton": ("Paris Hilton", []),
    "m.lotr": ("The Lord of the Rings", []),
    "m.name": ("Name", []),
    "m.film": ("Film", []),
    "m.who": ("The Who", []),
    "m.it": ("It", []),
    "m.lewis": ("Lewis & Clark", []),
    "m.smith": ("Will Smith", []),
    "m.beijing": ("北京", []),
    "m.twin_lower": ("twin peaks", []),
    "m.twin_upper": ("Twin Peaks", []),
    "m.berlin_band": ("Berlin", []),
    "m.berlin_wall": ("Berlin Wall", []),
    "m.mercury": ("Mercury", []),
    "m.freddie": ("Freddie M", ["Mercury"]),
    "m.lonely": ("Lonely Island", []),
    "m.adams": ("John Adams", []),
    "m.adams_song": ("Adams", []),
    "m.bulldog": ("American Bulldog", []),
    "m.covey": ("Stephen Covey", []),
    "m.galaxy": ("Galaxy", []),
    "m.galaxy_film": ("Galaxy", []),
    "m.moulin_a": ("Moulin Rouge", []),
    "m.moulin_b": ("Moulin Rouge!", []),
    "m.kent": ("Kentwich", []),
    "P-1013": ("Cargo stator", []),
    "m.kent_hall": ("Kentwich Orange Hall", []),
    "m.york": ("Yorkwich", []),
    "m.york_hall": ("Yorkwich Purple Lantern Jubilee Hopscotch Gallery", []),
}
# (head, relation, tail); fillers make the first of two equal names the better known
EDGES = [
    ("m.obama", "people.person.spouse_s", "m.michelle"),
    ("m.michelle", "people.person.spouse_s", "m.obama"),
    ("m.utica_ny", "location.location.containedby", "m.ny"),
    ("m.utica_oh", "location.location.containedby", "m.ohio"),
    ("m.ny", "location.location.containedby", "m.usa"),
    ("m.ohio", "location.location.containedby", "m.usa"),
    ("m.germany", "location.country.official_language", "m.german"),
    ("m.hitler", "people.person.nationality", "m.germany"),
    ("m.chavez", "people.person.place_of_death", "m.paris"),
    ("m.paris_tx", "location.location.containedby", "m.usa"),
    ("m.hilton", "people.person.nationality", "m.usa"),
    ("m.lotr", "film.film.country", "m.usa"),
    ("m.name", "type.object.related", "m.film"),
    ("m.who", "music.artist.origin", "m.usa"),
    ("m.it", "film.film.country", "m.usa"),
    ("m.lewis", "people.group.nationality", "m.usa"),
    ("m.smith", "people.person.nationality", "m.usa"),
    ("m.twin_lower", "film.film.country", "m.usa"),
    ("m.twin_upper", "film.film.country", "m.usa"),
    ("m.berlin_band", "music.artist.origin", "m.usa"),
    ("m.berlin_wall", "location.location.containedby", "m.germany"),
    ("m.mercury", "astronomy.planet.seen_from", "m.usa"),
    *((f"m.album_{number}", "music.album.artist", "m.freddie") for number in range(20)),
    ("m.beijing", "location.location.twin", "m.paris"),
    ("m.adams_song", "music.recording.artist", "m.usa"),
    *((f"m.letter_{number}", "book.written_work.author", "m.adams") for number in range(40)),
    ("m.bulldog", "biology.animal_breed.place_of_origin", "m.usa"),
    *((f"m.covey_{number}", "book.written_work.author", "m.covey") for number in range(9)),
    *((f"m.star_{number}", "astronomy.star.planets_of", "m.galaxy") for number in range(3)),
    ("m.galaxy_film", "film.film.directed_by", "m.smith"),
    ("m.galaxy_film", "film.film.country", "m.ohio"),
    ("m.moulin_a", "film.film.starring", "m.ohio"),
    ("m.moulin_b", "film.film.starring", "m.ohio"),
    *((f"m.{name}", "location.location.containedby", "m.usa") for name in ("kent", "york")),
    *((f"m.{name}_hall", "location.location.containedby", "m.usa") for name in ("kent", "york")),
]
EDGES += [
    (f"m.in_paris_{number}", "location.location.containedby", "m.paris") for number in range(30)
]
EDGES += [
    (f"m.in_utica_{number}", "location.location.containedby", "m.utica_oh") for number in range(3)
]
EDGES += [("m.obama", "people.person.employer", f"m.office_{number}") for number in range(20)]


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """The small KG, written once and opened read-only."""
    fillers = {end for head, _, tail in EDGES for end in (head, tail)} - ENTITIES.keys()
    rows = [
        {"id": id_, "name": name, "aliases": aliases, "kind": Kind.ENTITY}
        for id_, (name, aliases) in ENTITIES.items()
    ]
    rows += [{"id": id_, "name": None, "kind": Kind.MEDIATOR} for id_ in sorted(fillers)]
    edges = [{"head": head, "relation": relation, "tail": tail} for head, relation, tail in EDGES]
    tables = assemble(
        [
            EntityBatch(pa.RecordBatch.from_pylist(rows, schema=ENTITY_SCHEMA)),
            EdgeBatch(pa.RecordBatch.from_pylist(edges, schema=EDGE_SCHEMA)),
        ],
        name="small",
        source="test",
        direction="out",
        dropped=Counter(),
    )
    with store_of(tables, tmp_path_factory.mktemp("linking")) as opened:
        yield opened
