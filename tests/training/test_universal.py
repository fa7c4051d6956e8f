"""What the scripts that train the universal models rely on: domains, their losses, their fits."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from kgqa.models.path_ranker import PathRanker, RankerCard, load_path_ranker, save_path_ranker
from kgqa.models.sentences import load_trainable_encoder
from kgqa.paths.format import PathFormat
from kgqa.progress import Silent
from kgqa.training.rankers import log_likelihoods, rights
from kgqa.trie.lexicon import PathLexicon
from scripts.universal.domains import Domain, batches_of
from scripts.universal.paths import batches_of_paths, branching, fit_constrained, path_losses
from scripts.universal.ranker import attributes, fit_ranker, relations_elsewhere
from tests.methods.reasoners import encoder_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kgqa.models.kg_llm import KgLLM

RIGHT = {
    "who saw x?": "x treated by ?",
    "whom did x see": "? treated by x",
    "how heavy is x": "x weight ?",
    "where does the doctor of x live": "x treated by y, y lives in ?",
    "who shares a vet with x": "x treated by y, ? treated by y",
}


def test_a_batch_says_which_path_is_right(practice: Path) -> None:
    batch = Domain(practice).checks()
    assert not any("does not fit" in question for question in batch.questions)
    for question, candidates, (gold,) in zip(
        batch.questions, batch.candidates, batch.gold, strict=True
    ):
        assert gold in candidates
        if question in RIGHT:
            assert batch.paths[gold].partition(" such as ")[0] == RIGHT[question]


def test_a_fitted_ranker_prefers_what_is_right_and_is_saved_as_it_is(
    practice: Path, tmp_path: Path
) -> None:
    name = str(encoder_folder(tmp_path / "tiny"))
    where = {"device": "cpu", "cache": tmp_path, "progress": Silent()}
    encoder = load_trainable_encoder(name, **where)  # type: ignore[arg-type]
    ranker, checks = (
        PathRanker("random", RankerCard(encoder=name), encoder),
        Domain(practice).checks(),
    )
    before = log_likelihoods(ranker, checks).mean(), rights(ranker, checks).mean()
    batches = batches_of([practice], Random(1))
    fitted = fit_ranker(ranker, batches, steps=40, rank=4, rate=2e-2, progress=Silent())
    after = PathRanker("fitted", fitted.card, encoder)
    assert log_likelihoods(after, checks).mean() > before[0] + 0.3
    assert rights(after, checks).mean() > before[1]
    elsewhere = relations_elsewhere(after, [Domain(practice)], groups=2)
    save_path_ranker(tmp_path / "made", fitted.card, fitted.changes, elsewhere)
    again = load_path_ranker(str(tmp_path / "made"), encoder=name, **where)  # type: ignore[arg-type]
    saved, held = (
        one.logits(["who saw x?"], checks.paths, [1] * len(checks.paths)) for one in (again, after)
    )
    np.testing.assert_allclose(saved, held, atol=0.2)  # written as float16
    assert again.elsewhere is not None
    np.testing.assert_allclose(again.elsewhere, elsewhere, atol=0.02)


def test_attributes_are_read_as_relations_are() -> None:
    assert "x phone number ? such as +44 20 7946 0018, 555-0134" in attributes()


@pytest.mark.model
def test_an_adapter_is_fitted_to_what_the_graph_allows(
    practice: Path, load_tiny: Callable[[], KgLLM]
) -> None:
    llm, domain = load_tiny(), Domain(practice)
    lexicon = PathLexicon(llm.encoder, PathFormat())
    made = [
        branching(domain, question, lexicon, llm.prompt_ids, None) for question in domain.questions
    ]
    expected = []
    for one in made:
        with torch.inference_mode():
            logits = llm.model(input_ids=torch.tensor([one.tokens])).logits[0].float()
        steps = list(zip(one.places, one.allowed, one.chosen, strict=True))
        assert all(one.tokens[place + 1] == allowed[at] for place, allowed, at in steps)
        log = sum(logits[place, allowed].log_softmax(0)[at] for place, allowed, at in steps)
        expected.append(-float(log))
    before = path_losses(llm.model, made, together=3)
    assert before == pytest.approx(expected, rel=0.05, abs=0.02)
    batches = batches_of_paths([domain], 4, lexicon, llm.prompt_ids, Random(2))
    model, _ = fit_constrained(llm, batches, steps=30, rank=4, rate=5e-3, seed=1, progress=Silent())
    assert path_losses(model, made).mean() < 0.8 * before.mean()
