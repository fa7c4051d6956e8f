from __future__ import annotations

import pytest

from kgqa.errors import UsageError
from kgqa.models.adapter import AdapterCard
from kgqa.models.presets import PRESETS, preset


def test_default_is_what_a_model_without_an_adapter_gets() -> None:
    card = preset("default")
    assert card == AdapterCard()
    assert card.prompt == "Question: {question}\nTopic: {topics}\nPath:"
    assert (card.start, card.end, card.direction, card.mediators, card.hops) == (
        "",
        "",
        "out",
        "collapse",
        2,
    )


def test_gcr_has_the_markers_and_rules_of_the_published_checkpoints() -> None:
    card = preset("gcr")
    assert (card.start, card.end) == ("<PATH>", "</PATH>")
    assert card.added_tokens == ()  # the checkpoint brings them; one without them is an error
    assert (card.direction, card.mediators, card.hops, card.chat) == ("out", "keep", 2, True)


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="There are: default, gcr"):
        preset("gpt")
    assert PRESETS == ("default", "gcr")
