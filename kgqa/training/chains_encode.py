"""Chains as token ids with labels: exactly what decoding on graphs can write after its prompt.

Free text is encoded as text and ends in the opening marker's own tokens; a triplet is the joined
tokens of its parts, as the constraint writes it, and the closing marker's. The loss is on the chain
alone. What this does not do: batches (``encode``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.methods.dog.chains import BETWEEN, OPENING, SPAN_TOKENS, TOKENS, markers_of

if TYPE_CHECKING:
    from kgqa.decoding.marked import Markers
    from kgqa.models.kg_llm import KgLLM
    from kgqa.models.tokenizer import HFEncoder
    from kgqa.training.chains import ChainExample
    from kgqa.trie.lexicon import PathLexicon


def encode_chain(
    kg_llm: KgLLM, lexicon: PathLexicon, example: ChainExample, max_tokens: int
) -> tuple[list[int], list[int]] | None:
    """Return the token ids of the prompt and of the chain after it.

    Triplets of the prompt's graph that the chain does not need are left out from the end until both
    fit into ``max_tokens``. None where they do not fit without any, or where the chain is longer
    than decoding writes. Raises MarkerMissingError where the tokenizer has nothing for a marker.
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
            return prompt, chain
        spare = [at for at, text in enumerate(graph) if text not in needed]
        if not spare:
            return None
        # as many as are over; joined, texts may be a token more or less than alone
        while spare and over > 0:
            at = spare.pop()
            over -= max(1, sizes.pop(at))
            graph.pop(at)


def chain_tokens(
    encoder: HFEncoder, lexicon: PathLexicon, example: ChainExample
) -> list[int] | None:
    """Return the token ids of the chain to its end; None where decoding could not write it.

    Raises MarkerMissingError where the tokenizer has nothing for a marker.
    """
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
