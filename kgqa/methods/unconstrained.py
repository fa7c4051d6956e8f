"""The constraint left off, to see how often a KG-LLM alone writes paths that are there.

K paths by beam search over the whole vocabulary; each is then looked up in the graph, token by
token under the constraint that it was not held to. One that is not there stays as text with no
grounding, so that it is counted and never shown as one. Answers are the paths' ends.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from kgqa.answers.answer import (
    Findings,
    RankedAnswer,
    ScoredPath,
    SearchUse,
    Timings,
)
from kgqa.decoding.search import Hypothesis
from kgqa.errors import EmptyLanguageError, ModelError
from kgqa.graph.model import keys_array
from kgqa.graph.names import normalise
from kgqa.methods.gcr import KgLlmMethod
from kgqa.methods.grounding import composed, ground_all
from kgqa.methods.options import UnconstrainedOptions
from kgqa.trie.composed import ComposedConstraint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import LinkedQuestion
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.constraint import Constraint
    from kgqa.trie.lexicon import PathLexicon


class Unconstrained(KgLlmMethod[UnconstrainedOptions]):
    """K paths written freely.

    A written path is there if it is a path out of a topic entity, or out of any entity that its
    text begins with by name.
    """

    name = "unconstrained"
    Options = UnconstrainedOptions
    generates = True

    def own_settings(self) -> dict[str, Any]:
        """Return the model, and that scores are over the whole vocabulary."""
        return {**super().own_settings(), "score_rule": "vocabulary"}

    def answer(self, store: GraphStore, question: LinkedQuestion) -> Findings:
        """Return what the model writes, each path with its groundings if the graph holds it."""
        names = [topic.name for topic in question.topics]
        prompt = self.kg_llm.prompt_ids(question.question, names)
        began = time.perf_counter()
        written = self._free_paths(prompt)
        decoded = time.perf_counter()
        topics = [topic.key for topic in question.topics]
        paths = found_again(store, topics, written, self.walks(store), self.lexicon)
        lengths = [len(one.tokens) for one in written]
        return Findings(
            answers=tuple(ends(paths)),
            paths=tuple(paths),
            constraints=composed(question.topics),
            kg_llm=self.use(1, len(prompt), sum(lengths)),
            timings=Timings(decode=decoded - began, ground=time.perf_counter() - decoded),
            forward_passes=1 + max(lengths, default=0),
            notes=tuple(
                f"The KG-LLM wrote a path that the graph does not hold: {path.text}"
                for path in paths
                if not path.groundings
            ),
            search=SearchUse("unconstrained"),
        )

    @torch.inference_mode()
    def _free_paths(self, prompt: Sequence[int]) -> list[FreePath]:
        model: Any = self.kg_llm.model
        k, closing, opening = self.options.k, self.lexicon.closing, self.lexicon.opening
        ids = torch.tensor([[*prompt, *opening]], device=self.kg_llm.device)
        try:
            found = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                num_beams=k,
                num_return_sequences=k,
                max_new_tokens=self.options.path_tokens,
                do_sample=False,
                temperature=None,
                top_p=None,
                top_k=None,
                # a sum of log-probabilities, as under the constraint; one beam has no use for it
                length_penalty=0.0 if k > 1 else None,
                eos_token_id=closing,
                pad_token_id=closing,
                return_dict_in_generate=True,
                output_scores=True,
            )
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"Memory ran out while {self.kg_llm.name} wrote {k} paths.", "Use a lower `k`."
            ) from error
        if k > 1:
            scores = found.sequences_scores.tolist()
        else:  # of one beam nothing but the logits of its steps is given
            steps = model.compute_transition_scores(
                found.sequences, found.scores, normalize_logits=True
            )
            scores = [float(steps.sum())]
        texts = []
        for row, score in zip(found.sequences.tolist(), scores, strict=True):
            tokens = row[ids.shape[1] :]
            if closing in tokens:
                tokens = tokens[: tokens.index(closing)]
            text = self.lexicon.encoder.decode(tokens).strip()
            texts.append(FreePath(text, (*opening, *tokens, closing), score))
        return texts


class FreePath(NamedTuple):
    """A path as a model wrote it: its text, its tokens with both markers, its log-probability."""

    text: str
    tokens: tuple[int, ...]
    score: float


def found_again(
    store: GraphStore,
    topics: Sequence[int],
    written: Sequence[FreePath],
    rules: WalkRules,
    lexicon: PathLexicon,
) -> list[ScoredPath]:
    """Return the written paths; one that the graph holds with its groundings, checked by id.

    ``topics``: keys of the topic entities. Each text stands once, at its first place. Raises
    GraphError.
    """
    constraints: dict[tuple[int, ...], Constraint | None] = {}
    paths: dict[str, ScoredPath] = {}
    for one in written:
        if not one.text or one.text in paths:
            continue
        parts = one.text.split(lexicon.form.separator)
        keys = tuple(sorted({*topics, *_named(store, parts[0])}))
        if keys not in constraints:
            constraints[keys] = None
            with suppress(EmptyLanguageError):
                constraints[keys] = ComposedConstraint(store, keys_array(keys), rules, lexicon)
        constraint = constraints[keys]
        paths[one.text] = ScoredPath(one.text, one.score, parts[-1].strip(), ())
        if constraint is None:
            continue
        again = tuple(lexicon.encoder.encode([lexicon.form.lead + one.text])[0])
        for tokens in dict.fromkeys([one.tokens, (*lexicon.opening, *again, lexicon.closing)]):
            state = _followed(constraint, tokens)
            if state is not None:
                hypothesis = Hypothesis(state, tokens, one.score)
                found, _ = ground_all(store, constraint, lexicon, keys, [hypothesis])
                if found:
                    paths[one.text] = found[0]
                break
    return list(paths.values())


def ends(paths: Sequence[ScoredPath]) -> list[RankedAnswer]:
    """Return the ends of ``paths``, ranked by the probability that leads to them.

    The end of a path that the graph does not hold is a name without an id, and is not grounded.
    """
    top = max((path.score for path in paths), default=0.0)
    weight: dict[str, float] = {}
    shown: dict[str, tuple[str | None, str]] = {}
    for path in paths:
        nodes = {one.tail.id: one.tail.name for one in path.groundings}
        meant: list[tuple[str | None, str]] = list(nodes.items()) or [(None, path.hypothesis)]
        for id_, name in meant:
            if not name:
                continue
            key = f"\0{normalise(name)}" if id_ is None else id_
            weight[key] = weight.get(key, 0.0) + math.exp(path.score - top)
            shown.setdefault(key, (id_, name))
    total = sum(weight.values())
    ranked = sorted(weight, key=lambda key: (-weight[key], shown[key][1], key))
    return [
        RankedAnswer(*shown[key], weight[key] / total, shown[key][0] is not None) for key in ranked
    ]


def _named(store: GraphStore, name: str) -> list[int]:
    form = normalise(name)
    if not form:
        return []
    keys = store.find_names([form])[1]
    found = store.entities(keys)
    return [key for key, own in zip(keys.tolist(), found.names, strict=True) if own == name.strip()]


def _followed(constraint: Constraint, tokens: Sequence[int]) -> int | None:
    state = constraint.start()
    for token in tokens:
        moves = constraint.expand([state])
        led = moves.state[moves.token == token].tolist()
        if not led:
            return None
        state = led[0]
    return state if constraint.is_end([state])[0] else None
