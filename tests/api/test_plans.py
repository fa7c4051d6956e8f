"""Plans as a language for Hugging Face ``generate``: what a model writes can be run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model


def test_what_a_model_writes_is_a_plan_that_runs(tmp_path: Path, tiny_folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "customers.csv").write_text(
        "id,name,city\nA,Alfred,Berlin\nB,Berta,London\n"
    )
    (tmp_path / "shop" / "orders.csv").write_text(
        "id,customer_id,quantity\n10,A,5\n11,A,2\n12,B,1\n"
    )
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    model = AutoModelForCausalLM.from_pretrained(tiny_folder)
    question = "Which customers placed more than 2 orders?"
    with kgqa.ingest("tables", tmp_path / "shop", home=tmp_path / "home") as kg:
        language = kg.plans(question, tokenizer, hops=1)
        prompt = tokenizer(question, return_tensors="pt")
        out = model.generate(
            **prompt,
            logits_processor=[language.processor(prompt)],
            pad_token_id=tokenizer.eos_token_id,
            num_beams=4,
            num_return_sequences=4,
            max_new_tokens=200,
            do_sample=False,
        )
        found = language.read(out, prompt)
        assert found
        for plan in found:
            kg.query(plan)
