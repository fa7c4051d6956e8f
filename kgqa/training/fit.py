"""Fine-tuning a local model to write paths or chains for questions.

A LoRA adapter by default, all weights if asked for: bfloat16 by autocast, batches of like lengths,
the loss over all completion tokens of a step, however they fall into its batches.

The loss is on the completion only: a path's tokens, joined exactly as the constraint joins them,
and what the card says stands around them; or a chain, as decoding on graphs can write it.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.nn.utils.rnn import pad_sequence

from kgqa.errors import DataError
from kgqa.files import sync, write_whole
from kgqa.methods.dog.chains import BETWEEN, OPENING, SPAN_TOKENS, TOKENS, markers_of
from kgqa.models.adapter import CARD_FILE, AdapterCard
from kgqa.models.kg_llm import KgLLM, make_special
from kgqa.models.pretrained import quiet, with_adapter
from kgqa.models.prompt import lead_to_answer
from kgqa.models.tokenizer import HFEncoder
from kgqa.records import record_line
from kgqa.training.chains import ChainExample
from kgqa.training.loop import (
    LOSS_WINDOW,
    Checked,
    Checkpoint,
    Fit,
    Schedule,
    alone,
    digest_of,
    writing_to,
)
from kgqa.training.reports import AdapterReport, write_readme
from kgqa.trie.lexicon import PathLexicon, TokenEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from kgqa.decoding.span_markers import Markers
    from kgqa.paths.format import PathFormat
    from kgqa.progress import Progress
    from kgqa.training.data import Example
    from kgqa.training.options import Loss, TrainingSettings

IGNORED = -100  # the label that cross entropy leaves out
_TOGETHER = 50  # batches that are drawn together and sorted by length

Row: TypeAlias = "dict[str, list[int]]"


def encode(
    kg_llm: KgLLM,
    examples: Sequence[Example | ChainExample | Row],
    form: PathFormat,
    max_tokens: int,
    loss: Loss = "path",
) -> tuple[list[Row], int]:
    """Convert examples to ``input_ids`` and ``labels``; also return how many were too long.

    ``loss`` "relations" leaves the tokens of entity names without labels: which of a relation
    path's tails an example has is mostly chance. An example of more than ``max_tokens`` tokens is
    left out, since half a path must not be learnt; for a chain, the prompt's graph is shortened
    first. Rows are taken unchanged. Raises MarkerMissingError if the tokenizer lacks a marker of
    ``form``.
    """
    lexicon = PathLexicon(kg_llm.encoder, form)
    card = kg_llm.card
    bare = kg_llm.with_card(replace(card, reply="")) if card.reply else kg_llm
    lead = lead_to_answer(card, kg_llm.tokenizer)
    rows: list[Row] = []
    too_long = 0
    for example in examples:
        if isinstance(example, dict):
            rows.append(example)
            continue
        if isinstance(example, ChainExample):
            row = _chain_row(kg_llm, lexicon, example, max_tokens)
            too_long += row is None
            rows += [row] if row is not None else []
            continue
        # the prompt is given and never learnt: a loss on it would teach to write questions
        prompt = kg_llm.prompt_ids(example.question, example.topics)
        given = len(prompt)
        if card.reply:  # the model's own turn begins with it: it is to be learnt too
            given = _common(prompt, bare.prompt_ids(example.question, example.topics))
        parts = lexicon.parts(example.head, example.hops)
        completion = [token for part in parts for token in part]
        learnt = list(completion)
        if loss == "relations":
            learnt = [
                IGNORED if place % 2 else token
                for place, part in enumerate(parts)
                for token in part
            ]
        if card.answer:
            answer = kg_llm.encoder.encode([example.hops[-1][1]])[0]
            hypothesis = [*lead, *answer, kg_llm.encoder.eos_id]
            completion, learnt = completion + hypothesis, learnt + hypothesis
        if len(prompt) + len(completion) > max_tokens:
            too_long += 1
            continue
        labels = [IGNORED] * given + prompt[given:] + learnt
        rows.append({"input_ids": prompt + completion, "labels": labels})
    return rows, too_long


def _common(ids: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common prefix of two id lists."""
    pairs = zip(ids, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(ids), len(other)))


