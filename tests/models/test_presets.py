"""Presets: what the examples in their prompts look like, and which have a graph in them."""

from __future__ import annotations

import re

import pytest

from kgqa.errors import UsageError
from kgqa.models.adapter import PRESETS, UNTUNED, AdapterCard, preset
from kgqa.models.prompt import GRAPH


def test_default_is_what_a_model_without_an_adapter_gets() -> None:
    assert preset("default") == AdapterCard()


def test_gcr_has_the_markers_and_rules_of_the_published_checkpoints() -> None:
    card = preset("gcr")
    assert (card.start, card.end) == ("<PATH>", "</PATH>")
    assert card.added_tokens == ()  # the checkpoint has them; one without them is an error
    assert (card.direction, card.mediators, card.hops, card.chat) == ("out", "keep", 2, True)


def test_few_shot_shows_paths_as_they_are_written() -> None:
    card = preset("few-shot")
    assert (card.chat, card.end, card.added_tokens) == (True, "", ())
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


def test_prompts_of_chains_alone_have_a_place_for_the_graph() -> None:
    for name in PRESETS:
        assert preset(name).prompt.count(GRAPH) == name.startswith("dog")
    assert len(preset("dog-short").prompt) < len(preset("dog").prompt) / 10
