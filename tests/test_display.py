"""What a name looks like on its way out: all of it is seen, nothing of it is obeyed."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa import cypher
from kgqa.display import as_html, escape_hidden, json_text, read_name, shown_name, visible

ANY = st.text(st.characters() | st.sampled_from("\x1b\x9b\u202e\u2066\u200b\u200d\ufeff\n\r\\^>-"))


@given(ANY)
def test_what_is_shown_has_no_control_bidi_or_format_character(name: str) -> None:
    for shown in (visible(name), shown_name(name), as_html(name)):
        assert len(shown.splitlines()) <= 1
        for place, one in enumerate(shown):
            spelling = one in "\u200c\u200d" and shown[place - 1] > "\u0620"
            assert spelling or unicodedata.category(one) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
    assert visible(visible(name)) == visible(name)


@given(ANY)
def test_json_stays_exact_and_is_obeyed_by_no_terminal(name: str) -> None:
    for ascii_only in (False, True):
        text = json_text({"name": name}, ascii_only=ascii_only)
        assert json.loads(text) == {"name": name}
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert json_text({"name": "Café 東京"}) == '{"name": "Café 東京"}'


@given(st.text(st.sampled_from('ab ->^\\ \n"`\u2192\u2014|\x7f')))
def test_a_shown_name_holds_no_mark_of_a_path_and_can_be_read_back(name: str) -> None:
    shown = shown_name(name)
    assert "->" not in shown
    assert not shown.startswith("^")
    assert read_name(shown) == name


@pytest.mark.parametrize("name", ["می\u200cخواهم", "क्\u200dष"])
def test_joiners_that_spell_a_word_stay(name: str) -> None:
    assert visible(name) == name


def test_joiners_elsewhere_are_shown() -> None:
    assert visible("Pa\u200dris") == "Pa\\u200dris"
    assert escape_hidden("\x1b") == "\\u001b"


def test_every_code_point_that_is_not_seen_is_escaped() -> None:
    unseen = [
        one
        for one in map(chr, range(0x110000))
        if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") and one not in "\t\n\r\v\f"
    ]
    assert [one for one in unseen if visible(one) == one] == []
    assert "".join(unseen[:2]) == "\x00\x01"


@pytest.mark.parametrize("value", ["it's", "\u202e", "\x1b", "\t\v\f\n", "\\u0027", "\U000e0041"])
def test_a_cypher_literal_is_seen_whole(value: str) -> None:
    text = cypher.literal(value)
    assert visible(text) == text
    assert text[1:-1].replace("\\\\", "").replace("\\'", "").count("'") == 0
