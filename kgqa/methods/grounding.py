"""From topic entities to the constraint of their paths, and from decoded paths back to the graph.

The constraint is that of the index if it serves, else one composed on the fly: both accept the same
language. A decoded path is shown only if the store has each of its edges, by id.

Probabilities that are renormalised over what the constraint allows cannot say that the model
prefers something else: asked of the wrong entity, it is as sure of the least wrong path. The part
of its whole probability that the allowed tokens had can. It is taken at the tokens of relations
alone: a model cannot know which names a graph has.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

import torch

from kgqa.answers.answer import ConstraintUse, ScoredPath
from kgqa.decoding.span_markers import FreeText, Markers, SpanOptions
from kgqa.decoding.spans import Chain, TextForward, Writer
from kgqa.errors import ModelError, ShardDamagedError
from kgqa.graph.model import keys_array
from kgqa.models.prompt import lead_to_answer
from kgqa.paths.ground import ground_each
from kgqa.trie.composed import ComposedConstraint
from kgqa.trie.index.constraint import LARGE, MarisaConstraint
from kgqa.trie.stored import stored_constraint

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kgqa.answers.answer import TopicEntity
    from kgqa.decoding.engine import DecodingPlan
    from kgqa.decoding.search import Hypothesis
    from kgqa.graph.store import GraphStore
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.constraint import Constraint
    from kgqa.trie.index.reader import TrieIndex
    from kgqa.trie.index.shard import StoredTrie
    from kgqa.trie.lexicon import PathLexicon

MOST_TOKENS = 48  # of an answer: longer than any name that is worth reading
_TOGETHER = 32  # paths that are continued in one forward pass


class ChosenConstraint(NamedTuple):
    """A constraint, how it was built for each topic entity, and notes for the user."""

    constraint: Constraint
    uses: tuple[ConstraintUse, ...]
    notes: tuple[str, ...]


def choose_constraint(
    store: GraphStore,
    topics: Sequence[TopicEntity],
    rules: WalkRules,
    lexicon: PathLexicon,
    index: TrieIndex | None,
) -> ChosenConstraint:
    """Return the constraint that allows exactly the paths out of ``topics``.

    ``index`` fits the KG, the tokenizer, the format and the rules, or is None. Raises
    EmptyLanguageError if no topic entity has a path.
    """
    notes: list[str] = []
    served = None if index is None else _of_index(topics, index, notes)
    if index is None or served is None:
        keys = keys_array([topic.key for topic in topics])
        graph = ComposedConstraint(store, keys, rules, lexicon)
        return ChosenConstraint(graph, composed(topics), tuple(notes))
    constraint, stored = served
    uses = tuple(
        ConstraintUse(topic.id, "shard", trie.paths)
        for topic, trie in zip(topics, stored, strict=True)
    )
    return ChosenConstraint(constraint, uses, tuple(notes))


def composed(topics: Sequence[TopicEntity]) -> tuple[ConstraintUse, ...]:
    """Return the record that each topic's constraint was composed on the fly."""
    return tuple(ConstraintUse(topic.id, "composed", None) for topic in topics)


def _of_index(
    topics: Sequence[TopicEntity], index: TrieIndex, notes: list[str]
) -> tuple[Constraint, list[StoredTrie]] | None:
    """Return the constraint of the topics' stored tries, and the tries.

    None if the index lacks one, or a shard is damaged, with a message in ``notes``; also if they
    have no path. Small tries become arrays; large ones are decoded as they are stored.
    """
    stored = []
    try:
        for topic in topics:
            trie = index.look_up(topic.id, topic.key)
            if trie is None:
                if not index.is_composed(topic.id):
                    notes.append(
                        f"The index has no trie of {topic.name} ({topic.id}); answering on the "
                        "fly. Add it: kgqa precompute-tries"
                    )
                return None
            stored.append(trie)
        paths = sum(trie.paths for trie in stored)
        if not paths:  # composing takes no time, and it names what is missing
            return None
        if paths >= LARGE:
            key = index.manifest.key
            return MarisaConstraint(stored, key.hops, index.manifest.closing), stored
        return stored_constraint([(trie.sequences, trie.table) for trie in stored]), stored
    except ShardDamagedError as error:
        notes.append(f"{error} Answering on the fly.")
        return None


