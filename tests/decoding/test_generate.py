"""Adapters keep ``generate`` inside a constraint, whatever it does with its beams."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import BatchEncoding, LogitsProcessorList

from kgqa.decoding.generate import ConstraintLogitsProcessor, accepted
from kgqa.decoding.search import run
from kgqa.decoding.searches import beam
from kgqa.errors import ConstraintError, UsageError
from tests.decoding.languages import (
    EOS,
    PAD,
    PROMPT,
    VOCABULARY,
    ModelScorer,
    Moves,
    constraint_of,
    random_language,
    tiny_model,
)


def encoding(prompts: list[list[int]]) -> BatchEncoding:
    """What a tokenizer returns for prompts, padded on the left."""
    longest = max(map(len, prompts))
    rows = [[PAD] * (longest - len(row)) + row for row in prompts]
    mask = [[0] * (longest - len(row)) + [1] * len(row) for row in prompts]
    return BatchEncoding({"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(mask)})


def generate(
    processor: ConstraintLogitsProcessor, batch: BatchEncoding, **options: Any
) -> torch.Tensor:
    """What ``generate`` returns under a processor."""
    given = {"logits_processor": LogitsProcessorList([processor])}
    torch.manual_seed(0)
    with torch.inference_mode():
        sequences: torch.Tensor = tiny_model("llama").generate(
            **batch, **{"max_new_tokens": 80, "do_sample": False, **given, **options}
        )
    return sequences


def generated(constraint: Any, prompts: list[list[int]], **options: Any) -> torch.Tensor:
    """What ``generate`` returns for prompts of one length."""
    processor = ConstraintLogitsProcessor(constraint, len(prompts[0]), eos_token_id=EOS)
    return generate(processor, encoding(prompts), **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_sample": True, "num_return_sequences": 7, "top_k": 0},
        {"num_beams": 5, "num_return_sequences": 5},
        {"num_beams": 5, "num_return_sequences": 3, "do_sample": True, "top_k": 0},
    ],
    ids=["greedy", "sampling", "beams", "sampled beams"],
)
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_written_is_in_the_language(options: dict[str, Any], seed: int) -> None:
    rows = random_language(seed, 40)
    constraint = constraint_of(rows)
    out = generated(constraint, [PROMPT], **options)
    found = accepted(constraint, out, len(PROMPT))
    assert {one.tokens for one in found} <= {tuple(row) for row in rows}
    for row in out[:, len(PROMPT) :].tolist():
        written = row[: row.index(EOS) + 1]
        assert written in rows
        assert set(row[len(written) :]) <= {EOS, PAD}
    assert all(constraint.is_end([one.state])[0] for one in found)


@pytest.mark.parametrize("beams", [1, 4])
def test_each_prompt_of_a_batch_has_its_own_constraint(beams: int) -> None:
    """Prompts of different lengths, padded on the left, find what each finds alone."""
    languages = [random_language(seed, 30) for seed in (1, 2, 3)]
    constraints = [constraint_of(rows) for rows in languages]
    prompts = [PROMPT, [11, 12], [15, 16, 17]]
    options = {"num_beams": beams, "num_return_sequences": beams}
    batch = encoding(prompts)
    out = generate(
        ConstraintLogitsProcessor(constraints, batch, eos_token_id=EOS), batch, **options
    )
    columns = batch["input_ids"].shape[1]
    for at, (rows, constraint, prompt) in enumerate(
        zip(languages, constraints, prompts, strict=True)
    ):
        mine = accepted(constraint, out[at * beams : (at + 1) * beams], columns)
        assert len(mine) == beams
        assert all(list(one.tokens) in rows for one in mine)
        alone = generated(constraint, [prompt], **options)
        assert mine == accepted(constraint, alone, len(prompt))


def test_a_batch_that_fits_no_constraints_is_refused() -> None:
    constraints = [constraint_of([[2, EOS]])] * 2
    with pytest.raises(UsageError, match="2 constraints and 3 prompts"):
        ConstraintLogitsProcessor(constraints, encoding([[5], [6], [7]]), eos_token_id=EOS)
    right = {"input_ids": torch.tensor([[5, 6], [7, PAD]]), "attention_mask": [[1, 1], [1, 0]]}
    with pytest.raises(UsageError, match="on the right"):
        ConstraintLogitsProcessor(constraints, BatchEncoding(right), eos_token_id=EOS)
    with pytest.raises(UsageError, match="all of one length"):
        ConstraintLogitsProcessor(
            constraints, BatchEncoding({"input_ids": [[5, 6], [7]]}), eos_token_id=EOS
        )


def test_generate_and_our_own_beam_write_the_same_list() -> None:
    constraint = constraint_of(random_language(5, 60))
    options = {"num_beams": 6, "num_return_sequences": 6, "length_penalty": 0.0}
    out = generated(constraint, [PROMPT], **options)
    found = [one.tokens for one in accepted(constraint, out, len(PROMPT))]
    scorer = ModelScorer(tiny_model("llama"), constraint)
    ours = [hypothesis.tokens for hypothesis in run(beam(constraint, 6), scorer).hypotheses]
    assert found == ours


def test_what_generate_returns_as_a_record_is_read_too() -> None:
    constraint, batch = constraint_of(random_language(5, 20)), encoding([PROMPT])
    processor = ConstraintLogitsProcessor(constraint, batch, eos_token_id=EOS)
    plain = generate(processor, batch)
    record = generate(processor, batch, return_dict_in_generate=True)
    assert accepted(constraint, record, batch) == accepted(constraint, plain, batch)
    assert accepted(constraint, plain, batch)


def test_more_beams_than_paths_bring_every_path_once() -> None:
    """``generate`` fills the list with copies and padding; ``accepted`` leaves them out."""
    rows = [[2, 3, EOS], [2, 4, 5, EOS], [6, EOS]]
    constraint = constraint_of(rows)
    for penalty in (0.0, 1.0):
        out = generated(
            constraint,
            [PROMPT],
            num_beams=8,
            num_return_sequences=8,
            length_penalty=penalty,
            max_new_tokens=12,
        )
        assert len(out) == 8
        found = [list(one.tokens) for one in accepted(constraint, out, len(PROMPT))]
        assert sorted(found) == rows


def test_one_adapter_serves_one_call_after_another() -> None:
    constraint = constraint_of(random_language(4, 30))
    adapter = ConstraintLogitsProcessor(constraint, 2, eos_token_id=EOS)
    allowed = [allowed_by(adapter, [9, 9, *tokens]) for tokens in ([], [5], [5], [], [5, 6, 2])]
    assert allowed == [
        allowed_by(ConstraintLogitsProcessor(constraint, 2, eos_token_id=EOS), [9, 9, *tokens])
        for tokens in ([], [5], [5], [], [5, 6, 2])
    ]
    assert all(allowed)


def allowed_by(adapter: Any, ids: list[int]) -> list[int]:
    """The tokens that may follow one sequence."""
    kept = adapter(torch.tensor([ids]), torch.zeros(1, VOCABULARY))
    return torch.isfinite(kept[0]).nonzero().flatten().tolist()


@pytest.mark.parametrize(
    "tokens",
    [[2, 3, 99], [2, 3, 99, PAD], [2, 3, 99, EOS], [7], [2, 7, 3], [99], [4], [2, 3, 99, 2, 3]],
    ids=["finished", "padded", "ended", "outside", "left", "end first", "dead end", "twice"],
)
def test_where_nothing_may_follow_only_the_end_does(tokens: list[int]) -> None:
    """99 closes a path, the end token is another, and 4 leads to a state without moves."""
    language = Moves({0: [(2, 1, 0.5), (4, 9, 0.5)], 1: [(3, 2, 1.0)], 2: [(99, 3, 1.0)], 9: []})
    adapter = ConstraintLogitsProcessor(language, 4, eos_token_id=EOS)
    assert allowed_by(adapter, [*PROMPT, *tokens]) == [EOS]


def test_an_end_that_closes_no_path_is_beaten_by_every_other() -> None:
    language = Moves({0: [(2, 1, 0.5), (4, 9, 0.5)], 1: [(EOS, 3, 1.0)], 9: []})
    adapter = ConstraintLogitsProcessor(language, 1, eos_token_id=EOS)
    ids = torch.tensor([[9, 4], [9, 2]])
    kept = adapter(ids, torch.full((2, 8), -3.0))
    assert kept[0, EOS] == -1e9
    assert kept[1, EOS] == -3.0


def test_what_a_limit_cut_off_is_not_accepted() -> None:
    constraint = constraint_of([[2, 3, EOS], [2, 4, EOS]])
    sequences = torch.tensor([[9, 2, 3, 0], [9, 2, 3, EOS], [9, 2, 3, EOS], [9, 5, EOS, 0]])
    assert [one.tokens for one in accepted(constraint, sequences, 1)] == [(2, 3, EOS)]


def test_a_constraint_of_another_tokenizer_is_refused() -> None:
    adapter = ConstraintLogitsProcessor(constraint_of([[VOCABULARY + 3, EOS]]), 1, eos_token_id=EOS)
    with pytest.raises(ConstraintError, match="tokenizer"):
        adapter(torch.tensor([[9]]), torch.zeros(1, VOCABULARY))


@pytest.mark.parametrize(
    "options",
    [
        {"constraint": [], "prompt": 4, "eos_token_id": EOS},
        {"constraint": Moves({}), "prompt": 0, "eos_token_id": EOS},
        {"constraint": Moves({}), "prompt": 4, "eos_token_id": -1},
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ConstraintLogitsProcessor(**options)


def test_sequences_that_fit_no_prompt_are_refused() -> None:
    two = [constraint_of([[2, EOS]])] * 2
    processor = ConstraintLogitsProcessor(two, 1, eos_token_id=EOS)
    with pytest.raises(UsageError, match="one for each prompt"):
        processor(torch.tensor([[9]] * 3), torch.zeros(3, VOCABULARY))
    with pytest.raises(UsageError, match="shorter than its prompt"):
        ConstraintLogitsProcessor(two[0], 4, eos_token_id=EOS)(
            torch.tensor([[9]]), torch.zeros(1, VOCABULARY)
        )
