"""A KG that changes: what users see of it, its index, and whoever has it open."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock

import kgqa
from kgqa.errors import DumpMalformedError, IngestError, UsageError
from kgqa.graph.model import KGInfo
from kgqa.graph.sqlite import SqliteStore
from kgqa.methods.ensemble import staleness_note
from kgqa.paths.walk import WalkRules, walk
from kgqa.trie.index.manifest import Manifest
from kgqa.trie.index.reader import all_manifests, open_index

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa import KG

SERVICES = """\
checkout-api dependsOn price-feed
checkout-api ownedBy Payments
price-feed onCallEngineer Bo
search onCallEngineer Ada
Ada livesIn Bonn
a knows b
b knows c
c knows d
"""


def lines(path: Path, text: str) -> Path:
    path.write_text(text.replace(" ", "\t"), encoding="utf-8")
    return path


@pytest.fixture
def kg(tmp_path: Path) -> Iterator[KG]:
    file = lines(tmp_path / "services.tsv", SERVICES)
    with kgqa.ingest("triples", file, home=tmp_path / "home") as kg:
        yield kg


def texts(kg: KG, entity: str) -> set[str]:
    return {path.text for path in kg.paths(entity).paths}


def test_adds_and_removes_triples_and_says_what_it_did(kg: KG, tmp_path: Path) -> None:
    new = lines(tmp_path / "new.tsv", "checkout-api onCallEngineer Cy\nhalf a\nCy livesIn Ulm\n")
    gone = lines(tmp_path / "gone.tsv", "checkout-api ownedBy Payments\nno such edge\n")
    version = kg.info.version
    found = kg.update(new, remove=gone)
    assert (found["kg"], found["added"], found["removed"]) == ("services", 2, 1)
    assert found["entities"] == {"added": 2, "removed": 1}  # Cy and Ulm; Payments
    assert found["version"] == kg.info.version != version
    assert found["rejected"] == 1
    assert "half a".replace(" ", "\\t") in (kg.folder / "rejects.tsv").read_text("utf-8")
    assert found["dropped"] == {"edge to remove that is not there": 1}
    assert "checkout-api -> onCallEngineer -> Cy -> livesIn -> Ulm" in texts(kg, "checkout-api")
    assert (kg.info.edges, kg.info.relations) == (9, 4)  # ownedBy went with its last edge


def test_the_same_again_changes_nothing(kg: KG, tmp_path: Path) -> None:
    version = kg.info.version
    found = kg.update(lines(tmp_path / "same.tsv", "a knows b\n"))
    assert (found["added"], found["version"]) == (0, version)
    assert found["dropped"] == {"repeated edge": 1}


def test_names_come_and_go(kg: KG, tmp_path: Path) -> None:
    names = tmp_path / "names.tsv"
    names.write_text("Ada\tAda Lovelace\nAda\tA. L.\n", encoding="utf-8")
    kg.update(names=names)
    assert kg.entity("ada lovelace").id == "Ada"
    names.write_text("Ada\tAda Lovelace\n", encoding="utf-8")
    kg.update(remove_names=names)
    assert kg.entity("Ada").name == "A. L."  # the next name of the table
    names.write_text("Ada\tA. L.\n", encoding="utf-8")
    kg.update(remove_names=names)
    assert kg.entity("Ada").name == "Ada"


def test_an_update_has_the_columns_that_the_load_found(tmp_path: Path) -> None:
    rows = "".join(f"likes{at % 3} n{at} n{at + 1}\n" for at in range(30))
    with kgqa.ingest("triples", lines(tmp_path / "a.tsv", rows), home=tmp_path / "home") as kg:
        kg.update(lines(tmp_path / "b.tsv", "knows n1 Zoe\n"))
        assert "n1 -> knows -> Zoe" in texts(kg, "n1")


def test_a_name_out_of_an_iri_gives_way_to_a_label(tmp_path: Path) -> None:
    x, label = "http://x.org/", "<http://www.w3.org/2000/01/rdf-schema#label>"
    first = tmp_path / "a.nt"
    first.write_text(f"<{x}BigCage> <{x}in> <{x}NorthWing> .\n", encoding="utf-8")
    added, named = tmp_path / "b.nt", tmp_path / "c.nt"
    added.write_text(f"<{x}SmallCage> <{x}in> <{x}NorthWing> .\n", encoding="utf-8")
    named.write_text(f'<{x}BigCage> {label} "Cage 1"@en .\n', encoding="utf-8")
    with kgqa.ingest("triples", first, home=tmp_path / "home") as kg:
        kg.update(added)
        assert texts(kg, "Small Cage") >= {"Small Cage -> in -> North Wing"}
        assert texts(kg, "BigCage") >= {"Big Cage -> in -> North Wing"}
        kg.update(named)
        assert texts(kg, "Cage 1") >= {"Cage 1 -> in -> North Wing"}
        kg.update(remove=named)
        assert texts(kg, f"{x}BigCage") >= {"Big Cage -> in -> North Wing"}


def test_mediators_stay_what_the_load_said_they_are(tmp_path: Path) -> None:
    file = lines(tmp_path / "wed.tsv", "ann spouse m1\nm1 of bob\n")
    with kgqa.ingest("triples", file, home=tmp_path / "home", mediators="m") as kg:
        kg.update(lines(tmp_path / "more.tsv", "cat spouse m2\nm2 of dan\nm1 in Ulm\n"))
        assert kg.info.mediators == 2
        assert texts(kg, "cat") >= {"cat -> spouse..of -> dan"}


def test_what_cannot_be_read_changes_nothing(kg: KG, tmp_path: Path) -> None:
    version = kg.info.version
    with pytest.raises(DumpMalformedError):
        kg.update(lines(tmp_path / "bad.tsv", "one\ntwo\nthree\n"))
    with pytest.raises(UsageError, match="nothing to add"):
        kg.update()
    assert kg.info.version == version


def test_whoever_has_it_open_sees_the_new_version(kg: KG, tmp_path: Path) -> None:
    question = {"question": "who is on call for price-feed", "entities": ["price-feed"]}
    new = lines(tmp_path / "new.tsv", "price-feed onCallEngineer Cy\n")
    gone = lines(tmp_path / "gone.tsv", "price-feed onCallEngineer Bo\n")
    store = SqliteStore(kg.folder / "graph.sqlite")
    with store, kgqa.open("services", home=tmp_path / "home") as other, other.qa("rank") as qa:
        assert qa.ask(**question).best.name == "Bo"
        method = qa.method
        command = [sys.executable, "-m", "kgqa", "--home", str(tmp_path / "home"), "--json"]
        command += ["update", str(new), "--remove", str(gone)]
        done = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        assert (done["added"], done["removed"], done["rejected"]) == (1, 1, 0)
        assert qa.ask(**question).best.name == "Cy"  # as it is now, nothing of what was kept
        assert qa.method is not method
        assert kg.ask(**question, method="rank").best.name == "Cy"
        assert other.info.version == kg.info.version
        # a store that nobody refreshes goes on with the version that it has
        assert store.info.version != kg.info.version
        assert store.keys_of(["Bo", "Cy"]).tolist()[1] == -1
        assert store.entities(store.keys_of(["Bo"])).names == ["Bo"]


def test_the_index_keeps_what_the_change_does_not_reach(kg: KG, tmp_path: Path) -> None:
    built = kg.index().counts
    found = kg.update(lines(tmp_path / "new.tsv", "d knows e\n"))
    reached = {"c", "d", "e"}  # within two hops, both ways
    assert found["index"] == {"kept": built.stored - 2, "dropped": 2}
    [(_, manifest)] = all_manifests(kg.folder / "tries")
    assert isinstance(manifest, Manifest)
    with open_index(kg.folder / "tries", manifest.key) as index:
        assert manifest.key.kg_version == kg.info.version
        assert not index.stored_ids() & reached
        table, _ = walk(kg.store, kg.store.keys_of(["Ada"]), WalkRules(2, "both"))
        ada = index.look_up("Ada", int(kg.store.keys_of(["Ada"])[0]))
        assert ada is not None
        assert len(ada.table) == len(table)
    again = kg.index().counts
    assert (again.added, again.stored) == (3, built.stored + 1)
    assert kg.update(lines(tmp_path / "new.tsv", "d knows e\n"))["index"] == {
        "kept": again.stored,
        "dropped": 0,
    }


@pytest.mark.parametrize("what", ["update", "index", "learn"])
def test_only_one_command_writes_to_a_kg(kg: KG, tmp_path: Path, what: str) -> None:
    new = lines(tmp_path / "new.tsv", "d knows e\n")
    given = {"update": {"add": new}, "index": {}, "learn": {"questions": new}}[what]
    with (
        FileLock(kg.folder / ".ingest.lock"),
        pytest.raises(IngestError, match="Another command is writing to services"),
    ):
        getattr(kg, what)(**given)


def test_a_kg_that_changed_much_says_so_of_its_own_models() -> None:
    info = KGInfo("mine", "", "", "out", 9, 0, 0, 3, 100, changed=30, given_relations=4)
    assert "30 edges of mine" in staleness_note({"changed": 0, "relations": 4}, info)
    assert "1 new relations" in staleness_note({"changed": 29, "relations": 3}, info)
    assert staleness_note({"changed": 12, "relations": 4}, info) == ""
    assert staleness_note({}, info) == ""  # made before such things were written down


def freebase(path: Path, *triples: str) -> Path:
    """A dump in Freebase's form, of subject, predicate and object each."""
    rows = []
    for triple in triples:
        head, predicate, tail = triple.split(" ", 2)
        found = tail if tail[0] == '"' else f"<{NS}{tail}>"
        rows.append(f"<{NS}{head}>\t<{NS}{predicate}>\t{found}\t.\n")
    path.write_text("".join(rows), encoding="utf-8")
    return path