def ground_all(
    store: GraphStore,
    constraint: Constraint,
    lexicon: PathLexicon,
    topics: Collection[int],
    hypotheses: Sequence[Hypothesis],
    written: Sequence[str] = (),
    covered: Sequence[Sequence[float]] = (),
) -> tuple[list[ScoredPath], list[str]]:
    """Return the decoded hypotheses as verified paths, and messages about refused ones.

    ``topics``: keys of the topic entities. ``written``: the answer that the model wrote after each
    hypothesis, if it writes any; a blank one is replaced by the path's last entity. ``covered``:
    the log-coverage at each token, if measured. A path is accepted only if it starts at a topic
    entity, its ids are in the store *and* its tokens are those of its ids: an index that
    contradicts the graph is detected here.
    """
    paths: list[ScoredPath] = []
    notes: list[str] = []
    tables = [constraint.ground(hypothesis.state) for hypothesis in hypotheses]
    every = ground_each(store, tables, lexicon.form)
    for number, (hypothesis, table, grounded) in enumerate(
        zip(hypotheses, tables, every, strict=True)
    ):
        good, parts_of_best = [], None
        for path, topic in zip(grounded, table.topic.tolist(), strict=True):
            if path is None or topic not in topics:
                continue
            hops = [(edge.relation, edge.tail.name) for edge in path.edges]
            parts = lexicon.parts(path.head.name, hops)
            if tuple(token for part in parts for token in part) == hypothesis.tokens:
                good.append(path)
                parts_of_best = parts_of_best or parts
        if len(good) < len(grounded) or not good:
            text = lexicon.encoder.decode(hypothesis.tokens[:-1]).strip()
            notes.append(f"A path that the graph does not hold was left out: {text}")
        if parts_of_best:
            best = good[0]
            coverage, lost = None, 0.0
            if covered and covered[number]:
                coverage, lost = evidence_of(parts_of_best, len(lexicon.link), covered[number])
            answer = (written[number] if written else "") or best.tail.name
            score = hypothesis.log_probability
            paths.append(ScoredPath(best.text, score, answer, tuple(good), coverage, lost))
    return paths, notes


def evidence_of(
    parts: Sequence[Sequence[int]], link: int, covered: Sequence[float]
) -> tuple[float, float]:
    """Return the coverage of a path's relations by the graph, and the log-weight lost by it.

    ``parts``: the path's tokens from :meth:`kgqa.trie.lexicon.PathLexicon.parts`; ``link``: the
    number of tokens of the separator on each side of a relation; ``covered``: the log-probability
    that the model gave to allowed tokens, at each token of the path
    (:class:`kgqa.decoding.engine.DecodingOutcome`).

    The coverage, in 0..1, is the geometric mean of that probability over the tokens of relations,
    so that long relations do not appear improbable.

    The lost weight, at most 0, is the sum of ``covered`` at the tokens of relations, their
    separators and the closing token: the logarithm of what renormalising over the graph took from
    the words that the model preferred. If an entity has one relation, its renormalised probability
    is 1 however little the question asks for it (label bias: Lafferty et al. 2001, sec. 2); added
    to the score, the lost weight undoes it.
    """
    opening, head, *hops, _ = map(len, parts)
    at = opening + head
    own: list[float] = []
    around: list[float] = []
    for relation, tail in zip(hops[::2], hops[1::2], strict=True):  # a relation with its links
        start, end = at + link, at + relation - link
        own += covered[start:end]
        around += [*covered[at:start], *covered[end : at + relation]]
        at += relation + tail
    coverage = math.exp(min(0.0, math.fsum(own) / max(1, len(own))))
    return coverage, min(0.0, math.fsum([*own, *around, covered[-1]]))


