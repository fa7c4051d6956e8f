"""Fine-tuning a local model with LoRA, so that it writes paths for questions.

The loss is on the completion only: the path's tokens, joined exactly as the constraint joins them,
and the closing token (GCR, arXiv 2410.13080, sec. 4.2). The loop is transformers' Trainer: cosine
schedule, batches of like lengths, checkpoints that a stopped run goes on from.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch.utils.data import Dataset

from kgqa.errors import DataError
from kgqa.models.quiet import quiet
from kgqa.trie.lexicon import PathLexicon

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from transformers import Trainer

    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.format import PathFormat
    from kgqa.progress import Progress
    from kgqa.training.data import Example

_IGNORED = -100  # the label that cross entropy leaves out


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """Settings of a run. The defaults are those the bundled adapter was trained with."""

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.05
    epochs: float = 3.0
    learning_rate: float = 5e-4
    warmup: float = 0.03  # share of the steps
    batch_size: int = 16
    accumulation: int = 1
    max_tokens: int = 256
    checkpoint_every: int = 100  # steps
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What a run gave."""

    folder: Path
    examples: int
    too_long: int
    steps: int
    loss: float
    held_out_loss: float | None
    seconds: float


class _Encoded(Dataset[dict[str, list[int]]]):
    def __init__(self, rows: list[dict[str, list[int]]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return self.rows[index]


def encode(
    kg_llm: KgLLM, examples: Sequence[Example], form: PathFormat, max_tokens: int
) -> tuple[list[dict[str, list[int]]], int]:
    """Return ``input_ids``, ``labels`` and ``length`` of each example, and how many were too long.

    An example of more than ``max_tokens`` tokens is left out: cut, it would teach half a path.
    """
    lexicon = PathLexicon(kg_llm.encoder, form)
    rows, too_long = [], 0
    for example in examples:
        prompt = list(kg_llm.prompt_ids(example.question, example.topics))
        completion = lexicon.sequence(example.head, example.hops)
        if len(prompt) + len(completion) > max_tokens:
            too_long += 1
            continue
        ids = prompt + completion
        labels = [_IGNORED] * len(prompt) + completion
        rows.append({"input_ids": ids, "labels": labels})
    return rows, too_long


class _Collator:
    def __init__(self, pad: int) -> None:
        self._pad = pad

    def __call__(self, rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        width = max(len(row["input_ids"]) for row in rows)
        ids = torch.full((len(rows), width), self._pad)
        labels = torch.full((len(rows), width), _IGNORED)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for number, row in enumerate(rows):
            length = len(row["input_ids"])
            ids[number, :length] = torch.tensor(row["input_ids"])
            labels[number, :length] = torch.tensor(row["labels"])
            mask[number, :length] = 1
        return {"input_ids": ids, "labels": labels, "attention_mask": mask}


def train_adapter(
    kg_llm: KgLLM,
    examples: Sequence[Example],
    held_out: Sequence[Example],
    form: PathFormat,
    out: Path,
    settings: LoraSettings,
    *,
    description: str,
    start_from: Path | None = None,
    progress: Progress,
) -> TrainingResult:
    """Train an adapter for ``kg_llm`` (which has none yet) and write it to the folder ``out``.

    ``start_from``: the folder of an adapter of the same model, to go on from its weights.

    ``out`` gets ``adapter_model.safetensors`` (bfloat16), peft's ``adapter_config.json``, the
    project's ``kgqa.json`` and a model card. A run that was stopped goes on from its last
    checkpoint in ``out/checkpoints``. Raises DataError where no example is left to train on.
    """
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import TrainingArguments, set_seed

    set_seed(settings.seed)
    rows, too_long = encode(kg_llm, examples, form, settings.max_tokens)
    if not rows:
        raise DataError(
            f"None of the {len(examples)} examples is short enough to train on.",
            f"Give longer ones room (max_tokens, now {settings.max_tokens}), or check that the "
            "questions belong to this KG.",
        )
    held_rows, _ = encode(kg_llm, held_out, form, settings.max_tokens)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    with quiet():
        model = (
            get_peft_model(kg_llm.model, config)
            if start_from is None
            else PeftModel.from_pretrained(kg_llm.model, str(start_from), is_trainable=True)
        )
    checkpoints = out / "checkpoints"
    on_cpu = kg_llm.device.type == "cpu"
    arguments = TrainingArguments(
        output_dir=str(checkpoints),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulation,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=settings.warmup,
        train_sampling_strategy="group_by_length",
        bf16=True,
        use_cpu=on_cpu,
        seed=settings.seed,
        logging_steps=20,
        save_steps=settings.checkpoint_every,
        save_total_limit=1,
        eval_strategy="no",
        report_to=[],
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        prediction_loss_only=True,
        disable_tqdm=True,
    )
    pad = kg_llm.tokenizer.pad_token_id
    trainer = _path_trainer()(
        model=model,
        args=arguments,
        train_dataset=_Encoded(rows),
        eval_dataset=_Encoded(held_rows) if held_rows else None,
        data_collator=_Collator(pad if pad is not None else kg_llm.encoder.eos_id),
        callbacks=[_told(progress)],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of autograd and accelerate, about things of their own
        done = trainer.train(resume_from_checkpoint=_last_checkpoint(checkpoints))
        held_out_loss = trainer.evaluate()["eval_loss"] if held_rows else None
    # peft puts the folder that the base was loaded from there, which is of no use to anyone else
    model.peft_config["default"].base_model_name_or_path = kg_llm.name
    model.save_pretrained(str(out), save_embedding_layers=False)
    _shrink(out)
    replace(kg_llm.card, base_model=kg_llm.name).write(out)
    result = TrainingResult(
        folder=out,
        examples=len(rows),
        too_long=too_long,
        steps=int(done.global_step),
        loss=float(done.training_loss),
        held_out_loss=None if held_out_loss is None else float(held_out_loss),
        seconds=float(done.metrics["train_runtime"]),
    )
    (out / "README.md").write_text(_card(kg_llm.name, description, settings, result), "utf-8")
    return result


def _path_trainer() -> type[Trainer]:
    from transformers import Trainer

    class PathTrainer(Trainer):
        """Computes logits only where there is a label: a third less time a step on a CPU."""

        def compute_loss(
            self,
            model: Any,
            inputs: dict[str, torch.Tensor | Any],
            return_outputs: bool = False,
            num_items_in_batch: torch.Tensor | int | None = None,
        ) -> Any:
            causal = self.accelerator.unwrap_model(model).get_base_model()
            hidden = causal.base_model(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
            ).last_hidden_state
            labels = inputs["labels"][:, 1:]
            there = labels != _IGNORED
            logits = causal.get_output_embeddings()(hidden[:, :-1][there]).float()
            loss = torch.nn.functional.cross_entropy(logits, labels[there])
            return (loss, {"loss": loss}) if return_outputs else loss

    return PathTrainer


def _last_checkpoint(folder: Path) -> str | None:
    from transformers.trainer_utils import get_last_checkpoint

    last: str | None = (
        get_last_checkpoint(str(folder)) if folder.is_dir() else None  # type: ignore[no-untyped-call]
    )
    return last


def _told(progress: Progress) -> Any:
    from transformers import TrainerCallback

    class Tell(TrainerCallback):
        def on_log(
            self,
            args: Any,
            state: Any,
            control: Any,
            logs: dict[str, float] | None = None,
            **_: Any,
        ) -> None:
            if logs and "loss" in logs:
                progress.note(
                    f"step {state.global_step}/{state.max_steps} loss {float(logs['loss']):.3f}"
                )

    return Tell()


def _shrink(folder: Path) -> None:
    """Keep the weights in bfloat16, half of what the optimiser worked with."""
    path = folder / "adapter_model.safetensors"
    weights = {name: value.to(torch.bfloat16) for name, value in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})


def _card(name: str, description: str, settings: LoraSettings, result: TrainingResult) -> str:
    held_out = "none" if result.held_out_loss is None else f"{result.held_out_loss:.4f}"
    return "\n".join(
        [
            f"# LoRA adapter of {name} for paths of a knowledge graph",
            "",
            description,
            "",
            f"- examples: {result.examples} ({result.too_long} too long, left out)",
            f"- steps: {result.steps}, loss {result.loss:.4f}, held-out loss {held_out}",
            f"- settings: `{json.dumps(asdict(settings))}`",
            "",
        ]
    )
