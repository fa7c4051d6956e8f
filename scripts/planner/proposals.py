"""Lists of plans as the planner itself proposes them, over graphs that are filled with made values.

    python -m scripts.planner.proposals --data DIR --out FILE [--of N] [--domains N] [--only NAME …]

DIR has ``train.jsonl`` and ``schemas.json`` of the Neo4j Labs text2cypher collection. Each of its
databases, and each invented domain, becomes a small graph: things with names and numbers of the
ranges that the schema states, the values that its questions name, and relations that not every
thing has, so that a hop too many changes the rows. Each question is planned, the plans are run
beside gold, and a line of FILE has the question with the plans' words, scores and features (what
each weight of kgqa/data/weights.toml counts in the score), and which of them are gold: the same
words, or, where no plan has them, the same rows.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import scripts.environment  # noqa: F401
import scripts.planner.traced as traced  # before the planner reads its weights
from kgqa.api.loading import ingest
from kgqa.errors import KgqaError, PlanError
from kgqa.methods.query import Query, QueryOptions
from kgqa.methods.resources import Resources
from kgqa.queries.check import SchemaIndex
from kgqa.queries.result import Node, QueryLimits
from kgqa.queries.run import run_shown
from kgqa.queries.text import parse_plan
from scripts.planner.chains import AGGREGATES, NUMBERS, ChainSchema, words_of
from scripts.planner.cypher_chains import chain_of
from scripts.planner.domain_chains import NUMBER, chain_of_gold, schema_of_domain
from scripts.planner.examples import MadeSchema, collection
from scripts.planner.plan_words import plan_words
from scripts.universal.domains import DOMAINS, HELD_OUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kgqa.planning.aggregates import ScoredPlan
    from kgqa.planning.evidence import QuestionReading
    from kgqa.queries.plan import Plan
    from kgqa.queries.result import QueryResult
    from scripts.planner.chains import Chain, Field, Item

_THINGS = 24  # of a class
_EDGES = 0.8  # of a relation, for each thing of its head
_LIMITS = QueryLimits(seconds=5.0, first=500)
_TYPES = {
    "INTEGER": "int", "LONG": "long", "FLOAT": "float", "DOUBLE": "double", "BOOLEAN": "boolean",
    "DATE": "date", "DATE_TIME": "datetime", "LIST": "string[]",
}  # fmt: skip


def plan_text(chain: Chain, schema: ChainSchema) -> str:
    """Return the text of a chain as a plan. Raises ValueError for what no plan says."""
    names, hops = chain.pattern
    called = [
        f"[{name}]" + (f"#{names[: at + 1].count(name)}" if names[:at].count(name) else "")
        for at, name in enumerate(names)
    ]
    text = called[0]
    for (relation, way), name in zip(hops, called[1:], strict=True):
        text += f" [{relation}]> {name}" if way == ">" else f" <[{relation}] {name}"
    types = dict(schema.fields(chain.pattern))

    def of(field: Field | None) -> str:
        if field is None:
            field = ("n", len(names) - 1, "")
        kind, at, own = field
        if kind == "r" and [relation for relation, _ in hops].count(hops[at][0]) > 1:
            raise ValueError
        owner = called[at] if kind == "n" else f"[{hops[at][0]}]"
        return f"{owner}.[{own}]" if own else owner

    def item(one: Item) -> str:
        return f"{AGGREGATES[one[0]]} {of(one[1])}" if one[0] else of(one[1])

    clauses = []
    for field, op, value in sorted(chain.conditions, key=str):
        if op == "missing":
            clauses.append(f"{of(field)} missing")
            continue
        type_ = types.get(field, "STRING")
        is_bare = type_ in NUMBERS or value.lower() in ("true", "false")
        clauses.append(
            f"{of(field)} {'=' if op == 'has' else op} "
            f"{value.lower() if is_bare else json.dumps(value)}"
        )
    if chain.having:
        kind, field, op, value = chain.having
        clauses.append(f"{AGGREGATES[kind]} {of(field)} {op} {value}")
    if chain.without:
        way, relation, other = _without(chain, schema)
        far = f"[{other}]"
        clauses.append(f"without {called[0]} " + (
            f"[{relation}]> {far}" if way == ">" else f"<[{relation}] {far}"))  # fmt: skip
    if chain.order:
        clauses.append(f"{chain.order[0]} {item((chain.order[1], chain.order[2]))}")
    if chain.limit:
        clauses.append(f"limit {chain.limit}")
    given = ", ".join(item(one) for one in (chain.give, chain.also) if one)
    return " | ".join([text, *clauses, f"give {given}"])


def _without(chain: Chain, schema: ChainSchema) -> tuple[str, str, str]:
    """Return the way, relation and far class of the hop that is not to be there."""
    for head, relation, tail in schema.relations:
        for way, near, far in ((">", head, tail), ("<", tail, head)):
            said = f"{way} {words_of(relation)} {way} {words_of(far)}"
            if near == chain.pattern[0][0] and said == chain.without:
                return way, relation, far
    raise ValueError


class Filled:
    """A graph of a schema, with made values, as files that ``kgqa ingest tables`` reads."""

    def __init__(
        self, schema: ChainSchema, random: Random, values: Mapping[tuple[str, str], Sequence[str]],
        ranges: Mapping[tuple[str, str], tuple[float, float]],
    ) -> None:  # fmt: skip
        self._schema, self._random = schema, random
        self._values, self._ranges = values, ranges

    def write(self, folder: Path) -> None:
        """Write the files."""
        ids, asked = {}, dict[str, list[str]]()
        for name, own in self._schema.classes.items():
            things = [f"{name}-{at}" for at in range(self._size(name, own))]
            ids[name] = things
            header = [":ID", ":LABEL", *_typed(own)]
            columns = [self._column(name, one, type_, len(things)) for one, type_ in own.items()]
            rows = [[id_, name, *cells] for id_, *cells in zip(things, *columns, strict=True)]
            known = [{*self._values.get((name, one), ())} for one in own]
            asked[name] = [
                row[0] for row in rows if any(map(set.__contains__, known, map(str, row[2:])))
            ]
            self._table(folder / f"things of {len(ids)}.csv", header, rows)
        for number, (head, relation, tail) in enumerate(self._schema.relations):
            own = self._schema.facts.get(relation, {})
            many = max(2, int(_EDGES * len(ids[head]) + 0.5))
            ends = {(self._random.choice(ids[head]), self._random.choice(ids[tail]))
                    for _ in range(many)}  # fmt: skip
            # what a question names has each relation: else the right plan gives nothing
            ends |= {(one, self._random.choice(ids[tail])) for one in asked[head]}
            ends |= {(self._random.choice(ids[head]), one) for one in asked[tail]}
            header = [":START_ID", ":END_ID", ":TYPE", *_typed(own)]
            columns = [self._column(relation, one, type_, len(ends)) for one, type_ in own.items()]
            rows = [[*pair, relation, *cells]
                    for pair, *cells in zip(sorted(ends), *columns, strict=True)]  # fmt: skip
            self._table(folder / f"edges_{number}.csv", header, rows)

    def _size(self, name: str, own: Mapping[str, str]) -> int:
        named = max((len(self._values.get((name, one), ())) for one in own), default=0)
        return min(max(_THINGS, named), 120)

    def _column(self, owner: str, own: str, type_: str, many: int) -> list[str]:
        random, known = self._random, list(dict.fromkeys(self._values.get((owner, own), ())))
        made = []
        low, high = self._ranges.get((owner, own), (1.0, 100.0))
        for at in range(many):
            if type_ in ("INTEGER", "LONG"):
                cell = str(random.randint(int(low), max(int(low), int(high))))
            elif type_ in ("FLOAT", "DOUBLE"):
                cell = str(round(random.uniform(low, high), 2))
            elif type_ == "BOOLEAN":
                cell = random.choice(("true", "false"))
            elif type_.startswith("DATE"):
                day = (
                    f"{random.randint(1995, 2024)}-{random.randint(1, 12):02}-"
                    f"{random.randint(1, 28):02}"
                )
                cell = day + ("T00:00:00" if type_ != "DATE" else "")
            else:
                cell = f"{own} {owner} {at}"
            made.append(cell)
        random.shuffle(known)
        for at, value in enumerate(known[:many]):
            made[at] = value
        if known and type_ == "STRING":
            for at in range(len(known), many):
                made[at] = (
                    random.choice(known) if len(known) < 8 else f"{random.choice(known)} {at}"
                )
        random.shuffle(made)
        return made

    @staticmethod
    def _table(file: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        with file.open("w", encoding="utf-8", newline="") as opened:
            csv.writer(opened).writerows([header, *rows])


def _typed(own: Mapping[str, str]) -> list[str]:
    """Return properties as neo4j-admin's headers have them."""
    return [f"{name}:{_TYPES.get(type_, 'string')}" for name, type_ in own.items()]


