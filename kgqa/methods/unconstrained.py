"""The constraint left off: the same KG-LLM after the same prompt writes what it likes.

An ablation: how often does a KG-LLM that nothing holds write paths that are there? K paths by beam
search over the whole vocabulary; each is then looked up in the graph, token by token under the
constraint that it was not held to. One that is there becomes a grounded path, checked edge by edge
as any other; one that is not stays as text with no grounding, so that it is counted and never shown
as one. Answers are the paths' ends. What it does not do: share forwards between questions.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from kgqa.answers.answer import (
    Answer,
    ConstraintUse,
    KgLlmUse,
    RankedAnswer,
    ScoredPath,
    SearchUse,
    Timings,
)
from kgqa.decoding.search import Hypothesis
from kgqa.errors import EmptyLanguageError, KgqaError, ModelError
from kgqa.graph.model import keys_array
from kgqa.graph.names import normalise
from kgqa.methods.base import one_by_one
from kgqa.methods.grounding import ground_all
from kgqa.trie.composed import ComposedConstraint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Numbered
    from kgqa.methods.gcr import Asking
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.constraint import Constraint
    from kgqa.trie.lexicon import PathLexicon

LONGEST = 96  # tokens that a path may be long


@dataclass(frozen=True, slots=True)
class Unconstrained:
    """``k`` paths written freely. A :class:`kgqa.methods.base.Method`.

    ``walks`` says which walks of a store are paths. A written path is there where it is one of
    them out of a topic entity, or out of any entity that its text begins with by name.
    """

    kg_llm: KgLLM
    lexicon: PathLexicon
    walks: Callable[[GraphStore], WalkRules]
    k: int = 10
    longest: int = LONGEST

    @property
    def name(self) -> str:
        """The method's name."""
        return "gcr"

    def rules(self, store: GraphStore) -> WalkRules:
        """Return which walks of ``store`` are paths."""
        return self.walks(store)

    def answers(self, store: GraphStore, questions: Iterable[Asking | KgqaError]) -> Numbered:
        """Yield each question's number with its answer or its error, in their order."""
        rules = self.walks(store)
        return one_by_one(questions, lambda asking: self._answer(store, asking, rules))

    def _answer(self, store: GraphStore, asking: Asking, rules: WalkRules) -> Answer:
        prompt = self.kg_llm.prompt_ids(asking.question, [topic.name for topic in asking.topics])
        began = time.perf_counter()
        written = self._written(prompt)
        decoded = time.perf_counter()
        paths = found_again(store, asking, written, rules, self.lexicon)
        return Answer(
            question=asking.question,
            method=self.name,
            topic_entities=asking.topics,
            answers=tuple(ends(paths)),
            paths=tuple(paths),
            constraints=tuple(ConstraintUse(one.id, "composed", None) for one in asking.topics),
            kg_llm=KgLlmUse(
                model=self.kg_llm.name,
                adapter=self.kg_llm.adapter,
                calls=1,
                prompt_tokens=len(prompt),
                generated_tokens=sum(len(one.tokens) for one in written),
            ),
            general_llm=None,
            timings=Timings(
                link=asking.link_seconds,
                decode=decoded - began,
                ground=time.perf_counter() - decoded,
            ),
            forwards=1 + max((len(one.tokens) for one in written), default=0),
            notes=tuple(
                f"The KG-LLM wrote a path that the graph does not hold: {path.text}"
                for path in paths
                if not path.groundings
            ),
            search=SearchUse("unconstrained"),
        )

    @torch.inference_mode()
    def _written(self, prompt: Sequence[int]) -> list[Written]:
        """Return what the model writes after ``prompt``, the most probable first."""
        model: Any = self.kg_llm.model
        closing = self.lexicon.closing
        opening = self.lexicon.opening
        ids = torch.tensor([[*prompt, *opening]], device=self.kg_llm.device)
        try:
            found = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                num_beams=self.k,
                num_return_sequences=self.k,
                max_new_tokens=self.longest,
                do_sample=False,
                temperature=None,
                top_p=None,
                top_k=None,
                # a sum of log-probabilities, as under the constraint; one beam has no use for it
                length_penalty=0.0 if self.k > 1 else None,
                eos_token_id=closing,
                pad_token_id=closing,
                return_dict_in_generate=True,
                output_scores=True,
            )
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"Memory ran out while {self.kg_llm.name} wrote {self.k} paths.", "Use a lower --k."
            ) from error
        if self.k > 1:
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
            texts.append(Written(text, (*opening, *tokens, closing), score))
        return texts


@dataclass(frozen=True, slots=True)
class Written:
    """A path as a model wrote it: its text, its tokens with both markers, its log-probability."""

    text: str
    tokens: tuple[int, ...]
    score: float


def found_again(
    store: GraphStore,
    asking: Asking,
    written: Sequence[Written],
    rules: WalkRules,
    lexicon: PathLexicon,
) -> list[ScoredPath]:
    """Return the written paths; one that the graph holds with its groundings, checked by id.

    Each text stands once, where it is first. Raises GraphError.
    """
    topics = [topic.key for topic in asking.topics]
    constraints: dict[tuple[int, ...], Constraint | None] = {}
    paths: dict[str, ScoredPath] = {}
    for one in written:
        if not one.text or one.text in paths:
            continue
        head = one.text.split(lexicon.form.separator)[0]
        keys = tuple(sorted({*topics, *_named(store, head)}))
        if keys not in constraints:
            constraints[keys] = _constraint(store, keys, rules, lexicon)
        constraint = constraints[keys]
        tail = one.text.split(lexicon.form.separator)[-1].strip()
        paths[one.text] = ScoredPath(one.text, one.score, tail, ())
        if constraint is None:
            continue
        again = tuple(lexicon.encoder.encode([lexicon.form.lead + one.text])[0])
        for tokens in dict.fromkeys([one.tokens, (*lexicon.opening, *again, lexicon.closing)]):
            state = _followed(constraint, tokens)
            if state is not None:
                found, _ = ground_all(
                    store, constraint, lexicon, [Hypothesis(state, tokens, one.score)]
                )
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
    """Return the keys of the entities of exactly that name."""
    form = normalise(name)
    if not form:
        return []
    keys = store.find_names([form])[1]
    found = store.entities(keys)
    return [key for key, own in zip(keys.tolist(), found.names, strict=True) if own == name.strip()]


def _constraint(
    store: GraphStore, keys: Sequence[int], rules: WalkRules, lexicon: PathLexicon
) -> Constraint | None:
    """Return the constraint of all paths out of ``keys``, None where there is no path."""
    try:
        return ComposedConstraint(store, keys_array(list(keys)), rules, lexicon)
    except EmptyLanguageError:
        return None


def _followed(constraint: Constraint, tokens: Sequence[int]) -> int | None:
    """Return the end state that ``tokens`` lead to, None where the language does not hold them."""
    state = constraint.start()
    for token in tokens:
        moves = constraint.expand([state])
        led = moves.state[moves.token == token].tolist()
        if not led:
            return None
        state = led[0]
    return state if constraint.is_end([state])[0] else None
