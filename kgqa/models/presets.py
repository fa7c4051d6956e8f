"""Cards by name, for models that carry none of their own.

``default`` is the short form for the offline model; ``gcr`` is what the published GCR checkpoints
were trained on, byte for byte: they are usable with no other prompt. What a preset does not hold:
how many paths to decode, which is the method's to say.
"""

from __future__ import annotations

from kgqa.errors import UsageError
from kgqa.models.adapter import AdapterCard

_GCR_PROMPT = (
    "Reasoning path is a sequence of triples in the KG that connects the topic entities in the "
    "question to answer entities. Given a question, please generate some reasoning paths in the "
    "KG starting from the topic entities to answer the question."
    "\n\n# Question: \n{question}\n# Topic entities: \n{topics}\n"
)

_PRESETS = {
    "default": AdapterCard(),
    "gcr": AdapterCard(
        prompt=_GCR_PROMPT,
        reply="# Reasoning Path:\n",
        topic_separator=",",
        ask=True,
        start="<PATH>",
        end="</PATH>",
        answer="\n# Answer:\n",
        direction="out",
        mediators="keep",
        hops=2,
        score_rule="vocabulary",
        chat=True,
    ),
}

PRESETS = tuple(_PRESETS)


def preset(name: str) -> AdapterCard:
    """Return the card of a preset. Raises UsageError on a name that is none."""
    try:
        return _PRESETS[name]
    except KeyError:
        raise UsageError(
            f"There is no preset {name!r}.", f"There are: {', '.join(PRESETS)}."
        ) from None