class Recorder(Query):
    """The method, keeping what its search proposes."""

    proposed: Sequence[ScoredPlan] = ()
    reading: QuestionReading | None = None

    def _planned(self, store: Any, reading: QuestionReading) -> list[ScoredPlan]:
        self.reading = reading
        self.proposed = super()._planned(store, reading)
        return list(self.proposed[: self.options.plans])


def proposals(
    asked: Sequence[tuple[str, Chain]], schema: ChainSchema, filled: Filled, name: str
) -> Iterator[dict[str, Any]]:
    """Yield a list for each question whose gold is a plan that gives something."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "graph"
        source.mkdir()
        filled.write(source)
        with ingest("tables", source, kg="made", home=Path(folder) / "home") as kg:
            index = SchemaIndex(kg.schema())
            method = Recorder(QueryOptions(), Resources(kg.home.settings, store=kg.store))
            for question, chain in asked:
                with suppress(KgqaError, ValueError):
                    if (found := _list(question, chain, schema, kg, method, index)) is not None:
                        yield {"database": name, **found}


def _list(
    question: str, chain: Chain, schema: ChainSchema, kg: Any, method: Recorder, index: SchemaIndex
) -> dict[str, Any] | None:
    gold = parse_plan(plan_text(chain, schema))
    rows = _rows(_run(gold, kg, index))
    if rows is None:
        return None
    method.proposed = ()
    method.read(kg.store, question)
    plans = [one.plan for one in method.proposed]
    if not plans:
        return None
    words, said = [plan_words(one) for one in plans], plan_words(gold)
    right = [at for at, one in enumerate(words) if one == said]
    same = [at for at, one in enumerate(plans) if rows and _rows(_run(one, kg, index)) == rows]
    return {
        "question": question, "gold": said, "plans": words, "right": right, "same": same,
        "scores": [round(float(one.score), 3) for one in method.proposed],
        "features": [traced.features_of(one.score) for one in method.proposed],
    }  # fmt: skip


def _run(plan: Plan, kg: Any, index: SchemaIndex) -> QueryResult | None:
    with suppress(PlanError, KgqaError):
        return run_shown(plan, kg.store, index, _LIMITS)
    return None


def _rows(result: QueryResult | None) -> list[str] | None:
    """Return what a plan gives first, in order if it has one; names stand for things."""
    if result is None:
        return None
    rows = [*result.rows, *result.tied]
    cells = [row[0].name if isinstance(row[0], Node) else str(row[0]) for row in rows]
    return cells if result.plan.order and result.plan.limit else sorted(cells)


def _databases(
    data: Path, most: int, random: Random
) -> Iterator[tuple[str, list[tuple[str, Chain]], ChainSchema, Filled]]:
    schemas, rows = collection(data)
    for name, content in schemas.items():
        schema = ChainSchema.of_json(content)
        asked = [(row["question"], chain) for row in rows if row["database"] == name
                 if (chain := chain_of(row["cypher"], schema)) is not None]  # fmt: skip
        random.shuffle(asked)
        values: dict[tuple[str, str], list[str]] = {}
        ranges: dict[tuple[str, str], tuple[float, float]] = {}
        for owner, own in [*content["node_props"].items(), *content.get("rel_props", {}).items()]:
            for one in own:
                key = owner, one["property"]
                values[key] = [str(value) for value in one.get("values", ()) if value][:10]
                with suppress(ValueError, KeyError, TypeError):
                    ranges[key] = float(one["min"]), float(one["max"])
        for _, chain in asked[:most]:
            names, hops = chain.pattern
            for (kind, at, own), _, value in chain.conditions:
                owner = names[at] if kind == "n" else hops[at][0]
                if own and not NUMBER.fullmatch(value):
                    values.setdefault((owner, own), []).insert(0, value)
        yield name, asked[:most], schema, Filled(schema, random, values, ranges)


def _domains(
    most: int, random: Random
) -> Iterator[tuple[str, list[tuple[str, Chain]], ChainSchema, Filled]]:
    for file in sorted(DOMAINS.glob("*.json")):
        domain = MadeSchema(file)
        schema = schema_of_domain(domain)
        asked: dict[str, Chain] = {}
        for _ in range(6 * most):
            made = domain.asked(random)
            chain = made and chain_of_gold(*made)
            if chain and len(asked) < most:
                asked[made[0]] = chain
        values = {(name, "name"): domain.types[name]["names"] for name in domain.classes}
        ranges = dict.fromkeys(domain.kinds, (1.0, 500.0))
        name = ("held-out " if file.stem in HELD_OUT else "") + file.stem
        yield name, [*asked.items()], schema, Filled(schema, random, values, ranges)


def main() -> None:
    """Write the lists."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--of", type=int, default=350, help="questions of a database")
    parser.add_argument("--domains", type=int, default=24, help="questions of a domain")
    parser.add_argument("--only", nargs="*", help="names of databases and domains")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random = Random(given.seed)
    with given.out.open("a", encoding="utf-8") as out:
        for source in (_databases(given.data, given.of, random), _domains(given.domains, random)):
            for name, asked, schema, filled in source:
                if given.only and not any(map(name.startswith, given.only)):
                    continue
                lists = [*proposals(asked, schema, filled, name)] if asked else []
                out.writelines(json.dumps(one) + "\n" for one in lists)
                out.flush()
                first = sum(0 in (one["right"] or one["same"]) for one in lists)
                there = sum(bool(one["right"] or one["same"]) for one in lists)
                print(f"{name}: {len(asked)} questions, {len(lists)} lists, "
                      f"gold in {there}, first in {first}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
