"""The loss counts completion tokens alone, and an epoch's order is everything once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.paths.format import PathFormat
from kgqa.training.fit import IGNORED, collated, encode, of_like_lengths
from kgqa.trie.lexicon import PathLexicon
from tests.training.runs import EXAMPLES

FORM = PathFormat()


@pytest.mark.model
def test_the_loss_is_on_the_path_as_the_constraint_writes_it(kg_llm) -> None:
    (row,), too_long = encode(kg_llm, EXAMPLES[:1], FORM, 256)
    prompt = kg_llm.prompt_ids(EXAMPLES[0].question, EXAMPLES[0].topics)
    completion = PathLexicon(kg_llm.encoder, FORM).sequence("Ann", EXAMPLES[0].hops)
    assert row["input_ids"] == [*prompt, *completion]
    assert row["labels"] == [IGNORED] * len(prompt) + completion
    assert completion[-1] == kg_llm.encoder.eos_id
    assert too_long == 0


@pytest.mark.model
def test_relations_alone_are_learnt_with_where_the_path_ends(kg_llm) -> None:
    example = replace(EXAMPLES[0], head="Ann", hops=(("mother", "Eve -> x"), ("born in", "Rome")))
    (row,), _ = encode(kg_llm, [example], FORM, 256, "relations")
    prompt = kg_llm.prompt_ids(example.question, example.topics)
    lexicon = PathLexicon(kg_llm.encoder, FORM)
    learnt = [label for label in row["labels"] if label != IGNORED]
    assert row["input_ids"] == [*prompt, *lexicon.sequence("Ann", example.hops)]
    assert kg_llm.encoder.decode(learnt[:-1]) == " -> mother -> -> born in ->"
    assert learnt[-1] == kg_llm.encoder.eos_id
    assert all(a in (b, IGNORED) for a, b in zip(row["labels"], row["input_ids"], strict=True))


@pytest.mark.model
def test_an_example_that_is_too_long_is_left_out_and_counted(kg_llm) -> None:
    assert encode(kg_llm, EXAMPLES, FORM, 10) == ([], len(EXAMPLES))


def test_padding_is_neither_read_nor_learnt() -> None:
    rows = [
        {"input_ids": [5, 6, 7], "labels": [IGNORED, 6, 7]},
        {"input_ids": [8], "labels": [8]},
    ]
    batch = collated(rows, pad=2)
    assert batch["input_ids"].tolist() == [[5, 6, 7], [8, 2, 2]]
    assert batch["labels"].tolist() == [[IGNORED, 6, 7], [8, IGNORED, IGNORED]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=400),
    st.integers(1, 7),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_an_epoch_has_every_example_once_and_depends_on_seed_and_epoch_alone(
    lengths, batch, seed, epoch
) -> None:
    order = of_like_lengths(lengths, batch, seed, epoch)
    assert order == of_like_lengths(lengths, batch, seed, epoch)
    assert sorted(at for one in order for at in one) == list(range(len(lengths)))


def test_a_batch_is_of_like_lengths_and_epochs_differ() -> None:
    lengths = [at % 10 for at in range(100)]
    first = of_like_lengths(lengths, 10, 0, 0)
    assert all(len({lengths[at] for at in batch}) == 1 for batch in first)
    assert of_like_lengths(lengths, 10, 0, 1) != first
