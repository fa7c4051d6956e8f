"""A model with random weights that likes to open triplets, so that chains have several of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from kgqa.methods.dog.chains import markers_of
from kgqa.models.adapter import preset
from tests.fixtures import random_model

if TYPE_CHECKING:
    from kgqa.models.kg_llm import KgLLM


def opening_model(llm: KgLLM, seed: int, liking: float = 8.0, ending: float = 6.5) -> KgLLM:
    """Random weights with a bias: ``liking`` is added to the logits of every opening marker.

    ``ending`` is added to that of the end token, so that chains do not go on to their limit. Logits
    have a standard deviation of about 1.7, and their maximum is some 7.
    """
    drawn = random_model(llm, seed).with_card(preset("dog"))
    head = drawn.model.get_output_embeddings()
    biased = torch.nn.Linear(head.in_features, head.out_features)
    with torch.no_grad():
        biased.weight.copy_(head.weight)
        biased.bias.zero_()
        for opening in markers_of(llm.encoder).openings:
            biased.bias[opening[0]] = liking
        biased.bias[llm.encoder.eos_id] = ending
    drawn.model.lm_head = biased.requires_grad_(False)
    return replace(drawn, name=f"random weights {seed} that open triplets")
