"""How a model is decoded with is found out once, kept, and shown; what a user sets goes above."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.errors import UsageError
from kgqa.models import profile
from kgqa.models.kg_llm import NO_ADAPTER, PLANS_FILE, KgLLM, known_plan, load_kg_llm
from kgqa.models.profile import engine_for, plan_for
from kgqa.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.decoding.engine import DecodingPlan


def load(folder: Path, cache: Path, **more) -> KgLLM:
    return load_kg_llm(
        str(folder), NO_ADAPTER, device="cpu", cache=cache, progress=Silent(), **more
    )


@pytest.fixture(scope="module")
def tiny(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> KgLLM:
    return load(tiny_folder, tmp_path_factory.mktemp("cache"))


def forward_passes(model) -> tuple[list[int], object]:
    seen: list[int] = []
    hook = model.register_forward_pre_hook(lambda *_: seen.append(1))
    return seen, hook


def in_json(plan: DecodingPlan) -> dict[str, Any]:
    done: dict[str, Any] = json.loads(json.dumps(asdict(plan)))
    return done


def test_a_plan_is_made_once_and_then_read(tiny: KgLLM, tmp_path: Path) -> None:
    llm = replace(tiny, plans=tmp_path / "new" / PLANS_FILE)
    profile._plans.pop(llm.model, None)
    seen, hook = forward_passes(llm.model)
    try:
        plan = plan_for(llm, progress=Silent())
        assert plan.way == "tree"
        assert seen
        profile._plans.pop(llm.model)  # as in another process
        seen.clear()
        assert plan_for(llm, progress=Silent()) == plan
        assert not seen
    finally:
        hook.remove()
    assert llm.plans
    for device in (None, "cpu"):
        assert known_plan(llm.plans, llm.name, device) == {"device": "cpu", **in_json(plan)}
    assert known_plan(llm.plans, llm.name, "cuda") is None
    assert known_plan(llm.plans, "another model", None) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', '{"a": {"way": "sideways"}}'])
def test_a_damaged_file_is_as_good_as_none(tiny: KgLLM, tmp_path: Path, content: str) -> None:
    file = tmp_path / PLANS_FILE
    file.write_text(content)
    assert known_plan(file, tiny.name, None) is None
    llm = replace(tiny, plans=file)
    profile._plans.pop(llm.model, None)
    plan = plan_for(llm, progress=Silent())
    assert known_plan(file, llm.name, None) == {"device": "cpu", **in_json(plan)}
    assert len(json.loads(file.read_text())) == 1


def test_a_budget_set_by_hand_goes_above_what_was_measured(tiny: KgLLM) -> None:
    assert engine_for(tiny, budget=7).budget == 7
    assert engine_for(tiny, together=3).together == 3
    with pytest.raises(UsageError, match="at least 1"):
        engine_for(tiny, budget=0)


@pytest.mark.skipif(find_spec("bitsandbytes") is not None, reason="bitsandbytes is installed")
def test_quantized_weights_without_their_package_are_an_error(
    tiny_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="bitsandbytes"):
        load(tiny_folder, tmp_path, quantize="4bit")


def test_other_widths_of_weights_are_refused(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="3bit"):
        load(tiny_folder, tmp_path, quantize="3bit")
