"""How a model is run is found out by running it."""

from __future__ import annotations

import itertools

import pytest
import torch

from kgqa.decoding.capabilities import WIDTHS, measure, measured_plan, probe
from kgqa.decoding.engine import DecodingPlan
from kgqa.decoding.forward import TreeForward
from kgqa.decoding.widths import CLOSE, FORWARD_PASSES, choose, part_of
from kgqa.errors import UsageError
from tests.decoding.languages import tiny_model
from tests.decoding.test_forward import FAMILIES
from tests.decoding.test_plain import sliding, state_space


@pytest.mark.parametrize("family", FAMILIES)
def test_full_attention_fits_a_tree(family: str) -> None:
    assert probe(tiny_model(family)).way == "tree"
    assert probe(tiny_model(family)).limit is None


def test_coarse_numbers_are_no_wrong_mask() -> None:
    from transformers import AutoModelForCausalLM

    config = tiny_model("llama").config
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).to(torch.bfloat16).eval()
    assert probe(model).way == "tree"


def test_a_state_space_model_is_run_plainly() -> None:
    fit = probe(state_space())
    assert fit.way == "plain"
    assert fit.why


def test_a_window_limits_the_tree_and_a_short_one_forbids_it() -> None:
    assert probe(sliding(6)).way == "plain"
    fit = probe(sliding(64))
    assert (fit.way, fit.limit) == ("tree", 64)


def test_a_model_that_ignores_the_mask_is_found_out() -> None:
    """Attention that lets every token see every earlier one, whatever the mask says."""
    model = tiny_model("llama")

    def ignore(_module, args, kwargs):
        mask = kwargs["attention_mask"]
        if mask is not None:
            kwargs["attention_mask"] = torch.zeros_like(mask)
        return args, kwargs

    hooks = [
        layer.self_attn.register_forward_pre_hook(ignore, with_kwargs=True)
        for layer in model.model.layers
    ]
    try:
        fit = probe(model)
    finally:
        for hook in hooks:
            hook.remove()
    assert fit.way == "plain"
    assert "changes its log-probabilities" in fit.why


def test_memory_that_runs_out_is_no_verdict() -> None:
    model = tiny_model("llama")

    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError

    hook = model.register_forward_pre_hook(fail)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            probe(model)
    finally:
        hook.remove()


# ── the width of a forward pass ─────────────────────────────────────────────────────────────


def test_where_width_costs_nothing_the_widest_is_chosen() -> None:
    assert choose(dict.fromkeys(WIDTHS, 5.0)) == max(WIDTHS)


def test_where_every_token_costs_the_same_look_ahead_does_not_pay() -> None:
    assert choose({width: float(width) for width in WIDTHS}) == min(FORWARD_PASSES)


def test_a_forward_that_is_nearly_free_is_filled() -> None:
    times = {width: 10.0 if width <= 64 else 100.0 for width in WIDTHS}
    assert choose(times) == 64


def test_forwards_are_weighed_against_tokens() -> None:
    """On a processor that does not like wide forward passes, time is what should be least."""
    times = {
        1: 47.0,
        16: 87.0,
        32: 115.0,
        64: 172.0,
        96: 215.0,
        128: 254.0,
        256: 545.0,
        512: 1100.0,
    }
    best = choose(times)
    least = min(times[width] * FORWARD_PASSES[width] for width in FORWARD_PASSES)
    close = [
        width for width in FORWARD_PASSES if times[width] * FORWARD_PASSES[width] <= CLOSE * least
    ]
    assert best == max(close)  # times that near are measured no better


# A narrow pass of a GPU takes the time of reading the weights, a wide one that of arithmetic.
GPU = {1: 5.0, 16: 5.0, 64: 5.0, 128: 5.0, 256: 7.5, 512: 14.0, 1_024: 28.0, 2_048: 56.0}


def test_questions_that_share_a_pass_share_what_is_free() -> None:
    free = dict.fromkeys(GPU, 5.0)
    assert part_of(free, 1) == choose(free) == 512
    assert part_of(free, 4) == 512
    assert 16 <= part_of(GPU, 16) <= part_of(GPU, 4) <= part_of(GPU, 2) <= part_of(GPU, 1)
    assert part_of(GPU, 16) < 128


def test_times_between_and_beyond_the_measured_widths_are_estimated() -> None:
    linear = {width: float(width) for width in (1, 128)}
    assert part_of(linear, 1) == part_of(linear, 100) == min(FORWARD_PASSES)


def test_a_width_that_memory_is_too_small_for_ends_the_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks, model = itertools.count(), tiny_model("llama")
    forward = TreeForward.run

    def run(self, parts, read):
        if sum(part.tokens for part in parts) > 64:
            raise torch.OutOfMemoryError("out of memory")
        return forward(self, parts, read)

    monkeypatch.setattr(TreeForward, "run", run)
    taken = measure(model, clock=lambda: float(next(ticks)))
    assert [*taken] == [width for width in WIDTHS if width <= 64]


def test_a_model_is_measured() -> None:
    ticks = itertools.count()
    taken = measure(tiny_model("llama"), clock=lambda: float(next(ticks)))
    assert taken == dict.fromkeys(WIDTHS, 1000.0)  # by this clock every forward pass takes a second


def test_a_plan_holds_what_was_probed_and_measured() -> None:
    plan = measured_plan(tiny_model("llama"))
    assert plan.way == "tree"
    assert plan.budget == choose(plan.milliseconds)
    plain = measured_plan(state_space())
    assert (plain.way, plain.milliseconds) == ("plain", {})


def test_a_budget_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        DecodingPlan(budget=0)