def _chain_row(
    kg_llm: KgLLM, lexicon: PathLexicon, example: ChainExample, max_tokens: int
) -> Row | None:
    """Return a chain's row, its prompt's graph shortened to fit ``max_tokens`` if necessary.

    None if it is too long even without unneeded triplets, or decoding could not write the chain.
    """
    chain = chain_tokens(kg_llm.encoder, lexicon, example)
    if chain is None:
        return None
    needed = {" ".join(lexicon.form.path(h, [(r, t)]).split()) for h, r, t in example.hops}
    graph = list(example.graph)
    sizes = [len(ids) for ids in kg_llm.encoder.encode([f" {text} |" for text in graph])]
    while True:
        prompt = kg_llm.prompt_ids(example.question, example.topics, BETWEEN.join(graph))
        over = len(prompt) + len(chain) - max_tokens
        if over <= 0:
            labels = [IGNORED] * len(prompt) + chain
            return {"input_ids": prompt + chain, "labels": labels}
        spare = [at for at, text in enumerate(graph) if text not in needed]
        if not spare:
            return None
        # as many as are over; joined, texts may be a token more or less than alone
        while spare and over > 0:
            at = spare.pop()
            over -= max(1, sizes.pop(at))
            graph.pop(at)


def chain_tokens(
    encoder: TokenEncoder, lexicon: PathLexicon, example: ChainExample
) -> list[int] | None:
    """Return the token ids of the whole chain, None if decoding could not write it."""
    markers = markers_of(encoder)
    texts = [f" {step.thought} {OPENING}" for step in example.steps]
    *thoughts, conclusion = encoder.encode([*texts, f" {example.conclusion}"])
    tokens: list[int] = []
    for thought, (head, relation, tail) in zip(thoughts, example.hops, strict=True):
        if _opens(markers, thought[:-1]) or markers.completed(thought) is None:
            return None
        triplet = [*lexicon.sequence(head, [(relation, tail)])[:-1], *markers.closing]
        if len(triplet) > SPAN_TOKENS:
            return None
        tokens += [*thought, *triplet]
    if _opens(markers, conclusion):
        return None
    tokens += [*conclusion, encoder.eos_id]
    return tokens if len(tokens) <= TOKENS else None


def _opens(markers: Markers, tokens: list[int]) -> bool:
    """Return whether ``tokens`` of free text contain an opening marker."""
    return any(markers.completed(tokens[:end]) is not None for end in range(1, len(tokens) + 1))


def collated(rows: Sequence[Row], pad: int) -> dict[str, Tensor]:
    """Pad rows to tensors: ``input_ids``, ``labels`` and ``attention_mask``, ``[rows, longest]``.

    Padding is on the right; ids are padded by ``pad``.
    """
    ids, labels = ([torch.tensor(row[name]) for row in rows] for name in ("input_ids", "labels"))
    return {
        "input_ids": pad_sequence(ids, batch_first=True, padding_value=pad),
        "labels": pad_sequence(labels, batch_first=True, padding_value=IGNORED),
        "attention_mask": pad_sequence([torch.ones_like(row) for row in ids], batch_first=True),
    }


def of_like_lengths(lengths: Sequence[int], size: int, seed: int, epoch: int) -> list[list[int]]:
    """Return the batches of an epoch, rows of similar lengths by index, in random order.

    They depend only on seed and epoch, so that a resumed run sees the rest of its epoch.
    """
    random = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    drawn = torch.randperm(len(lengths), generator=random).tolist()
    batches = []
    for start in range(0, len(drawn), size * _TOGETHER):
        part = sorted(drawn[start : start + size * _TOGETHER], key=lengths.__getitem__)
        batches += [part[at : at + size] for at in range(0, len(part), size)]
    return [batches[at] for at in torch.randperm(len(batches), generator=random).tolist()]


LOG_FILE = "training.jsonl"
# in this order: a folder without the last of them that it should have is not taken for a model
_LAST = ("adapter_config.json", CARD_FILE, "config.json")
_NEW_SPREAD = 0.02  # of the noise on a new marker's embedding
_MOST_HELD_OUT = 1_000  # examples that the held-out loss is over


