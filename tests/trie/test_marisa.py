"""A marisa trie is opened if marisa could have written it; whatever opens is a sound trie."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.trie.index.marisa import MAGIC, opened, trie_of

LONGEST = 1 << 12
FORGED = 200


@settings(max_examples=60, deadline=None)
@given(st.sets(st.binary(max_size=24), max_size=80), st.sampled_from([b"", b"\0", b"a"]))
def test_what_marisa_writes_opens(keys: set[bytes], begin: bytes) -> None:
    found = sorted(begin + key for key in keys)
    trie, most = opened(trie_of(found).tobytes(), LONGEST)
    assert trie.keys() == found
    assert max(map(len, found), default=0) <= most


def some_keys(alphabet: range, longest: int, count: int) -> list[bytes]:
    choose = random.Random(count)
    lengths = [choose.randrange(1, longest) for _ in range(count)]
    return sorted({bytes(choose.choices(alphabet, k=length)) for length in lengths})


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(some_keys(range(3), 8, 5), id="few"),
        pytest.param(some_keys(range(30), 12, 600), id="branches"),
        pytest.param(some_keys(range(1, 256), 40, 300), id="tails that end with a byte 0"),
        pytest.param(some_keys(range(2), 200, 60), id="tails that hold it"),
    ],
)
def test_forged_bytes_are_refused_or_are_a_sound_trie(keys: list[bytes]) -> None:
    whole = trie_of(keys).tobytes()
    choose, refused = random.Random(7), 0
    for _ in range(FORGED):
        forged = bytearray(whole)
        at = choose.randrange(len(MAGIC), len(whole))
        size = choose.choice([1, 1, 4, 8])
        some = [choose.randbytes(size), b"\xff" * size, bytes(size), forged[at - size : at]]
        forged[at : at + size] = choose.choice(some)
        forged[at] ^= choose.choice([0, 1 << choose.randrange(8)])
        try:
            trie, most = opened(bytes(forged[: len(whole)]), LONGEST)
        except ValueError:
            refused += 1
            continue
        found = trie.keys()
        assert sorted(set(found)) == found
        assert len(found) == len(trie)
        assert all(len(key) <= most for key in found)
        assert [trie.restore_key(trie[key]) for key in found] == found
        assert all(key in trie.keys(key[: len(key) // 2]) for key in found[::9])
    assert FORGED // 4 < refused < FORGED  # a byte of a key may be another one


def test_cut_and_lengthened_bytes_and_long_keys_are_refused() -> None:
    whole = trie_of(some_keys(range(20), 9, 50)).tobytes()
    for forged in (b"", whole[:-1], whole[: len(whole) // 2], whole + b"\0", whole + whole):
        with pytest.raises(ValueError, match="malformed"):
            opened(forged, LONGEST)
    with pytest.raises(ValueError, match="too long"):
        opened(trie_of([b"a" * 90]).tobytes(), 80)
