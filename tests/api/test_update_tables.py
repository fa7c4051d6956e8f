"""Rows that are added to a KG of tables, and taken from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kgqa

if TYPE_CHECKING:
    from pathlib import Path

TOWNS = "town_id,name\n1,York\n2,Bath\n"
PEOPLE = "person_id,name,town_id,age\n7,Ann Lee,1,30\n8,Bob Ray,2,40\n"


def test_rows_are_added_and_removed_under_the_mapping_of_the_load(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "towns.csv").write_text(TOWNS)
    (folder / "people.csv").write_text(PEOPLE)
    more, gone = tmp_path / "more" / "people.csv", tmp_path / "gone" / "people.csv"
    for path in (more, gone):
        path.parent.mkdir()
    more.write_text("person_id,name,town_id,age\n9,Cy Orr,2,50\n")
    gone.write_text("person_id,name,town_id,age\n7,Ann Lee,1,30\n")
    with kgqa.ingest("tables", folder, home=tmp_path / "home") as kg:
        counts = kg.update(add=[more])
        assert (counts["entities"]["added"], counts["rejected"]) == (1 + 1, 0)  # and the age 50
        assert kg.check("Cy Orr -> town -> Bath").found
        assert kg.check("Cy Orr -> age -> 50").found
        kg.update(remove=[gone])
        assert not kg.check("York -> ^town -> Ann Lee").found
