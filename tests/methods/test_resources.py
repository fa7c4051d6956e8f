"""What methods are made with is loaded once, and a note stands for an index that does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.config import load_settings
from kgqa.errors import IndexMissingError, IndexStaleError, KgqaError, ShardDamagedError, UsageError
from kgqa.methods.resources import Resources
from kgqa.progress import Silent
from kgqa.trie.index.manifest import IndexKey

if TYPE_CHECKING:
    from pathlib import Path

KEY = IndexKey("kg", "1", "t", "f", 2, "out", "collapse")


@dataclass
class Opened:
    """An index as far as it is opened and closed."""

    closed: int = 0

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed += 1


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    return load_settings(home=tmp_path, openai_base_url="http://127.0.0.1:9/v1")


def test_an_index_is_opened_once_and_closed_at_the_end(settings: Any) -> None:
    opened = Opened()
    asked: list[IndexKey] = []

    def open_index(key: IndexKey) -> Any:
        asked.append(key)
        return opened

    with Resources(settings, open_index=open_index) as resources:
        assert resources.index(KEY, {}) is opened
        assert resources.index(KEY, {}) is opened
        assert asked == [KEY]
        assert not opened.closed
    assert opened.closed == 1
    assert Resources(settings).index(KEY, {}) is None


@pytest.mark.parametrize(
    ("fault", "command"),
    [
        (IndexMissingError("There is none."), "--hops 3"),
        (IndexStaleError("It is old."), "--hops 3"),
        (ShardDamagedError("It is damaged."), "--hops 3 --rebuild"),
    ],
)
def test_without_a_fitting_index_a_note_says_what_builds_it(
    settings: Any, fault: KgqaError, command: str
) -> None:
    def open_index(_: IndexKey) -> Any:
        raise fault

    progress = Silent()
    resources = Resources(
        settings,
        progress=progress,
        open_index=open_index,
        build_command=lambda options: f"kgqa precompute-tries --hops {options['hops']}",
    )
    assert resources.index(KEY, {"hops": 3}) is None
    (note,) = progress.notes
    assert note.startswith(f"{fault.message} Answering on the fly.")
    assert note.endswith(f"kgqa precompute-tries {command}")


def test_a_general_llm_is_there_only_if_it_is_named(settings: Any) -> None:
    with Resources(settings) as resources:
        assert resources.general_llm(None) is None
        named = resources.general_llm("m")
        assert named is not None
        assert named.model == "m"
        assert resources.general_llm("m") is named
        assert resources.general_llm("m", cache_calls=False) is not named
    by_settings = settings.model_copy(update={"general_model": "s"})
    with Resources(by_settings) as resources:
        found = resources.general_llm(None)
        assert found is not None
        assert found.model == "s"


def test_a_preset_that_is_not_known_is_refused_before_a_model_is_loaded(settings: Any) -> None:
    with pytest.raises(UsageError, match=r"preset .* does not exist"):
        Resources(settings).kg_llm(None, preset="nothing")
