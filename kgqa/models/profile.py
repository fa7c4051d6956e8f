"""How to decode with a model on its device: measured once, stored in the cache folder.

A probe decides whether it is run over trees or prefix by prefix, a measurement how wide a forward
pass should be. Both depend on the model, the device and the libraries, so that is their key.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from pydantic import TypeAdapter

from kgqa.decoding.capabilities import measured_plan
from kgqa.decoding.engine import DecodingPlan, Engine
from kgqa.decoding.model import TreeModel
from kgqa.errors import ModelError
from kgqa.files import write_cache
from kgqa.progress import Progress, Silent

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.models.kg_llm import KgLLM

_VERSION = 5  # of how plans are made
_TOGETHER = {"cpu": 12}  # questions that share a forward pass; elsewhere width costs less
_TOGETHER_ELSEWHERE = 16
_plans: WeakKeyDictionary[Any, DecodingPlan] = WeakKeyDictionary()  # by model


def engine_for(
    kg_llm: KgLLM,
    *,
    together: int | None = None,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Engine:
    """Return a decoding engine for ``kg_llm``.

    ``together``: questions that share a forward pass, None: by the device. ``budget``: tokens of
    look-ahead in a pass, None: as measured. Raises UsageError if one is below 1, ModelError if
    memory does not even suffice to probe the model.
    """
    plan = plan_for(kg_llm, progress=progress or Silent(), budget=budget)
    if together is None:
        together = _TOGETHER.get(kg_llm.device.type, _TOGETHER_ELSEWHERE)
    return Engine(kg_llm.model, plan, together=together, progress=progress)


def plan_for(kg_llm: KgLLM, *, progress: Progress, budget: int | None = None) -> DecodingPlan:
    """Return the decoding plan of ``kg_llm``: known, read from the cache folder, or measured.

    A measured plan is stored. ``budget``: replaces the plan's. Raises UsageError, ModelError.
    """
    if budget is not None:
        DecodingPlan(budget=budget)  # raises before anything is measured
    plan = _plans.get(kg_llm.model)
    if plan is None:
        key = _key(kg_llm)
        plan = _read(kg_llm.plans).get(key)
        if plan is None:
            with progress.task(f"measuring {kg_llm.name} on {kg_llm.device.type}"):
                plan = _measured(kg_llm)
            _keep(kg_llm.plans, key, plan)
        _plans[kg_llm.model] = plan
    return plan if budget is None else dataclasses.replace(plan, budget=budget)


def _measured(kg_llm: KgLLM) -> DecodingPlan:
    """Measure the decoding plan. Raises ModelError if memory runs out."""
    try:
        return measured_plan(kg_llm.model)
    except torch.OutOfMemoryError as error:
        raise ModelError(
            f"Memory ran out when {kg_llm.name} was tried on {kg_llm.device}.",
            "Use a smaller or quantized model (set `quantize` to 4bit), or another device.",
        ) from error


def _key(kg_llm: KgLLM) -> str:
    """Return the cache key of a plan: model, device, dtype, versions and threads."""
    config = kg_llm.model.config.get_text_config()
    parts = [
        kg_llm.name,
        _device_name(kg_llm.device),
        config.model_type,
        *(getattr(config, name, None) for name in ("hidden_size", "num_hidden_layers")),
        kg_llm.model.dtype,
        kg_llm.quantized,
        torch.__version__,
        "kgqa" if isinstance(kg_llm.model, TreeModel) else version("transformers"),
        torch.get_num_threads(),
        _VERSION,
    ]
    return "|".join(str(part).replace("|", "/") for part in parts)


def _device_name(device: torch.device) -> str:
    """Return a name of the device's hardware: the GPU's, otherwise the machine and its CPUs."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device).replace("|", "/")
    return f"{device.type} {platform.machine()} {os.cpu_count()}"


def _read(file: Path | None) -> dict[str, DecodingPlan]:
    """Return the stored plans by key, {} if the file cannot be read."""
    try:
        return _plans_json().validate_json(file.read_bytes()) if file is not None else {}
    except (OSError, ValueError):
        return {}  # it is measured again


@functools.cache
def _plans_json() -> TypeAdapter[dict[str, DecodingPlan]]:
    """Return the pydantic adapter that reads and writes stored plans."""
    return TypeAdapter(dict[str, DecodingPlan])  # takes milliseconds to build


def _keep(file: Path | None, key: str, plan: DecodingPlan) -> None:
    """Store a plan in the file under its key; errors of writing are ignored."""
    if file is None:
        return
    content = _read(file)
    content.pop(key, None)
    content[key] = plan  # the latest last
    with contextlib.suppress(OSError):  # a cache that cannot be written is not a question's fault
        write_cache(file, _plans_json().dump_json(content, indent=1))
