"""Reasoners for tests: random weights, and an encoder so small that it is made in a moment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch

from kgqa.models.graph_reasoner import LoadedReasoner, Tables
from kgqa.models.graph_reasoner_card import ReasonerCard
from kgqa.models.graph_reasoner_torch import TrainableReasoner, frozen
from kgqa.models.sentences import load_sentence_encoder
from kgqa.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.paths.walk import WalkRules

WIDTH = 32


def encoder_folder(folder: Path) -> Path:
    """A sentence encoder with random weights: a real BERT of one layer that reads characters."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir(parents=True)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789?.,'"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{x}" for x in letters)]
    (folder / "vocab.txt").write_text("\n".join(words), "utf-8")
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        initializer_range=0.2,
    )
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(vocab=str(folder / "vocab.txt"), do_lower_case=True).save_pretrained(folder)
    limit = {"max_seq_length": 128}
    (folder / "sentence_bert_config.json").write_text(json.dumps(limit), "utf-8")
    return folder


def tiny_encoder(folder: Path) -> SentenceEncoder:
    """The encoder of ``encoder_folder``, loaded."""
    return load_sentence_encoder(str(folder), device="cpu", cache=folder, progress=Silent())


def random_reasoner(
    store: GraphStore, rules: WalkRules, encoder: SentenceEncoder, seed: int = 0
) -> LoadedReasoner:
    """A reasoner that prefers nothing sensible."""
    torch.manual_seed(seed)
    card = ReasonerCard(
        hops=rules.hops,
        direction=rules.direction,
        mediators=rules.mediators,
        encoder=encoder.name,
        width=encoder.width,
        hidden=16,
        relations=tuple(store.relations().ids),
    )
    model = TrainableReasoner(card.hops, card.width, card.hidden)
    return LoadedReasoner("random", card, frozen(model, card), encoder)


def random_tables(relations: int, hidden: int, seed: int) -> Tables:
    """Vectors of steps that are large enough to tell relations apart."""
    torch.manual_seed(seed)
    return Tables(*(2.0 * torch.randn(2 * relations, hidden + 1).numpy() for _ in range(2)))