def train(
    kg_llm: KgLLM,
    examples: Sequence[Example | ChainExample | Row],
    held_out: Sequence[Example | ChainExample | Row],
    form: PathFormat,
    out: Path,
    settings: TrainingSettings,
    *,
    data: Mapping[str, Any],
    start_from: Path | None = None,
    progress: Progress,
) -> AdapterReport:
    """Train ``kg_llm``, which has no adapter yet and is changed, and write the folder ``out``.

    ``held_out``: one example of each held-out question, for the loss. ``data``: a description of
    the examples, for the README. ``start_from``: the folder of an adapter of the same model to
    continue.

    ``out`` gets an adapter in bfloat16, or with ``full`` a whole model with its tokenizer; with it
    ``kgqa.json``, ``README.md`` and ``training.jsonl``. A stopped run resumes from its last
    checkpoint in ``out``, unless the settings forbid it.

    Raises DataError if no example is left to train on, or if the checkpoint is of another run;
    UsageError if two runs use the same folder.
    """
    with alone(out):
        kg_llm = with_markers(kg_llm, kg_llm.card, settings.seed)
        if settings.loss == "relations":  # it has learnt nothing of which tail is meant
            kg_llm = kg_llm.with_card(replace(kg_llm.card, tail_temperature=math.inf))
        # cut off, a path would teach a wrong end: too long ones are left out and counted
        rows, too_long = encode(kg_llm, examples, form, settings.max_tokens, settings.loss)
        if not rows:
            raise DataError(
                f"None of the {len(examples)} examples is short enough to train on.",
                f"Give longer ones room (`max_tokens`, now {settings.max_tokens}), or check that "
                "the questions belong to this KG.",
            )
        # at most so many, from all parts of them alike
        some = held_out[:: math.ceil(len(held_out) / _MOST_HELD_OUT) or 1]
        held_rows, _ = encode(kg_llm, some, form, settings.max_tokens, settings.loss)
        record = {
            "model": kg_llm.name,
            "prompt": kg_llm.card.fingerprint,
            "examples": digest_of(rows),
            "start from": _adapter_digest(start_from) if start_from is not None else None,
        }
        checkpoint = Checkpoint(out, record, settings, progress)
        torch.manual_seed(settings.seed)
        loss = _Loss(_trainable(kg_llm, settings, start_from), kg_llm)
        fit, batches = _fit(loss, rows, held_rows, settings, progress)
        began = time.perf_counter()

        def after() -> None:
            """After a step: log the loss and write the log and the checkpoint, each if due."""
            if fit.step % LOSS_WINDOW == 0:
                mean = np.mean(fit.losses[-LOSS_WINDOW:])
                progress.note(f"step {fit.step}/{fit.schedule.steps} loss {mean:.3f}")
            if fit.step % LOSS_WINDOW == 0 or (fit.checks and fit.checks[-1][0] == fit.step):
                _write_log(out / LOG_FILE, fit, settings)
            checkpoint.after_step(fit)

        with quiet():
            checkpoint.take_up(fit)
            fit.run(batches, after)
            with writing_to(out):
                save_model(kg_llm, loss.model, out, full=settings.full)
        figures = fit.checks[-1][1] if fit.checks else {}
        result = AdapterReport(
            folder=out,
            examples=len(rows),
            too_long=too_long,
            steps=fit.step,
            loss=float(np.mean(fit.losses)),
            held_out_loss=figures.get("held-out loss"),
            seconds=time.perf_counter() - began,
            resumed_from=checkpoint.step,
            data=dict(data),
        )
        write_readme(out, kg_llm, settings, result)
        checkpoint.drop()
        return result


def _fit(
    loss: _Loss,
    rows: Sequence[Row],
    held_rows: Sequence[Row],
    settings: TrainingSettings,
    progress: Progress,
) -> tuple[Fit[Sequence[Sequence[Row]]], list[list[list[Row]]]]:
    """Return the optimiser loop of a model, and the batches of each of its training steps.

    ``held_rows``: for the check of the loss, if there are any.
    """
    batches: list[list[list[Row]]] = []
    lengths = [len(row["input_ids"]) for row in rows]
    for epoch in range(math.ceil(settings.epochs)):
        every = of_like_lengths(lengths, settings.batch_size, settings.seed, epoch)
        some = [[rows[at] for at in batch] for batch in every]
        size = settings.accumulation
        batches += [some[at : at + size] for at in range(0, len(some), size)]
    steps = math.ceil(len(batches) / math.ceil(settings.epochs) * settings.epochs)
    schedule = Schedule(steps, math.ceil(settings.warmup * steps), 0.0, "cosine")

    def checked() -> Checked:
        """Return the loss of the held-out examples."""
        model = loss.model.eval()
        held_out_loss = loss.mean(held_rows, settings.batch_size)
        model.train()
        return Checked(None, {"held-out loss": held_out_loss})

    weights = [weight for weight in loss.model.parameters() if weight.requires_grad]
    fit = Fit(
        loss.model.train(),
        torch.optim.AdamW(weights, settings.learning_rate, weight_decay=0.0),
        schedule,
        loss,
        progress,
        check=checked if held_rows else None,
        check_every=settings.check_every or steps,
    )
    return fit, batches


