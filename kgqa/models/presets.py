"""Cards by name, for models that carry none of their own.

``default`` is the short form for the offline model; ``gcr`` is what the published GCR checkpoints
were trained on, byte for byte: they are usable with no other prompt. ``few-shot`` is for chat
models that were trained on no paths at all: three examples say what a path looks like, and the
constraint does the rest. What a preset does not hold: how many paths to decode, which is the
method's to say.
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

# The examples are written as paths are here: a mediator collapsed in the second, two hops in the
# third. None is a question of a benchmark.
_FEW_SHOT_PROMPT = """\
A path of a knowledge graph starts at a topic entity of the question, follows relations, and ends \
at an answer. Write the path that answers the question.

Question: who composed the opera Carmen?
Topic: Carmen
Path: Carmen -> opera.opera.composer -> Georges Bizet

Question: which actors are seen in the film Metropolis?
Topic: Metropolis
Path: Metropolis -> film.film.starring..film.performance.actor -> Brigitte Helm

Question: which nationality does the inventor of the cyclotron have?
Topic: Cyclotron
Path: Cyclotron -> law.invention.inventor -> Ernest Lawrence -> people.person.nationality -> \
United States of America

Question: {question}
Topic: {topics}"""

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
    "few-shot": AdapterCard(
        prompt=_FEW_SHOT_PROMPT, reply="Path:", ask=True, score_rule="allowed", chat=True
    ),
}

PRESETS = tuple(_PRESETS)
UNTUNED = ("few-shot",)  # presets for models as they come: no adapter goes with them by itself


def preset(name: str) -> AdapterCard:
    """Return the card of a preset. Raises UsageError on a name that is none."""
    try:
        return _PRESETS[name]
    except KeyError:
        raise UsageError(
            f"There is no preset {name!r}.", f"There are: {', '.join(PRESETS)}."
        ) from None
