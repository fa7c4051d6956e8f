"""From question and topic entities to the prompt's token ids.

What the card and the chat template say is trusted and may hold special tokens; what a user or a
graph says is not, and never becomes one: ``<|im_end|>`` in a question is the ten characters that it
is written with. Where the untrusted parts spell no special token, the ids are those of the whole
text in one go, byte for byte what the model was trained on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kgqa.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerBase

    from kgqa.models.adapter import AdapterCard
    from kgqa.models.tokenizer import PartEncoder

# Stand-ins for the untrusted parts while the chat template is rendered: private-use characters that
# no template trims, escapes or looks for.
_QUESTION = "\ue000\ue001"
_TOPICS = "\ue000\ue002"
_GRAPH = "\ue000\ue003"
GRAPH = "{graph}"  # the place of facts of the graph in a card's prompt


class Piece(NamedTuple):
    """A part of a prompt; untrusted parts come from a user or a graph."""

    text: str
    trusted: bool


def prompt_pieces(
    card: AdapterCard,
    tokenizer: PreTrainedTokenizerBase,
    question: str,
    topics: Sequence[str],
    graph: str = "",
) -> list[Piece]:
    """Return the prompt as pieces, each marked trusted or not; joined they are its text.

    ``graph``: what stands where the card's prompt has ``{graph}``.

    Raises ModelError if the card wants a chat template that the tokenizer lacks, or that leaves the
    question or the topic entities out.
    """
    question = question.strip()
    if card.ask and not question.endswith("?"):
        question += "?"
    user = {_QUESTION: question, _TOPICS: card.topic_separator.join(topics), _GRAPH: graph}
    text = card.prompt.replace("{question}", _QUESTION).replace("{topics}", _TOPICS)
    text = text.replace(GRAPH, _GRAPH)
    if card.chat:
        text = _through_template(tokenizer, text)
    text += card.reply
    parts = re.split(f"({_QUESTION}|{_TOPICS}|{_GRAPH})", text)
    pieces = [Piece(user.get(part, part), part not in user) for part in parts]
    return [piece for piece in pieces if piece.text]


def encode_prompt(
    pieces: Sequence[Piece],
    tokenizer: PreTrainedTokenizerBase,
    encoder: PartEncoder,
    *,
    chat: bool,
) -> list[int]:
    """Return the token ids of a prompt.

    A chat template writes its own first token; a plain prompt gets the special tokens that the
    tokenizer puts before every text (nothing for SmolLM2, ``<s>`` for Llama).
    """
    specials = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    untrusted = [piece.text for piece in pieces if not piece.trusted]
    first = [] if chat else leading_ids(tokenizer)
    # the usual case in one go: tokens across the borders of parts are those of the training
    if not any(special in text for text in untrusted for special in specials):
        return first + _trusted_ids(tokenizer, "".join(piece.text for piece in pieces))
    ids = [*first]
    for place, piece in enumerate(pieces):
        if not piece.trusted:
            ids += encoder.encode([piece.text])[0]
            continue
        # a part that follows other text is encoded without a SentencePiece space before it
        before = (encoder.anchor or "") if place else ""
        ids += _trusted_ids(tokenizer, before + piece.text)[len(_trusted_ids(tokenizer, before)) :]
    return ids


def lead_to_answer(card: AdapterCard, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the token ids between a path's end marker and the answer.

    [] for a card without one.
    """
    if not card.answer:
        return []
    both = _trusted_ids(tokenizer, card.end + card.answer)
    return both[len(_trusted_ids(tokenizer, card.end)) :]


def leading_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the special tokens that the tokenizer puts before every text, [] for none."""
    bare = _trusted_ids(tokenizer, "a")
    whole: list[int] = tokenizer("a", add_special_tokens=True)["input_ids"]
    for at in range(len(whole) - len(bare) + 1):
        if whole[at : at + len(bare)] == bare:
            return whole[:at]
    return []


def _trusted_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return the token ids of a text in which special tokens are recognised."""
    ids: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=False)[
        "input_ids"
    ]
    return ids


def _through_template(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    """Return a user turn rendered by the chat template. Raises ModelError."""
    if not tokenizer.chat_template:
        raise ModelError(
            f"The tokenizer of {tokenizer.name_or_path} has no chat template, but the prompt is "
            "made for one.",
            "Use an instruction-tuned model, or an adapter or preset without chat.",
        )
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
    )
    if not isinstance(rendered, str) or any(
        rendered.count(part) != text.count(part) for part in (_QUESTION, _TOPICS, _GRAPH)
    ):
        raise ModelError(
            f"The chat template of {tokenizer.name_or_path} does not write the user turn as it is."
        )
    return rendered
