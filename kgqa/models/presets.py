"""Cards by name, for models that carry none of their own.

``default`` is the short form for the offline model; ``gcr`` is what the published GCR checkpoints
were trained on, byte for byte. ``few-shot`` and ``dog`` (arXiv 2410.18415) are for chat models that
were trained on no paths at all: examples say what a path, or a chain of thoughts and triplets,
looks like. ``dog-short`` is for models that are trained on chains. ``kg-cot`` names that method's
published settings, which are its defaults: a reasoner has no prompt.
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

# Plain facts, the questions invented. The examples show what a chain may do: go on from a triplet's
# tail, take a triplet whose tail is known, take a collapsed mediator, give several answers.
_DOG_PROMPT = """\
Answer the question with facts of a graph. The graph is a list of triplets, head -> relation -> \
tail, with | between them. Think in short sentences. Whenever you use a fact, write its triplet \
between < and >, word for word as it stands in the graph. Each triplet holds an entity of the \
question or of a triplet before it. End with: Therefore, the answer is * X. Several answers are \
written: Therefore, the answer is * X, and * Y.

Graph: Fidelio -> opera.opera.composer -> Ludwig van Beethoven | Ludwig van Beethoven -> \
people.person.place_of_birth -> Bonn | Fidelio -> opera.opera.language -> German Language | \
Ludwig van Beethoven -> people.deceased_person.place_of_death -> Vienna
Question: In which town was the composer of Fidelio born?
Entities: Fidelio
Answer: First I look for the composer of Fidelio. < Fidelio -> opera.opera.composer -> Ludwig van \
Beethoven > Then I look where Ludwig van Beethoven was born. < Ludwig van Beethoven -> \
people.person.place_of_birth -> Bonn > Therefore, the answer is * Bonn.

Graph: Inn -> geography.river.mouth -> Danube | Danube -> geography.river.mouth -> Black Sea | \
Sava -> geography.river.mouth -> Danube | Inn -> geography.river.origin -> Switzerland
Question: Which rivers flow into the Danube?
Entities: Danube
Answer: I look for rivers whose mouth is the Danube. < Inn -> geography.river.mouth -> Danube > \
There is another one. < Sava -> geography.river.mouth -> Danube > Therefore, the answer is * Inn, \
and * Sava.

Graph: Pierre Curie -> people.person.nationality -> France | Pierre Curie -> \
people.person.spouse_s..people.marriage.spouse -> Marie Curie | Marie Curie -> \
people.person.place_of_birth -> Warsaw | Marie Curie -> people.person.profession -> Chemist
Question: Where was the wife of Pierre Curie born?
Entities: Pierre Curie
Answer: First I look for the wife of Pierre Curie. < Pierre Curie -> \
people.person.spouse_s..people.marriage.spouse -> Marie Curie > Then I look where Marie Curie was \
born. < Marie Curie -> people.person.place_of_birth -> Warsaw > Therefore, the answer is * Warsaw.

Graph: {graph}
Question: {question}
Entities: {topics}"""

# A model that has learnt what a chain is needs no examples of it: its prompt is half as long.
_DOG_SHORT_PROMPT = "Graph: {graph}\nQuestion: {question}\nEntities: {topics}\nAnswer:"

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
        mediators="keep",
        score_rule="vocabulary",
        chat=True,
    ),
    "few-shot": AdapterCard(prompt=_FEW_SHOT_PROMPT, reply="Path:", ask=True, chat=True),
    "dog": AdapterCard(prompt=_DOG_PROMPT, reply="Answer:", ask=True, chat=True),
    "dog-short": AdapterCard(prompt=_DOG_SHORT_PROMPT),
    "kg-cot": AdapterCard(),
}

PRESETS = tuple(_PRESETS)
UNTUNED = ("few-shot", "dog", "dog-short")  # no adapter goes with them by itself


def preset(name: str) -> AdapterCard:
    """Return the card of a preset. Raises UsageError for an unknown name."""
    try:
        return _PRESETS[name]
    except KeyError:
        raise UsageError(
            f"There is no preset {name!r}.", f"There are: {', '.join(PRESETS)}."
        ) from None
