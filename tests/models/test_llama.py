"""The forward pass of the Llama family against that of transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from kgqa.decoding.fixed_shapes import tree_forward
from kgqa.decoding.forward import PromptTree, WavePart
from kgqa.decoding.speculative_tree import NO_TOKEN, NoConstraint, PrefixTree, WaveNode
from kgqa.models.llama import Llama, fused, reads
from tests.tiny import tiny

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.models.kg_llm import KgLLM

VOCABULARY = 97
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def random_model(rope: dict[str, Any], **more: Any) -> Any:
    sizes = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 6, "max_position_embeddings": 256}
    return tiny(
        VOCABULARY, 3, **sizes, **heads, rope_parameters=rope, initializer_range=0.2, **more
    )


def own(model: Any) -> Llama:
    config = model.config.to_dict()
    assert reads(config)
    return Llama(config, fused(model))


def tree_logits(
    model: Any, prompts: Sequence[Sequence[int]], *, fixed: bool = False
) -> torch.Tensor:
    """Logits of a small tree after each prompt, in two passes that share the cache."""
    forward = tree_forward(model, fixed=fixed)
    asked = [PromptTree(prompt, PrefixTree(NoConstraint())) for prompt in prompts]
    root = [WaveNode(0, NO_TOKEN, 0, 0), WaveNode(1, 5, 0, 1), WaveNode(2, 9, 0, 1)]
    below = [WaveNode(3, 7, 1, 2), WaveNode(4, 7, 2, 2), WaveNode(5, 1, 4, 3)]
    found = [
        forward.run([WavePart(one, one.uncached, nodes) for one in asked], torch.clone)
        for nodes in (root, below)
    ]
    return torch.cat(found)


@pytest.mark.parametrize(
    ("rope", "more"),
    [
        ({"rope_type": "default", "rope_theta": 10_000.0}, {"tie_word_embeddings": True}),
        ({"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}, {"head_dim": 16}),
        (LLAMA3, {"tie_word_embeddings": False}),
    ],
)
def test_logits_are_those_of_transformers(rope: dict[str, Any], more: dict[str, Any]) -> None:
    model = random_model(rope, **more)
    draw = np.random.default_rng(1)
    prompts = [draw.integers(0, VOCABULARY, length).tolist() for length in (1, 70, 6)]
    mine, theirs = tree_logits(own(model), prompts), tree_logits(model, prompts)
    torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)
    fixed = tree_logits(own(model), prompts, fixed=True)
    torch.testing.assert_close(fixed, theirs, atol=1e-4, rtol=1e-4)


def test_what_is_not_of_the_family_is_not_read() -> None:
    config = random_model({"rope_type": "default", "rope_theta": 1e4}).config.to_dict()
    assert reads(config)
    assert not reads({**config, "model_type": "mistral"})
    assert not reads({**config, "attention_bias": True})
    assert not reads({**config, "quantization_config": {"bits": 4}})
    assert not reads({**config, "rope_parameters": {"rope_type": "yarn", "factor": 2.0}})


@pytest.mark.model
def test_the_real_model_gives_the_same_logits(kg_llm: KgLLM) -> None:
    prompts = [kg_llm.prompt_ids("Who made it?", ["A", "B"]), kg_llm.prompt_ids("Why?", [])]
    mine, theirs = tree_logits(own(kg_llm.model), prompts), tree_logits(kg_llm.model, prompts)
    torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=0)


def test_weights_change_hands_and_are_not_held_twice() -> None:
    model = random_model(LLAMA3, tie_word_embeddings=False)
    prompts = [[1, 2, 3]]
    expected = tree_logits(own(model), prompts)
    taken = Llama(model.config.to_dict(), fused(model, taken=True))
    assert torch.equal(tree_logits(taken, prompts), expected)
    left = {name for name, one in model.named_parameters() if len(one)}
    assert {name.rpartition(".")[0] for name in left} <= {
        "model.embed_tokens",
        "model.norm",
        "lm_head",
    }
