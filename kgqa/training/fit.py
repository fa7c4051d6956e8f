"""Fine-tuning a local model, so that it writes paths for questions.

A LoRA adapter by default, all weights if asked for. The loop is transformers' Trainer: bfloat16 by
autocast, batches of like lengths, checkpoints that a stopped run goes on from.
"""

from __future__ import annotations

import hashlib
import math
import shutil
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from safetensors.torch import load_file, save_file

from kgqa.errors import DataError
from kgqa.graph.files import sync
from kgqa.models.adapter import CARD_FILE
from kgqa.models.kg_llm import make_special
from kgqa.models.pretrained import quiet, with_adapter
from kgqa.models.tokenizer import HFEncoder
from kgqa.training.check import PathCheck
from kgqa.training.checkpoints import alone, checkpoint_to_resume, digest_of, drop_checkpoints
from kgqa.training.encode import ByLength, Collator, encode
from kgqa.training.reports import AdapterReport, write_readme
from kgqa.training.trainer import PathTrainer, RunLog, Watch, writing_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.models.adapter import AdapterCard
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import WalkRules
    from kgqa.progress import Progress
    from kgqa.training.chains import ChainExample
    from kgqa.training.check import HeldOut
    from kgqa.training.data import Example
    from kgqa.training.options import TrainingSettings

LOG_FILE = "training.jsonl"
# in this order: a folder without the last of them that it should have is not taken for a model
_LAST = ("adapter_config.json", CARD_FILE, "config.json")
_NEW_SPREAD = 0.02  # of the noise on a new marker's embedding
_T = TypeVar("_T")
_MOST_HELD_OUT = 1_000  # examples that the held-out loss is over
# settings that leave the weights as they are, so that they may change when a run goes on
_FREE = {"checkpoint_every", "check_every", "check_questions"}


def train(
    kg_llm: KgLLM,
    examples: Sequence[Example | ChainExample],
    held_out: Sequence[Example | ChainExample],
    form: PathFormat,
    out: Path,
    settings: TrainingSettings,
    *,
    data: Mapping[str, Any],
    questions: Sequence[HeldOut] = (),
    rules: Callable[[GraphStore], WalkRules] | None = None,
    start_from: Path | None = None,
    resume: bool = True,
    progress: Progress,
) -> AdapterReport:
    """Train ``kg_llm`` (which has no adapter yet; it is changed) and write the folder ``out``.

    ``held_out``: one example of each held-out question, for the loss. ``questions``: those whose
    paths are decoded, by the walks that ``rules`` gives for a graph. ``data``: what the examples
    are, for the README. ``start_from``: the folder of an adapter of the same model, to go on from.

    ``out`` gets an adapter in bfloat16, or with ``full`` a whole model with its tokenizer; beside
    it ``kgqa.json``, ``README.md`` and ``training.jsonl``. A run that was stopped goes on from its
    last checkpoint in ``out/checkpoints``, unless ``resume`` is False.

    Raises DataError if no example is left to train on, or if the checkpoints are of another run;
    UsageError if two runs want the same folder.
    """
    from transformers import set_seed

    with alone(out):
        kg_llm = with_markers(kg_llm, kg_llm.card, settings.seed)
        if settings.loss == "relations":  # it has learnt nothing of which tail is meant
            kg_llm = kg_llm.with_card(replace(kg_llm.card, tail_temperature=math.inf))
        # cut off, a path would teach an end that is none: too long ones are left out and counted
        rows, too_long = encode(kg_llm, examples, form, settings.max_tokens, settings.loss)
        if not rows:
            raise DataError(
                f"None of the {len(examples)} examples is short enough to train on.",
                f"Give longer ones room (`max_tokens`, now {settings.max_tokens}), or check that "
                "the questions belong to this KG.",
            )
        checked = _some(held_out, _MOST_HELD_OUT)
        held_rows, _ = encode(kg_llm, checked, form, settings.max_tokens, settings.loss)
        record = {
            "model": kg_llm.name,
            "prompt": kg_llm.card.fingerprint,
            "examples": digest_of(rows),
            "start from": _adapter_digest(start_from) if start_from is not None else None,
            **settings.model_dump(exclude=_FREE),
        }
        checkpoints = out / "checkpoints"
        last, step = checkpoint_to_resume(checkpoints, record, resume=resume)
        if last is not None:
            progress.note(f"Going on from step {step}, the last checkpoint in {checkpoints}.")
        # made before the seed is set: finding out how to run a model may draw random numbers
        asked = _some(questions, settings.check_questions) if rules is not None else []
        check = PathCheck(kg_llm, asked, rules, form, progress) if asked and rules else None
        set_seed(settings.seed)
        model = _trainable(kg_llm, settings, start_from)
        log = RunLog(out / LOG_FILE, after=step)
        trainer = _trainer(kg_llm, model, rows, held_rows, checkpoints, settings)
        watch = Watch(log, check, kg_llm, settings, progress)
        trainer.add_callback(watch)
        with quiet(), closing(watch):
            done = trainer.train(resume_from_checkpoint=None if last is None else str(last))
            final = trainer.evaluate() if held_rows else {}
            with writing_to(out):
                save_model(kg_llm, model, out, full=settings.full)
        result = AdapterReport(
            folder=out,
            examples=len(rows),
            too_long=too_long,
            steps=int(done.global_step),
            loss=watch.mean_loss(float(done.training_loss)),
            held_out_loss=float(final["eval_loss"]) if held_rows else None,
            seconds=float(done.metrics["train_runtime"]),
            path_accuracy=watch.accuracy,
            checked=len(check) if check is not None and watch.accuracy is not None else 0,
            resumed_from=step,
            data=dict(data),
        )
        write_readme(out, kg_llm, settings, result)
        drop_checkpoints(checkpoints)
        return result


