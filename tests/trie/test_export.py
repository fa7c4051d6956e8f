"""What is shown of a trie can be read back to it."""

from __future__ import annotations

import re
from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgqa.trie.arrays import TokenTrie, build_trie, in_order, sequences
from kgqa.trie.export import branching, sequence_tokens, text_lines, token_text
from tests.trie.language import CharacterEncoder
from tests.trie.real_tokenizers import real_encoder

ENCODER = CharacterEncoder()
NASTY = 'ab|{}\\" &;\n\t<>\u200d\u2028é北😀n3'
texts = st.lists(
    st.text(st.sampled_from(NASTY), min_size=1, max_size=6), min_size=1, max_size=12, unique=True
)
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)")


def trie_of(given: list[str]) -> TokenTrie:
    return build_trie(in_order(sequences(ENCODER.encode(given))))


def read_back(shown: str) -> str:
    """The text of what was written with backslashes."""

    def one(match: re.Match[str]) -> str:
        code = match.group(1)
        if code[0] in "xuU" and len(code) > 1:
            return chr(int(code[1:], 16))
        return {"n": "\n", "t": "\t", "r": "\r"}.get(code, code)

    return _ESCAPE.sub(one, shown)


def tokens_of(shown: str) -> list[tuple[str, int]]:
    """The tokens of a line, each with the number that stands in braces after it."""
    parts = re.findall(r"((?:\\.|[^\\|{}])*)(?:\{(\d+)\})?(?:\||$)", shown)
    return [(read_back(text), int(number or 1)) for text, number in parts[:-1] or parts]


@given(texts)
@example(["a"])
@example(["a", "ab"])
def test_lines_are_read_back_to_the_sequences_and_their_branches(given: list[str]) -> None:
    lines = text_lines(trie_of(given), ENCODER, len(given))
    assert len(lines) == len(given)
    read = []
    for line in lines:
        tokens = tokens_of(line)
        if tokens[0][0] == "":  # the number of first tokens
            prefix, tokens = [""], tokens[1:]
            assert len({text[0] for text in given}) == int(line[1 : line.index("}")])
        else:
            prefix = [""]
            assert len({text[0] for text in given}) == 1
        for token, number in tokens:
            prefix.append(prefix[-1] + token)
            onward = {
                text[len(prefix[-1])]
                for text in given
                if text.startswith(prefix[-1]) and text != prefix[-1]
            }
            assert number == max(len(onward), 1)
        read.append(prefix[-1])
    assert read == sorted(given)


@given(texts, st.integers(1, 5))
def test_the_first_sequences_are_shown(given: list[str], limit: int) -> None:
    trie = trie_of(given)
    every = text_lines(trie, ENCODER, len(given))
    assert text_lines(trie, ENCODER, limit) == every[:limit]


@given(texts)
def test_branching_counts_what_prefixes_do(given: list[str]) -> None:
    trie = trie_of(given)
    prefixes = {text[:length] for text in given for length in range(len(text) + 1)}
    onward = {
        prefix: {other for other in prefixes if other[:-1] == prefix and other}
        for prefix in prefixes
    }
    inner = {one: below for one, below in onward.items() if below}
    found = branching(trie)
    by_depth = groupby(sorted(prefixes, key=len), key=len)
    assert [(level.depth, level.nodes) for level in found.levels] == [
        (depth, len(list(nodes))) for depth, nodes in by_depth
    ]
    assert sum(level.inner for level in found.levels) == len(inner)
    assert max(level.most for level in found.levels) == max(map(len, inner.values()))
    assert found.mean == pytest.approx((len(prefixes) - 1) / len(inner))
    single = sum(len(below) == 1 for below in inner.values())
    assert found.one_child_share == pytest.approx(single / len(inner))
    assert sequence_tokens(trie) == sum(map(len, given))


def test_a_token_keeps_the_space_at_its_front_with_sentencepiece() -> None:
    encoder = real_encoder("llama2")
    [ids] = encoder.encode([" Hello  world"])
    assert [token_text(encoder, token) for token in ids] == [" Hello", " ", " world"]
