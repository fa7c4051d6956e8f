"""The loss under the constraint: what a graph allows, and what a fit changes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
import torch

from kgqa.paths.format import PathFormat
from kgqa.progress import Silent
from kgqa.training.constrained_fit import fit_constrained, path_losses
from kgqa.training.domain_paths import Branching, batches_of_paths, branching
from kgqa.training.domains import Domain
from kgqa.trie.lexicon import PathLexicon

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kgqa.models.kg_llm import KgLLM

pytestmark = pytest.mark.model


def test_what_the_graph_allows_stands_beside_what_the_path_takes() -> None:
    found = Branching([7])
    found.follow([1, 2, 3], [[1, 2, 4], [1, 5], [1, 2, 3]])
    assert found.tokens == [7, 1, 2, 3]
    assert (found.places, found.allowed, found.chosen) == ([1, 2], [[2, 5], [3, 4]], [0, 0])


def test_an_example_is_a_path_of_the_domain(practice: Path, load_tiny: Callable[[], KgLLM]) -> None:
    llm, domain = load_tiny(), Domain(practice)
    lexicon = PathLexicon(llm.encoder, PathFormat())
    (asked,) = [one for one in domain.questions if one.text.startswith("where does the doctor")]
    made = branching(domain, asked, lexicon, llm.prompt_ids, None)
    prompt = llm.prompt_ids("where does the doctor of Rex live", ["Rex"])
    path = lexicon.sequence("Rex", [("treated_by", "Dr. Whit"), ("lives_in", "")])
    assert made.tokens[: len(prompt)] == prompt
    assert made.tokens[len(prompt) :] == path[:-2]  # which town is no choice, nor what follows
    steps = zip(made.places, made.allowed, made.chosen, strict=True)
    assert all(made.tokens[place + 1] == allowed[at] for place, allowed, at in steps)
    first = [lexicon.parts("", [(one, "")])[2] for one in ("treated_by", "weight")]
    split = next(at for at, (a, b) in enumerate(zip(*first, strict=False)) if a != b)
    assert made.allowed[0] == sorted(one[split] for one in first)


def test_the_loss_is_over_what_is_allowed(practice: Path, load_tiny: Callable[[], KgLLM]) -> None:
    llm, domain = load_tiny(), Domain(practice)
    lexicon = PathLexicon(llm.encoder, PathFormat())
    made = [branching(domain, one, lexicon, llm.prompt_ids, None) for one in domain.questions]
    expected = []
    for one in made:
        with torch.inference_mode():
            logits = llm.model(input_ids=torch.tensor([one.tokens])).logits[0].float()
        steps = zip(one.places, one.allowed, one.chosen, strict=True)
        log = sum(logits[place, allowed].log_softmax(0)[at] for place, allowed, at in steps)
        expected.append(-float(log))
    assert path_losses(llm.model, made, together=3) == pytest.approx(expected, rel=0.05, abs=0.02)


def test_a_fit_makes_the_right_path_likelier(
    practice: Path, load_tiny: Callable[[], KgLLM]
) -> None:
    llm, domain = load_tiny(), Domain(practice)
    lexicon = PathLexicon(llm.encoder, PathFormat())
    checks = [branching(domain, one, lexicon, llm.prompt_ids, None) for one in domain.questions]
    before = path_losses(llm.model, checks).mean()
    batches = batches_of_paths([domain], 4, lexicon, llm.prompt_ids, Random(2))
    model, _ = fit_constrained(llm, batches, steps=30, rank=4, rate=5e-3, seed=1, progress=Silent())
    assert path_losses(model, checks).mean() < 0.8 * before