NS = "http://rdf.freebase.com/ns/"
WEDDING = (
    'm.01 type.object.name "Ann"@en',
    'm.01 common.topic.alias "Annie"@en',
    'm.02 type.object.name "Bob"@en',
    "m.0c type.object.type people.marriage",
    "m.01 people.person.spouse_s m.0c",
    "m.0c people.marriage.spouse m.02",
    'm.01 people.person.date_of_birth "1950-01-01"^^<http://www.w3.org/2001/XMLSchema#date>',
)
NEW = (
    'm.03 type.object.name "Cy"@en',
    "m.0d type.object.type people.marriage",
    "m.02 people.person.spouse_s m.0d",
    "m.0d people.marriage.spouse m.03",
    "m.03 people.person.spouse_s m.0e",  # nobody says what that is
)


@pytest.mark.parametrize(
    "gone",
    [
        (WEDDING[4],),  # an edge: its mediator stays without
        (WEDDING[2], WEDDING[6]),  # a name: the mid goes, and its edges; a value
        (WEDDING[0], WEDDING[1], WEDDING[5]),
    ],
)
def test_a_changed_freebase_is_what_a_load_of_the_changed_dump_gives(
    tmp_path: Path, gone: tuple[str, ...]
) -> None:
    left = [one for one in WEDDING if one not in gone]
    home = tmp_path / "home"
    dump = freebase(tmp_path / "all.nt", *WEDDING)
    new, old = freebase(tmp_path / "new.nt", *NEW), freebase(tmp_path / "old.nt", *gone)
    fresh = freebase(tmp_path / "fresh.nt", *left, *NEW)
    with (
        kgqa.ingest("freebase", dump, home=home, kg="changed") as kg,
        kgqa.ingest("freebase", fresh, home=home, kg="fresh") as wanted,
    ):
        kg.update(new, remove=old)
        counts = [
            (one.entities, one.mediators, one.values, one.relations, one.edges)
            for one in (kg.info, wanted.info)
        ]
        assert counts[0] == counts[1]
        ids = ["m.01", "m.02", "m.03", "m.0c", "m.0d", "m.0e"]
        stores = kg.store, wanted.store
        known = [store.keys_of(ids) for store in stores]
        assert (known[0] >= 0).tolist() == (known[1] >= 0).tolist()
        for one, other in zip(*(keys[keys >= 0].tolist() for keys in known), strict=True):
            assert stores[0].details(one) == stores[1].details(other)
        for id_, key in zip(ids, known[1].tolist(), strict=True):
            if key >= 0:
                assert texts(kg, id_) == texts(wanted, id_)


def test_an_attached_kg_is_never_changed(kg: KG, tmp_path: Path) -> None:
    (kg.folder / "attached.toml").write_text("{}")  # the name stands for a database now
    with pytest.raises(UsageError, match="services is attached"):
        kg.update(lines(tmp_path / "new.tsv", "d knows e\n"))
