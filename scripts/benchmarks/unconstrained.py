"""A method beside those of `kgqa`, gcr without the constraint: how often are free paths real?

K paths by beam search over the whole vocabulary; each is then looked up, token by token, under the
constraint that it was not held to. One that is not there stays as text with no grounding, so that
it is counted and never shown as one. Answers are the paths' ends.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import torch

from kgqa.answers.answer import Findings, RankedAnswer, ScoredPath, SearchUse, Timings
from kgqa.decoding.generate import accepted
from kgqa.decoding.search import Hypothesis
from kgqa.graph.model import keys_array
from kgqa.methods.gcr import KgLlmMethod
from kgqa.methods.grounding import composed, ground_all
from kgqa.methods.options import KgLlmOptions
from kgqa.methods.resources import model_and_adapter
from kgqa.models.kg_llm import load_kg_llm
from kgqa.trie.composed import ComposedConstraint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import LinkedQuestion
    from kgqa.methods.resources import Resources

MOST_TOKENS = 96  # of a path


class Unconstrained(KgLlmMethod[KgLlmOptions]):
    """K paths written freely."""

    name = "unconstrained"
    Options = KgLlmOptions

    def __init__(
        self, options: KgLlmOptions, resources: Resources, *, general: bool = True
    ) -> None:
        """Take the model as transformers has it, with its ``generate``."""
        super().__init__(options, resources, general=general)
        settings = resources.settings
        model, adapter = model_and_adapter(
            settings, resources.store, options.model, options.adapter, options.preset
        )
        where = {"device": settings.device, "cache": settings.cache_folder}
        plain = load_kg_llm(model, adapter, progress=resources.progress, **where)
        self.kg_llm = plain.with_card(self.card)

    def answer(self, store: GraphStore, question: LinkedQuestion) -> Findings:
        """Return what the model writes, each path with its groundings if the graph holds it."""
        prompt = self.kg_llm.prompt_ids(
            question.question, [topic.name for topic in question.topics]
        )
        began = time.perf_counter()
        written = self.write(prompt)
        decoded = time.perf_counter()
        keys = [topic.key for topic in question.topics]
        constraint = ComposedConstraint(store, keys_array(keys), self.walks(store), self.lexicon)
        paths: list[ScoredPath] = []
        for text, score in written.items():
            encoded = self.lexicon.encoder.encode([self.lexicon.form.lead + text])[0]
            tokens = [*self.lexicon.opening, *encoded, self.lexicon.closing]
            ended = [
                Hypothesis(path.state, path.tokens, score)
                for path in accepted(constraint, [tokens], 0)
            ]
            grounded = ground_all(store, constraint, self.lexicon, keys, ended)[0]
            end = text.rpartition(self.lexicon.form.separator)[2].strip()
            paths += grounded or [ScoredPath(text, score, end, ())]
        answers: dict[str, RankedAnswer] = {}
        for path in paths:
            nodes = {grounding.tail.id: grounding.tail.name for grounding in path.groundings}
            for id_, name in nodes.items() or [(None, path.hypothesis)]:
                answer = RankedAnswer(id_, name, math.exp(path.score), id_ is not None)
                answers.setdefault(id_ or f"\0{name}", answer)
        return Findings(
            answers=tuple(answers.values()),
            paths=tuple(paths),
            constraints=composed(question.topics),
            kg_llm=self.use(1, len(prompt), 0),
            timings=Timings(decode=decoded - began, ground=time.perf_counter() - decoded),
            search=SearchUse("unconstrained"),
        )

    @torch.inference_mode()
    def write(self, prompt: Sequence[int]) -> dict[str, float]:
        """Return the texts of the paths that the model writes, with their log-probabilities."""
        model: Any = self.kg_llm.model
        ids = torch.tensor([[*prompt, *self.lexicon.opening]], device=self.kg_llm.device)
        k, end = self.options.k, self.lexicon.closing
        generated = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), num_beams=max(k, 2),
            num_return_sequences=k, max_new_tokens=MOST_TOKENS, do_sample=False, temperature=None,
            top_p=None, top_k=None, length_penalty=0.0, eos_token_id=end, pad_token_id=end,
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        rows = [row[ids.shape[1] :] for row in generated.sequences.tolist()]
        cut = [row[: row.index(end)] if end in row else row for row in rows]
        texts = [self.lexicon.encoder.decode(row).strip() for row in cut]
        pairs = zip(texts, generated.sequences_scores.tolist(), strict=True)
        return {text: score for text, score in reversed(list(pairs)) if text}
