"""A data folder with the bundled sample, opened through the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module", autouse=True)
def environment(model_cache: Path) -> Iterator[None]:
    """The library as in a shell without settings, with the tests' cache of models."""
    import os

    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(("KGQA_", "NEO4J_", "OPENAI_")) and "TEST" not in name:
                patch.delenv(name)
        patch.setenv("KGQA_CACHE", str(model_cache))
        patch.setenv("KGQA_DEVICE", "cpu")
        yield


@pytest.fixture(scope="module")
def kg(sample_home: Path) -> Iterator[kgqa.KG]:
    """The bundled Freebase sample. Shared: do not change it."""
    with kgqa.open("freebase", home=sample_home) as opened:
        yield opened
