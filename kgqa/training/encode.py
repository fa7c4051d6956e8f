"""Examples as token ids with labels, in batches of like lengths.

The loss is on the completion only: a path's tokens, joined exactly as the constraint joins them,
and what the card says stands around them; or a chain, as decoding on graphs can write it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch.nn.utils.rnn import pad_sequence

from kgqa.methods.dog.chains import BETWEEN, OPENING, SPAN_TOKENS, TOKENS, markers_of
from kgqa.models.prompt import lead_to_answer
from kgqa.training.chains import ChainExample
from kgqa.trie.lexicon import PathLexicon

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from kgqa.decoding.pieces import Markers
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.format import PathFormat
    from kgqa.training.data import Example
    from kgqa.training.options import Loss
    from kgqa.trie.lexicon import TokenEncoder

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
    """Return ``input_ids`` and ``labels`` of each example, and how many were too long.

    ``loss`` "relations" leaves the tokens of entity names without labels: which of a relation
    path's tails an example holds is mostly chance. An example of more than ``max_tokens`` tokens
    is left out: cut, it would teach half a path; of a chain the prompt's graph is made smaller
    first. Rows are taken as they are. Raises MarkerMissingError if the tokenizer lacks a marker of
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
    """Return how many ids both begin with."""
    pairs = zip(ids, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(ids), len(other)))


def _chain_row(
    kg_llm: KgLLM, lexicon: PathLexicon, example: ChainExample, max_tokens: int
) -> Row | None:
    """Return a row, from the end of whose graph triplets that the chain does not need may be gone.

    None if it is too long without them, or if the chain is longer than decoding writes.
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
    """Return the token ids of the chain to its end; None if decoding could not write it."""
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
    """Return whether a triplet would be opened somewhere in free text."""
    return any(markers.completed(tokens[:end]) is not None for end in range(1, len(tokens) + 1))


def collated(rows: Sequence[Row], pad: int) -> dict[str, Tensor]:
    """Return ``input_ids``, ``labels`` and ``attention_mask``, each ``[rows, longest]``.

    They are padded on the right, ids by ``pad``.
    """
    ids, labels = ([torch.tensor(row[name]) for row in rows] for name in ("input_ids", "labels"))
    return {
        "input_ids": pad_sequence(ids, batch_first=True, padding_value=pad),
        "labels": pad_sequence(labels, batch_first=True, padding_value=IGNORED),
        "attention_mask": pad_sequence([torch.ones_like(row) for row in ids], batch_first=True),
    }


def of_like_lengths(lengths: Sequence[int], size: int, seed: int, epoch: int) -> list[list[int]]:
    """Return the batches of an epoch: in random order, each of rows of like lengths.

    They depend on the seed and the epoch alone, so that a resumed run sees the rest of its epoch.
    """
    random = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    drawn = torch.randperm(len(lengths), generator=random).tolist()
    batches = []
    for start in range(0, len(drawn), size * _TOGETHER):
        part = sorted(drawn[start : start + size * _TOGETHER], key=lengths.__getitem__)
        batches += [part[at : at + size] for at in range(0, len(part), size)]
    return [batches[at] for at in torch.randperm(len(batches), generator=random).tolist()]