def with_markers(kg_llm: KgLLM, card: AdapterCard, seed: int = 0) -> KgLLM:
    """Return ``kg_llm`` asked by ``card``, its tokenizer and embeddings grown by missing markers.

    A marker that the tokenizer lacks is named in the new card's ``added_tokens``; its embedding is
    the mean of all with a little noise, which ``seed`` decides.
    """
    markers = [one for one in (card.start, card.end) if one]
    missing = [one for one in markers if kg_llm.encoder.marker_id(one) is None]
    if not missing:
        return kg_llm.with_card(card)
    card = replace(card, added_tokens=(*card.added_tokens, *missing))
    make_special(kg_llm.tokenizer, card)
    model: Any = kg_llm.model
    before = len(kg_llm.tokenizer) - len(missing)
    if len(kg_llm.tokenizer) > model.get_input_embeddings().weight.shape[0]:
        with quiet():
            model.resize_token_embeddings(len(kg_llm.tokenizer), mean_resizing=False)
    weight = model.get_input_embeddings().weight
    added = kg_llm.tokenizer.get_added_vocab()
    ids = [added[one] for one in missing]
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        output = model.get_output_embeddings()
        tied = output is None or output.weight is weight
        for own in [weight] if tied else [weight, output.weight]:
            start = own[:before].float().mean(dim=0)
            noise = torch.randn(len(ids), own.shape[1], generator=random) * start.std().cpu()
            own[ids] = (start.cpu() + _NEW_SPREAD * noise).to(own)
    width = model.get_output_embeddings().weight.shape[0]
    encoder = HFEncoder(kg_llm.tokenizer, vocab_size=width)
    return replace(kg_llm, card=card, encoder=encoder)


def _adapter_digest(folder: Path) -> str:
    try:
        with (folder / "adapter_model.safetensors").open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            f"The adapter {folder} to start from cannot be read: {error.strerror}.",
            "Name a folder that `kgqa train run` wrote.",
        ) from None