class Hypotheses(NamedTuple):
    """The answers that the model wrote after each path, stripped, with their cost.

    ``tokens``: number of tokens written; ``forward_passes`` and ``seconds``: the cost.
    """

    texts: tuple[str, ...]
    tokens: int
    forward_passes: int
    seconds: float


def write_hypotheses(
    kg_llm: KgLLM,
    plan: DecodingPlan,
    prompt: Sequence[int],
    paths: Sequence[Sequence[int]],
    most_tokens: int = MOST_TOKENS,
) -> Hypotheses:
    """Let the model write greedily after each of ``paths``, and return the texts.

    ``prompt`` and ``paths`` are token ids; a path has its closing marker. All share the cache of
    the prompt. Raises ModelError if the model gives no numbers, or memory runs out for one path.
    """
    began = time.perf_counter()
    lead = lead_to_answer(kg_llm.card, kg_llm.tokenizer)
    longest = len(prompt) + max(map(len, paths), default=0) + len(lead) + most_tokens
    trees = plan.way == "tree" and (plan.limit is None or longest <= plan.limit)
    forward = TextForward(kg_llm.model, trees=trees)
    after = [[*path, *lead] for path in paths]
    texts: list[str] = []
    tokens = 0
    width = _TOGETHER
    while len(texts) < len(after):
        some = after[len(texts) : len(texts) + width]
        try:
            written = _written(kg_llm, forward, prompt, some, most_tokens)
        except torch.OutOfMemoryError as error:
            if width == 1:
                raise ModelError(
                    "Memory ran out when the model was to write its answer after a path.",
                    "Use a smaller or quantized model, or another `device`.",
                ) from error
            width = max(1, min(width, len(some)) // 2)
            forward = TextForward(kg_llm.model, trees=trees)
            continue
        texts += [text for text, _ in written]
        tokens += sum(count for _, count in written)
    return Hypotheses(tuple(texts), tokens, forward.forward_passes, time.perf_counter() - began)


def _written(
    kg_llm: KgLLM,
    forward: TextForward,
    prompt: Sequence[int],
    paths: Sequence[Sequence[int]],
    most_tokens: int,
) -> list[tuple[str, int]]:
    """Return for each of ``paths`` the text written after it, and its number of tokens."""
    closing = kg_llm.encoder.marker_id(kg_llm.card.end)
    assert closing is not None  # a constraint without it would not have been made
    options = SpanOptions(
        Markers(((closing,),)),  # with no span allowed: it is never written
        end_tokens=end_tokens(kg_llm) - {closing},
        tokens=most_tokens,
        stop=("\n",),
    )
    writer = Writer(forward, kg_llm.encoder.decode, lambda _: None, options)
    base = forward.text(prompt)
    if forward.tree is not None:  # its cache is shared by all that follow
        (base,), _ = forward.following([base])
    texts = [base.extended(path) for path in paths]
    done = writer.free([Chain(text, len(text.tokens)) for text in texts])
    writer.keep([])
    counted = []
    for chain in done:
        text, count = "", 0
        for piece in chain.pieces:
            assert isinstance(piece, FreeText)
            count += len(piece.tokens)
            last = piece.tokens[-1:] if chain.stop == "end token" else ()
            text += piece.text.removesuffix(kg_llm.encoder.decode(last)) if last else piece.text
        counted.append((text.strip(), count))
    return counted


def end_tokens(kg_llm: KgLLM) -> frozenset[int]:
    """Return the tokens that end a text: all special tokens, end of sequence included."""
    known = kg_llm.tokenizer.added_tokens_decoder.items()
    return frozenset({number for number, token in known if token.special}) | {kg_llm.encoder.eos_id}
