"""Fitting the adapter with which the KG-LLM writes plans: rows of a prompt and a plan's text."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from kgqa.cli.terminal import TerminalProgress
from kgqa.config import Settings
from kgqa.methods.query_words import stem
from kgqa.methods.query_writer import CARD, described, nearest
from kgqa.models.kg_llm import NO_ADAPTER, load_kg_llm
from kgqa.paths.format import PathFormat
from kgqa.queries.check import SchemaIndex, check
from kgqa.queries.language import PlanLanguage
from kgqa.training.fit import IGNORED
from kgqa.training.fit import train as fit
from kgqa.training.options import TrainingSettings
from scripts.planner.examples import (
    ASIDE,
    collection,
    exchanged,
    nouns_of,
    schema_of,
    taught_domains,
)
from scripts.planner.gold import schema_relations
from scripts.planner.written import (
    literals_of,
    made_plan,
    parts_of,
    plan_of,
    renamed_words,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.graph.schema import GraphSchema
    from kgqa.models.kg_llm import KgLLM
    from kgqa.queries.plan import Plan
    from kgqa.training.fit import Row

_CHECKED, _BATCH = 96, 8
_LONGEST = 190  # tokens of a prompt with its plan
_EXCHANGED = 0.5  # part of the questions whose schema is called otherwise
_MADE = 0.25  # part of the questions that are of invented domains


class Asked(NamedTuple):
    """A question with its plan over a schema."""

    schema: GraphSchema
    question: str
    plan: Plan


def row_of(asked: Asked, kg_llm: KgLLM, random: Random, nouns: Sequence[str] = ()) -> Row | None:
    """Return a question as it is learnt, None if the language of plans over its schema lacks it.

    With ``nouns``, words of the schema are exchanged for some, in the question as in the plan.
    """
    schema, question, plan = asked
    try:
        check(plan, SchemaIndex(schema))
    except ValueError:
        return None
    words = {stem(word) for word in question.lower().replace("?", "").split()}
    literals = literals_of(question, plan, schema, random)
    shown = nearest(
        schema,
        lambda texts: [
            len(words & {stem(word) for word in text.split()}) + random.gauss(0, 0.5)
            for text in texts
        ],
        {*parts_of(plan), *(owned for owned in literals.texts if owned[1])},
    )
    parts = written(PlanLanguage(shown, literals), str(plan))
    if parts is None:
        return None
    renamed = renamed_words(random, schema, nouns) if nouns else {}
    lines = [exchanged(line, renamed) for line in described(shown, literals.texts)]
    prompt = kg_llm.prompt_ids(exchanged(question, renamed), lines)
    parts = [exchanged(part, renamed) for part in parts]
    written_ = [token for ids in kg_llm.encoder.encode(parts) for token in ids]
    ids = [*prompt, *written_, kg_llm.encoder.eos_id]
    labels = [IGNORED] * len(prompt) + ids[len(prompt) :]
    return {"input_ids": ids, "labels": labels} if len(ids) <= _LONGEST else None


def rows(data: Path, kg_llm: KgLLM, count: int) -> tuple[list[Row], list[Row]]:
    """Return so many rows to learn, and those of the databases left out."""
    random = Random(1)
    schemas, questions = collection(data)
    graphs = {name: schema_of(schema) for name, schema in schemas.items()}
    learnt: list[Asked] = []
    aside: list[Asked] = []
    for asked_of in questions:
        name = asked_of["database"]
        plan = plan_of(asked_of["cypher"], schema_relations(schemas[name]))
        if plan is not None:
            group = aside if name in ASIDE else learnt
            group.append(Asked(graphs[name], asked_of["question"], plan))
    domains = taught_domains()
    nouns = nouns_of(domains)
    random.shuffle(aside)
    held_out = (row_of(asked, kg_llm, random) for asked in aside)
    held = list(islice((row for row in held_out if row is not None), _CHECKED))
    made: list[Row] = []
    while True:
        random.shuffle(learnt)
        for asked in learnt:
            if len(made) == count:
                return made, held
            if random.random() < _MADE:
                domain = random.choice(domains)
                question = domain.asked(random)
                plan = made_plan(*question) if question else None
                if not question or plan is None:
                    continue
                row = row_of(Asked(domain.schema, question[0], plan), kg_llm, random)
            else:
                row = row_of(asked, kg_llm, random, nouns if random.random() < _EXCHANGED else ())
            if row is not None:
                made.append(row)


def train(data: Path, out: Path, steps: int) -> None:
    """Train an adapter on questions with Cypher and on the invented domains into ``out``.

    ``data`` as for :func:`scripts.planner.fit.train`.
    """
    progress = TerminalProgress()
    cache = Settings().cache_folder  # type: ignore[call-arg]  # from the environment
    kg_llm = load_kg_llm(None, NO_ADAPTER, device="cpu", cache=cache, progress=progress)
    kg_llm = kg_llm.with_card(CARD)
    learnt, held = rows(data, kg_llm, steps * _BATCH)
    settings = TrainingSettings(
        epochs=1, batch_size=_BATCH // 2, accumulation=2, learning_rate=1e-3, dropout=0,
        checkpoint_every=20, check_every=steps // 3,
    )  # fmt: skip
    described = {
        "questions": "text2cypher collection of Neo4j Labs (CC0 1.0), invented domains",
        "held out": ASIDE,
    }
    fit(kg_llm, learnt, held, PathFormat(), out, settings, data=described, progress=progress)
