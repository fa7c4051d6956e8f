"""Settings come from variables with kgqa's prefix or a server's own names, and from no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import AliasChoices

from kgqa.config import Settings, default_home

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic.fields import FieldInfo


def names_of(field: FieldInfo) -> list[str]:
    """The variables that a setting is read from."""
    assert isinstance(field.validation_alias, AliasChoices)
    return [str(choice) for choice in field.validation_alias.choices]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any setting of kgqa's."""
    for field in Settings.model_fields.values():
        for name in names_of(field):
            monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_variables_of_other_programs_are_not_read(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = {one for field in Settings.model_fields.values() for one in names_of(field)}
    for name in Settings.model_fields:  # HOME above all
        if name.upper() not in known:
            bare.setenv(name.upper(), str(tmp_path))
    found = Settings()
    assert found.home == default_home() != tmp_path
    assert found.model_dump(exclude={"home"}) == Settings.model_construct().model_dump(
        exclude={"home"}
    )


def test_settings_are_read_by_their_names(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("KGQA_HOME", str(tmp_path))
    bare.setenv("KGQA_MODEL", "tiny")
    bare.setenv("NEO4J_URI", "bolt://localhost")
    found = Settings()
    assert (found.home, found.model, found.graph_url) == (tmp_path, "tiny", "bolt://localhost")
    assert Settings(model="other").model == "other"
