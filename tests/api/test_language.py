"""A KG's paths as a constraint for Hugging Face ``generate``, as the README shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kgqa

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model

QUESTION = "Where was J. R. R. Tolkien born?\n"


@pytest.fixture(scope="module")
def loaded(tiny_folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_folder)
    return model, AutoTokenizer.from_pretrained(tiny_folder)


def test_generate_writes_paths_of_the_graph_and_nothing_else(
    kg: kgqa.KG, loaded: tuple[Any, Any]
) -> None:
    model, tokenizer = loaded
    language = kg.constraint(["m.041h0"], tokenizer, hops=2)
    prompt = tokenizer(QUESTION, return_tensors="pt")
    out = model.generate(
        **prompt,
        logits_processor=[language.processor(prompt)],
        pad_token_id=tokenizer.eos_token_id,
        num_beams=4,
        num_return_sequences=4,
        max_new_tokens=100,
        do_sample=False,
    )
    found = language.read(out, prompt)
    assert found
    for path in found:
        assert path.head.id == "m.041h0"
        assert kg.check(path)
        assert path.text.startswith("J. R. R. Tolkien -> ")


def test_a_prompt_may_be_given_by_its_length(kg: kgqa.KG, loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    language = kg.constraint(["m.041h0"], tokenizer, hops=1)
    prompt = tokenizer(QUESTION, return_tensors="pt")
    length = prompt.input_ids.shape[1]
    given = {"pad_token_id": tokenizer.eos_token_id, "max_new_tokens": 60, "do_sample": False}
    outs = [
        model.generate(**prompt, logits_processor=[language.processor(one)], **given)
        for one in (prompt, length)
    ]
    assert outs[0].tolist() == outs[1].tolist()
    assert language.read(outs[0], prompt) == language.read(outs[0], length) != []


def test_a_batch_has_a_language_for_each_prompt(kg: kgqa.KG, loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    tokenizer.padding_side = "left"
    tokenizer.pad_token = tokenizer.eos_token
    topics = ["m.041h0", "m.0gzh"]
    languages = [kg.constraint([topic], tokenizer, hops=1) for topic in topics]
    questions = [QUESTION, "Who was Abraham Lincoln's wife, then?\n"]
    prompt = tokenizer(questions, padding=True, return_tensors="pt")
    out = model.generate(
        **prompt,
        logits_processor=[kgqa.processor(languages, prompt)],
        num_beams=2,
        num_return_sequences=2,
        max_new_tokens=60,
        do_sample=False,
    )
    for number, topic in enumerate(topics):
        found = languages[number].read(out[2 * number : 2 * number + 2], prompt)
        assert found
        assert {path.head.id for path in found} == {topic}


def test_no_language_is_an_error(kg: kgqa.KG) -> None:
    with pytest.raises(kgqa.KgqaError, match="language is missing"):
        kgqa.processor([], 5)
