from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kgqa.errors import DumpNotFoundError
from kgqa.loaders.blocks import find_sources

if TYPE_CHECKING:
    from pathlib import Path


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DumpNotFoundError, match=r"no Freebase dump file .*missing\.gz"):
        find_sources([tmp_path / "missing.gz"], "Freebase dump")
    with pytest.raises(DumpNotFoundError, match="holds no file"):
        find_sources([tmp_path], "Freebase dump")
    with pytest.raises(DumpNotFoundError, match="was given"):
        find_sources([], "Freebase dump")


def test_a_folder_stands_for_its_parts_in_order(tmp_path: Path) -> None:
    for name in ("part-2", "part-1", ".hidden"):
        (tmp_path / name).write_text("x\n")
    assert [path.name for path in find_sources([tmp_path], "dump")] == ["part-1", "part-2"]
