from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import AdapterMismatchError, ModelError, ModelNotFoundError
from kgqa.models.adapter import ADAPTERS, CARD_FILE, AdapterCard

if TYPE_CHECKING:
    from pathlib import Path


CARDS = st.builds(
    AdapterCard,
    base_model=st.text(max_size=9),
    prompt=st.text(st.characters(codec="utf-8", exclude_characters="{}"), max_size=9).map(
        lambda text: text + "{question}\n{topics} {0} }{ %s"
    ),
    start=st.text(max_size=5),
    end=st.text(max_size=5),
    added_tokens=st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=3).map(tuple),
    direction=st.sampled_from(["out", "in", "both"]),
    mediators=st.sampled_from(["collapse", "keep"]),
    hops=st.integers(1, 9),
    chat=st.booleans(),
    tail_temperature=st.floats(0, exclude_min=True),
)


@given(card=CARDS)
def test_a_card_is_read_as_it_was_written(
    card: AdapterCard, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("adapter")
    card.write(folder)
    again = ADAPTERS.card(folder)
    assert again == card
    assert again.fingerprint == card.fingerprint


@given(one=CARDS, other=CARDS)
def test_fingerprints_are_equal_only_for_equal_cards(one: AdapterCard, other: AdapterCard) -> None:
    assert (one.fingerprint == other.fingerprint) == (one == other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hops": "2"}, "field hops: Input should be a valid integer"),
        ({"hops": True}, "field hops: Input should be a valid integer"),
        ({"hops": 0}, "field hops: Input should be greater than or equal to 1"),
        ({"triplets": -1}, "field triplets: Input should be greater than or equal to 0"),
        ({"min_confidence": 1.1}, "field min_confidence: Input should be less than or equal to 1"),
        ({"tail_temperature": 0.0}, "field tail_temperature: Input should be greater than 0"),
        ({"calibration_slope": "Infinity"}, "field calibration_slope: Input should be a valid"),
        ({"chat": 1}, "field chat: Input should be a valid boolean"),
        ({"direction": "up"}, "field direction: Input should be 'out', 'in' or 'both'"),
        ({"answer": "\n# Answer:\n"}, "a marker must end the path"),
        ({"mediators": "drop"}, "field mediators: Input should be 'collapse' or 'keep'"),
        ({"prompt": "Question: {question}"}, "{topics} exactly once"),
        ({"prompt": "{question}{question}{topics}"}, "{question} exactly once"),
        ({"added_tokens": "<PATH>"}, "field added_tokens: Input should be a valid array"),
        ({"added_tokens": ["<PATH>", 1]}, "field added_tokens.1: Input should be a valid string"),
        ({"added_tokens": ["<PATH>", "<PATH>"]}, "one of them twice"),
        ({"beams": 10, "cap": 1}, "field beams: it is not known; field cap: it is not known"),
        ({"format_version": None}, "does not say its format_version"),
    ],
)
def test_a_wrong_field_is_named_with_its_file(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    content = json.loads(AdapterCard().to_json()) | change
    (tmp_path / CARD_FILE).write_text(json.dumps(content))
    with pytest.raises(ModelError) as caught:
        ADAPTERS.card(tmp_path)
    assert message in str(caught.value)
    assert str(tmp_path / CARD_FILE) in str(caught.value)


@pytest.mark.parametrize("version", [3, "2", 0])
def test_another_version_is_refused_before_its_fields(tmp_path: Path, version: object) -> None:
    (tmp_path / CARD_FILE).write_text(json.dumps({"format_version": version, "novelty": 1}))
    with pytest.raises(AdapterMismatchError, match="reads versions up to 2"):
        ADAPTERS.card(tmp_path)


@pytest.mark.parametrize(("sharpness", "temperature"), [(0.25, 4.0), (0.0, float("inf"))])
def test_a_card_of_the_first_version_is_read_with_its_names(
    tmp_path: Path, sharpness: float, temperature: float
) -> None:
    content = {"hops": 3, "sharpness": sharpness, "doubt": 0.5, "slope": 2.0, "shift": -1.0}
    (tmp_path / CARD_FILE).write_text(json.dumps({**content, "format_version": 1}))
    assert ADAPTERS.card(tmp_path) == AdapterCard(
        hops=3,
        tail_temperature=temperature,
        min_confidence=0.5,
        calibration_slope=2.0,
        calibration_shift=-1.0,
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{", "not JSON"), (b"[]", "not a JSON object"), (b"\xff\xfe", "cannot be read")],
)
def test_a_damaged_card_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / CARD_FILE).write_bytes(content)
    with pytest.raises(ModelError, match=message):
        ADAPTERS.card(tmp_path)


def test_a_missing_card_says_what_an_adapter_is(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"has no kgqa\.json.*adapter_config\.json"):
        ADAPTERS.card(tmp_path)
    with pytest.raises(ModelNotFoundError, match="is not there"):
        ADAPTERS.card(tmp_path / "none")
