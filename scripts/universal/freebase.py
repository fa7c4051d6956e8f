"""Fitting the path ranker for Freebase: the universal one with a head that is fitted to questions.

Questions: those that may be trained on (four fifths) of the WebQSP and CWQ development halves, with
their answers, and of WebQSP's training questions with gold relation paths; all asked of the
Freebase subgraph, topic entities given. Heads are fitted, each with a seed of its own, and
averaged.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kgqa.cli.terminal import TerminalProgress
from kgqa.config import Settings
from kgqa.methods.rank_words import RankWords
from kgqa.models.path_ranker import HEAD, UNIVERSAL, load_path_ranker, save_path_ranker
from kgqa.paths.walk import WalkRules
from kgqa.questions.base import is_held_out
from kgqa.training.adapters import about
from kgqa.training.data import read_file
from kgqa.training.rankers import batch_of, fit_head, kg_questions, rights
from scripts.benchmarks.evals import opened

if TYPE_CHECKING:
    from kgqa.training.rankers import Head

TOPICS = "webqsp/elq_mids.train.json"
FILES = (  # with their format, and a file of topic entities
    ("freebase_subgraph/webqsp.dev-half.jsonl", "webqsp-graph", None),
    ("freebase_subgraph/cwq.dev-half.jsonl", "cwq-graph", None),
    ("webqsp/relation_paths.train.jsonl", "jsonl", TOPICS),
)
HEADS = 4
RANK = 64  # of each head
KEPT = 48  # of their mean
RATE = 5e-3
REFUSE_ABOVE = 0.65  # a head finds an answer everywhere, so less is needed to doubt it


def averaged(heads: list[Head], rank: int) -> Head:
    """Return the head of ``rank`` that is nearest to the mean of ``heads``.

    Fits of other seeds err in other ways (model soups: Wortsman et al., arXiv 2203.05482).
    """
    mean = np.mean([up @ down for down, up in heads], axis=0)
    up, strength, down = np.linalg.svd(mean)
    half = np.sqrt(strength[:rank])
    return half[:, None] * down[:rank], up[:, :rank] * half


def train(data: Path, out: Path, steps: int) -> None:
    """Fit the heads and write the ranker.

    Prints in how many questions of the validation fifths a right relation path comes first, before
    and after.
    """
    cache, progress = Settings().cache_folder, TerminalProgress()  # type: ignore[call-arg]
    start = load_path_ranker(UNIVERSAL, device=None, cache=cache, progress=progress)
    with opened("fbsub", data, out.parents[1] / "home") as graph:
        store = graph.store
        words = RankWords(store, WalkRules(start.card.hops, "both"))
        taught, apart, counts = [], [], []
        for file, form, topics in FILES:
            read = read_file(data / file, form, topics and data / topics, progress)
            for into, held_out in ((taught, False), (apart, True)):
                some = [
                    read.in_graph(store, question)
                    for question in read.questions
                    if is_held_out(question.id) == held_out
                ]
                usable, unusable = kg_questions(words, some, start)
                into += usable
                if not held_out:
                    counts.append(
                        f"{len(some) - len(unusable)} of {len(some)} in {Path(file).name}"
                    )
        domains = sorted({name.partition(".")[0] for name in store.relations().known})
        kg = about(store.info)
    print("; ".join(counts), flush=True)
    asked, checks = batch_of(taught), batch_of(apart)
    heads = [
        fit_head(start, asked, steps=steps, rate=RATE, rank=RANK, seed=seed, progress=progress)
        for seed in range(HEADS)
    ]
    head = averaged(heads, KEPT)
    before, after = (
        round(100 * float(rights(ranker, checks).mean()), 1)
        for ranker in (start, replace(start, head=head))
    )
    described = {
        "questions": "; ".join(counts), "held out": "a fixed fifth by the hash of the id",
        "KG": kg, "start": UNIVERSAL, "heads": HEADS, "steps": steps,
        "rank": KEPT, "learning_rate": RATE,
        "right relation path first": {"questions": len(apart), "before": before, "after": after},
    }  # fmt: skip
    card = replace(start.card, calibrated_on=tuple(domains), extends=UNIVERSAL,
                   refuse_above=REFUSE_ABOVE, described=described)  # fmt: skip
    save_path_ranker(out, card, {HEAD: head})
    print(f"{len(apart)} questions held out: right first {before}, after {after}")