class _Loss:
    """The loss over completion tokens; only their logits are computed, a third faster on a CPU."""

    def __init__(self, model: Any, kg_llm: KgLLM) -> None:
        self.model = model
        self._device = kg_llm.device
        pad = kg_llm.tokenizer.pad_token_id
        self._pad = pad if isinstance(pad, int) else kg_llm.encoder.eos_id
        self._short: bool | None = None

    def __call__(self, batches: Sequence[Sequence[Row]]) -> Iterator[Tensor]:
        """Yield each batch's part of the mean loss of one training step, per labelled token."""
        labels = (label for rows in batches for row in rows for label in row["labels"][1:])
        count = sum(label != IGNORED for label in labels)
        for rows in batches:
            yield self._sum(rows) / count

    @torch.inference_mode()
    def mean(self, rows: Sequence[Row], size: int) -> float:
        """Return the mean loss per completion token over all rows, run in batches of ``size``."""
        return float(sum(self([rows[at : at + size] for at in range(0, len(rows), size)])))

    def _sum(self, rows: Sequence[Row]) -> Tensor:
        """Return the summed cross-entropy of a batch's labelled tokens."""
        inputs = {
            name: tensor.to(self._device) for name, tensor in collated(rows, self._pad).items()
        }
        labels = inputs.pop("labels")[:, 1:]
        there = labels != IGNORED
        model = self.model
        causal = model.get_base_model() if hasattr(model, "get_base_model") else model
        device = self._device.type
        with torch.autocast(device, torch.bfloat16, enabled=device in ("cpu", "cuda")):
            if self._short is None:
                self._short = _head_is_plain(causal, inputs)
            if self._short:
                hidden = causal.base_model(**inputs).last_hidden_state
                logits = causal.get_output_embeddings()(hidden[:, :-1][there])
            else:
                logits = causal(**inputs).logits[:, :-1][there]
        return torch.nn.functional.cross_entropy(logits.float(), labels[there], reduction="sum")


def _head_is_plain(causal: Any, inputs: dict[str, Tensor]) -> bool:
    """Return whether the model's logits are its output layer's: some models scale or cap them."""
    row = {name: tensor[:1] for name, tensor in inputs.items()}
    training = causal.training
    causal.eval()
    try:
        with torch.no_grad():
            whole = causal(**row).logits
            logits = causal.get_output_embeddings()(causal.base_model(**row).last_hidden_state)
            return torch.allclose(logits.float(), whole.float(), atol=1e-3, rtol=1e-3)
    except (AttributeError, TypeError):
        return False
    finally:
        causal.train(training)


def _write_log(file: Path, fit: Fit[Any], settings: TrainingSettings) -> None:
    """Write the mean loss of every ``LOSS_WINDOW`` steps, and each check, one a line."""
    lines: list[dict[str, Any]] = [
        {
            "step": step,
            "loss": float(np.mean(fit.losses[step - LOSS_WINDOW : step])),
            "learning_rate": settings.learning_rate * fit.schedule(step - 1),
        }
        for step in range(LOSS_WINDOW, fit.step + 1, LOSS_WINDOW)
    ]
    lines += [{"step": step, **figures} for step, figures in fit.checks]
    lines.sort(key=lambda line: line["step"])
    with writing_to(file.parent):
        write_whole(file, "".join(map(record_line, lines)).encode())


def with_markers(kg_llm: KgLLM, card: AdapterCard, seed: int = 0) -> KgLLM:
    """Return ``kg_llm`` with a card, and with missing markers added as tokens.

    A marker that the tokenizer lacks is listed in the new card's ``added_tokens``; its embedding is
    the mean of all with a little noise, by ``seed``.
    """
    markers = [marker for marker in (card.start, card.end) if marker]
    missing = [marker for marker in markers if kg_llm.encoder.marker_id(marker) is None]
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
    ids = [added[marker] for marker in missing]
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
    """Return the SHA-256 of an adapter's weights. Raises DataError."""
    try:
        with (folder / "adapter_model.safetensors").open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            f"The adapter {folder} to start from cannot be read: {error.strerror}.",
            "Name a folder that `kgqa train run` wrote.",
        ) from None


def _trainable(kg_llm: KgLLM, settings: TrainingSettings, start_from: Path | None) -> Any:
    """Return the model ready for training: all weights, a given adapter, or a new one.

    ``start_from``: the folder of the given adapter, None for a new one.
    """
    from peft import LoraConfig, get_peft_model

    model: Any = kg_llm.model
    if settings.full:
        # autocast computes in bfloat16; small updates would be lost in weights kept in it
        return model.float().requires_grad_(True).train()
    with quiet():
        if start_from is not None:
            return with_adapter(kg_llm.model, start_from, trainable=True)
        vocabulary = kg_llm.tokenizer.get_added_vocab()
        tokens = [vocabulary[token] for token in kg_llm.card.added_tokens]
        config = LoraConfig(
            r=settings.rank,
            lora_alpha=2 * settings.rank,
            lora_dropout=settings.dropout,
            target_modules="all-linear",
            trainable_token_indices=tokens or None,
            task_type="CAUSAL_LM",
        )
        return get_peft_model(kg_llm.model, config)


def save_model(kg_llm: KgLLM, model: Any, out: Path, *, full: bool = False) -> None:
    """Write weights, in bfloat16, and card into the existing folder ``out``; replace older ones.

    ``full``: all weights with the tokenizer, not an adapter's.
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
    for path in sorted(part.iterdir(), key=lambda file: order.get(file.name, 0)):
        sync(path)
        place = out / path.name
        if place.is_dir():
            shutil.rmtree(place)
        path.replace(place)
    part.rmdir()
