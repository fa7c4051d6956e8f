"""How a model is run is found out by running it."""

from __future__ import annotations

import pytest
import torch

from kgqa.decoding.probe import probe, window_of
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
    assert window_of(sliding(64)) == 64


def test_a_model_that_ignores_the_mask_is_found_out() -> None:
    """Attention that lets every token see every earlier one, whatever it is told."""
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
