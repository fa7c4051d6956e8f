from __future__ import annotations

import re

import pytest

from kgqa.errors import UsageError
from kgqa.models.adapter import AdapterCard
from kgqa.models.presets import PRESETS, UNTUNED, preset
from kgqa.models.prompt import GRAPH


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


def test_few_shot_is_for_any_chat_model_with_the_defaults_of_the_others() -> None:
    card, default = preset("few-shot"), preset("default")
    assert card.chat
    assert card.base_model == ""
    assert (card.start, card.end, card.answer, card.added_tokens) == ("", "", "", ())
    assert (card.direction, card.mediators, card.hops, card.score_rule) == (
        default.direction,
        default.mediators,
        default.hops,
        default.score_rule,
    )
    examples = re.findall(r"Question: .+\?\nTopic: (.+)\nPath: (.+)\n\n", card.prompt)
    assert len(examples) == 3
    for topic, path in examples:
        head, *rest = path.split(" -> ")
        assert head == topic
        assert len(rest) in (2, 4), "one hop or two, as a path is written"
    assert set(UNTUNED) <= set(PRESETS)


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="There are: default, gcr, few-shot"):
        preset("gpt")
    assert PRESETS == ("default", "gcr", "few-shot", "dog", "dog-short", "kg-cot")


def test_dog_has_a_place_for_the_graph_and_renormalised_scores() -> None:
    card = preset("dog")
    assert card.prompt.count(GRAPH) == 1
    assert (card.chat, card.score_rule, card.mediators) == (True, "allowed", "collapse")
    assert (card.start, card.end, card.added_tokens, card.base_model) == ("", "", (), "")
    short = preset("dog-short")
    assert short.prompt.count(GRAPH) == 1
    assert len(short.prompt) < len(card.prompt) / 10
    assert (short.score_rule, short.mediators) == ("allowed", "collapse")
    others = [name for name in PRESETS if not name.startswith("dog")]
    assert not any(GRAPH in preset(name).prompt for name in others)
