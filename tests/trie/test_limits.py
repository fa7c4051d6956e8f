"""Naming a hub's tails is cut into pieces, between which a time limit can end it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.deadline import deadline
from kgqa.errors import TimeLimitError
from kgqa.paths.format import PathFormat
from kgqa.trie import lexicon
from kgqa.trie.lexicon import PathLexicon
from tests.graph.tables import entity, tables_of
from tests.trie.language import CharacterEncoder, store_of

if TYPE_CHECKING:
    from pathlib import Path


def test_naming_stops_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexicon, "_AT_ONCE", 10)
    store = store_of(
        tables_of([entity(f"e{at:02}", f"Name {at}") for at in range(35)], []), tmp_path
    )
    keys = np.arange(35)
    whole = PathLexicon(CharacterEncoder(), PathFormat()).tails(store, keys)
    left = [2]

    def check_deadline() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise TimeLimitError("Time is over.")

    stopped = PathLexicon(CharacterEncoder(), PathFormat())
    with pytest.raises(TimeLimitError), deadline(check_deadline):
        stopped.tails(store, keys)
    encoded: list[int] = []
    encode = stopped.encoder.encode
    stopped.encoder.encode = lambda texts: encoded.append(len(texts)) or encode(texts)  # type: ignore[method-assign]
    again = stopped.tails(store, keys)
    assert encoded == [10, 5]  # the first twenty are known
    assert again.tokens.tolist() == whole.tokens.tolist()
    assert again.offsets.tolist() == whole.offsets.tolist()