def _some(items: Sequence[_T], most: int) -> list[_T]:
    """Return at most ``most`` of ``items``, from all parts of them alike."""
    if len(items) <= most:
        return list(items)
    return [items[number * len(items) // most] for number in range(most)]


def _trainable(kg_llm: KgLLM, settings: TrainingSettings, start_from: Path | None) -> Any:
    from peft import LoraConfig, get_peft_model

    model: Any = kg_llm.model
    if settings.full:
        # autocast computes in bfloat16; small updates would be lost in weights kept in it
        return model.float().requires_grad_(True).train()
    with quiet():
        if start_from is not None:
            return with_adapter(kg_llm.model, start_from, trainable=True)
        vocabulary = kg_llm.tokenizer.get_added_vocab()
        tokens = [vocabulary[one] for one in kg_llm.card.added_tokens]
        config = LoraConfig(
            r=settings.rank,
            lora_alpha=2 * settings.rank,
            lora_dropout=settings.dropout,
            target_modules="all-linear",
            trainable_token_indices=tokens or None,
            task_type="CAUSAL_LM",
        )
        return get_peft_model(kg_llm.model, config)


def _trainer(
    kg_llm: KgLLM,
    model: Any,
    rows: Sequence[dict[str, list[int]]],
    held_rows: Sequence[dict[str, list[int]]],
    checkpoints: Path,
    settings: TrainingSettings,
) -> Any:
    from transformers import TrainingArguments
    from transformers.trainer_callback import PrinterCallback

    arguments = TrainingArguments(
        output_dir=str(checkpoints),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulation,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=settings.schedule,
        warmup_steps=settings.warmup,
        bf16=kg_llm.device.type in ("cpu", "cuda"),
        use_cpu=kg_llm.device.type == "cpu",
        seed=settings.seed,
        logging_steps=20,
        save_strategy="steps" if settings.checkpoint_every else "no",
        save_steps=settings.checkpoint_every or 1,
        save_total_limit=1,
        eval_strategy="no",
        report_to=[],
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        prediction_loss_only=True,
        disable_tqdm=True,
    )
    order = ByLength([len(row["input_ids"]) for row in rows], settings.batch_size, settings.seed)
    pad = kg_llm.tokenizer.pad_token_id
    trainer = PathTrainer(
        order,
        model=model,
        args=arguments,
        train_dataset=rows,
        eval_dataset=held_rows or None,
        data_collator=Collator(pad if isinstance(pad, int) else kg_llm.encoder.eos_id),
    )
    trainer.remove_callback(PrinterCallback)  # prints on stdout
    return trainer


def save_model(kg_llm: KgLLM, model: Any, out: Path, *, full: bool = False) -> None:
    """Write the weights in bfloat16, half of what the optimiser worked with, and the card.

    ``full``: all weights with the tokenizer, not an adapter's. The folder ``out`` is there.
    """
    part = out / ".part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    if full:
        model.to(torch.bfloat16).save_pretrained(str(part))
        kg_llm.tokenizer.save_pretrained(str(part))
        replace(kg_llm.card, base_model="").write(part)  # a model of its own, whatever its name
    else:
        # peft puts the folder that the base was loaded from there, which is of no use to others
        model.peft_config["default"].base_model_name_or_path = kg_llm.name
        model.save_pretrained(str(part), save_embedding_layers=False)
        path = part / "adapter_model.safetensors"
        weights = {name: value.to(torch.bfloat16) for name, value in load_file(path).items()}
        save_file(weights, path, metadata={"format": "pt"})
        replace(kg_llm.card, base_model=kg_llm.name).write(part)
    for name in reversed(_LAST):
        (out / name).unlink(missing_ok=True)
    order = {name: place for place, name in enumerate(_LAST, 1)}
    for path in sorted(part.iterdir(), key=lambda one: order.get(one.name, 0)):
        sync(path)
        place = out / path.name
        if place.is_dir():
            shutil.rmtree(place)
        path.replace(place)
    part.rmdir()
