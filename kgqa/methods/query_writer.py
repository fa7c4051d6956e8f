"""Plans that a KG-LLM writes, token by token under the constraint of :mod:`kgqa.queries.language`.

The prompt holds what of the schema is nearest to the question, and where the graph has the values
that the question names; the language is that of all plans over it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kgqa.answers.answer import KgLlmUse
from kgqa.decoding.engine import DecodingRequest
from kgqa.decoding.spans import TextForward
from kgqa.errors import PlanError
from kgqa.methods.grounding import end_tokens
from kgqa.methods.query_parts import ENTITY
from kgqa.methods.query_wholes import Candidate
from kgqa.models.adapter import AdapterCard
from kgqa.models.kg_llm import NO_ADAPTER
from kgqa.models.profile import engine_for
from kgqa.paths.words import relation_phrase
from kgqa.queries.check import SchemaIndex, check, fits
from kgqa.queries.language import Owned, PlanConstraint, PlanLanguage, PlanLiterals
from kgqa.queries.plan import ANY, quoted_name, quoted_value
from kgqa.queries.text import parse_plan
from kgqa.registry import SEARCHES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kgqa.graph.schema import GraphSchema, Property
    from kgqa.linking.literals import Stated
    from kgqa.methods.options import QueryOptions
    from kgqa.methods.query_parts import FoundValue
    from kgqa.methods.resources import Resources

_CLASSES, _RELATIONS, _PROPERTIES = 4, 6, 10  # of a schema that a prompt shows
_VALUES = 6  # lines of values that a prompt has
_LONGEST = 120  # tokens of a plan that is written without the constraint
ADAPTER = "query"  # the offline model's, bundled, if nothing else is named
CARD = AdapterCard(  # of the adapter: the schema's lines stand where topic entities would
    prompt="{topics}\nQuestion: {question}\nPlan:\n", topic_separator="\n", direction="both"
)
_UNTRAINED = replace(  # of a model that was not trained to write plans
    CARD,
    chat=True,
    prompt="""Write the question as a query plan: a chain of hops, then conditions, an order, a \
limit, and what is given. Examples:
Customer <PLACED Order | Order.total > 100 | desc count Order | limit 3 | give Customer, count Order
Film | Film.title = "Alien" | give Film.year
Film DIRECTED_BY> Person | Person.name = "Jane Doe" | give count Film

The graph has these classes with their properties, and these relations:
{topics}

Question: {question}""",
)


class Written(NamedTuple):
    """The plans that were written, the best first, and what they cost."""

    plans: list[Candidate]
    use: KgLlmUse
    forward_passes: int


class PlanWriter:
    """A KG-LLM that writes plans; options of :class:`kgqa.methods.options.QueryOptions`."""

    def __init__(self, options: QueryOptions, resources: Resources) -> None:
        other = options.model or resources.settings.model
        adapter = options.adapter or (NO_ADAPTER if other else ADAPTER)
        loaded = resources.kg_llm(options.model, adapter, None, options.quantize)
        trained = replace(loaded.card, base_model="") != AdapterCard()
        self.kg_llm = loaded if trained else loaded.with_card(_UNTRAINED)
        self._options = options
        self._search = SEARCHES.entry(options.search).load()(options.search_options)
        self._engine = engine_for(self.kg_llm, together=1, progress=resources.progress)
        self._encoder = resources.sentence_encoder(None)
        self._vectors: dict[str, Any] = {}

    def write(
        self, question: str, schema: GraphSchema, read: Stated, values: Sequence[FoundValue]
    ) -> Written:
        """Return plans for ``question``. Raises ModelError, TimeLimitError."""
        texts = found_texts(values)
        kept = {owned if owned[1] else owned[0] for owned in texts}
        shown = nearest(schema, self._near(question), kept)
        stated = plan_literals(read, texts)
        prompt = self.kg_llm.prompt_ids(question, described(shown, stated.texts))
        if not self._options.constrained:
            tokens = self._free(prompt)
            found = []
            with suppress(PlanError):
                plan = parse_plan(self.kg_llm.encoder.decode(tokens).strip())
                check(plan, SchemaIndex(schema))
                found = [Candidate(plan, 0.0)]
            return Written(found, self._use(prompt, len(tokens)), len(tokens) + 1)
        constraint = PlanConstraint(PlanLanguage(shown, stated), self.kg_llm.encoder)
        request = DecodingRequest(
            prompt=prompt,
            constraint=constraint,
            search=self._search.start(constraint, self._options.written),
            rule=self.kg_llm.card.score_rule,
            max_forward_passes=self._search.max_forward_passes,
        )
        outcome = self._engine.decode(request)
        hypotheses = outcome.found().hypotheses
        found = [Candidate(constraint.plan(one.state), one.log_probability) for one in hypotheses]
        count = sum(len(one.tokens) for one in hypotheses)
        return Written(found, self._use(prompt, count), outcome.forward_passes)

    def _free(self, prompt: Sequence[int]) -> list[int]:
        """Return the tokens that the model writes after ``prompt`` by itself, greedily."""
        forward = TextForward(self.kg_llm.model, trees=self._engine.plan.way == "tree")
        text, ends = forward.text(prompt), end_tokens(self.kg_llm)
        tokens: list[int] = []
        while len(tokens) < _LONGEST:
            (text,), following = forward.following([text])
            token = int(following[0].argmax())
            if token in ends:
                break
            tokens.append(token)
            text = text.extended([token])
        return tokens

    def _use(self, prompt: Sequence[int], tokens: int) -> KgLlmUse:
        return KgLlmUse(self.kg_llm.name, self.kg_llm.adapter, 1, len(prompt), tokens)

    def _near(self, question: str) -> Callable[[Sequence[str]], list[float]]:
        """Return what scores texts by their words and their meaning."""
        asked = {word[:5] for word in re.findall(r"[a-z]+", question.lower()) if len(word) > 2}
        (vector,) = self._encoder.encode([question])

        def near(texts: Sequence[str]) -> list[float]:
            new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
            self._vectors |= dict(zip(new, self._encoder.encode(new), strict=True)) if new else {}
            return [
                len(asked & {word[:5] for word in text.split()})
                + float(vector @ self._vectors[text])
                for text in texts
            ]

        return near


def plan_literals(read: Stated, texts: Mapping[Owned, Iterable[str]] | None = None) -> PlanLiterals:
    """Return what may stand in a plan of what a question states; ``texts``: the graph's values."""
    numbers = [one.value for one in read.literals if isinstance(one.value, int | float)]
    dates = [str(one.value) for one in read.literals if one.kind != "text"]
    return PlanLiterals(
        numbers=tuple(dict.fromkeys([*numbers, *([read.limit] if read.limit else [])])),
        dates=tuple(one for one in dict.fromkeys(dates) if fits(one, "date")),
        texts={owned: tuple(dict.fromkeys(some)) for owned, some in (texts or {}).items()},
        words=tuple(str(one.value) for one in read.literals if one.kind == "text"),
    )


def found_texts(values: Iterable[FoundValue]) -> dict[Owned, list[str]]:
    """Return the values that a question has, by the class or relation and the property."""
    texts: dict[Owned, list[str]] = {}
    for found in values:
        for (kind, owner, name), some in found.fields.items():
            texts.setdefault((owner, "" if kind == ENTITY else name), []).extend(some)
    return texts


def nearest(
    schema: GraphSchema,
    near: Callable[[Sequence[str]], Sequence[float]],
    kept: Collection[object] = (),
) -> GraphSchema:
    """Return the part of a schema that is nearest to a question, small enough for a prompt.

    ``near`` gives each text its score, larger is nearer. ``kept``: classes, (head, relation, tail)
    and (owner, property) that are in it in any case.
    """
    parts: dict[object, str] = {}
    groups: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for pattern in schema.relations:
        ends = [relation_phrase(end) for end in (pattern.head, pattern.tail)]
        hop = (pattern.head, pattern.relation, pattern.tail)
        parts[hop] = f"{ends[0]} {relation_phrase(pattern.relation)} {ends[1]}"
        groups[1].append(hop)
    for owner, properties in [
        *((one.name, one.properties) for one in schema.types),
        *((one.relation, one.properties) for one in schema.relations),
    ]:
        for one in properties:
            if (owner, one.name) not in parts:
                parts[owner, one.name] = f"{relation_phrase(owner)} {relation_phrase(one.name)}"
                groups[2].append((owner, one.name))
    for type_ in schema.types:
        parts[type_.name] = relation_phrase(type_.name)
        groups[0].append(type_.name)
    scores = dict(zip(parts, near(list(parts.values())), strict=True))
    most = (_CLASSES, _RELATIONS, _PROPERTIES)
    chosen = set(kept)
    for group, count in reversed(list(zip(groups, most, strict=True))):
        there = sum(one in chosen for one in group)
        best = sorted(group, key=lambda one: (one not in chosen, -scores[one]))
        taken = best[: max(count, there)]
        chosen.update(taken)
        if group is groups[1]:  # with the classes at their ends
            chosen.update(end for head, _, tail in taken for end in (head, tail) if end)

    def shown(owner: str, properties: tuple[Property, ...]) -> tuple[Property, ...]:
        return tuple(one for one in properties if (owner, one.name) in chosen)

    owners = {one[0] for one in chosen if isinstance(one, tuple) and len(one) == 2}
    return replace(
        schema,
        types=tuple(
            replace(one, properties=shown(one.name, one.properties))
            for one in schema.types
            if one.name in chosen or one.name in owners
        ),
        relations=tuple(
            replace(one, properties=shown(one.relation, one.properties))
            for one in schema.relations
            if (one.head, one.relation, one.tail) in chosen
        ),
    )


def described(schema: GraphSchema, texts: Mapping[Owned, Sequence[str]]) -> list[str]:
    """Return the lines of a prompt: classes, relations, and which values stand in the question."""

    def line(name: str, properties: Iterable[Property]) -> str:
        names = ", ".join(quoted_name(one.name, of_property=True) for one in properties)
        return f"{name}: {names}" if names else name

    def class_(name: str) -> str:
        return quoted_name(name) if name else ANY

    lines = [line(class_(one.name), one.properties) for one in schema.types]
    for one in schema.relations:
        text = f"{class_(one.head)} {quoted_name(one.relation)}> {class_(one.tail)}"
        lines.append(line(text, one.properties))
    held = []
    for (owner, name), values in texts.items():
        place = class_(owner) + (f".{quoted_name(name, of_property=True)}" if name else "")
        held += [f"{place} = {quoted_value(value)}" for value in values[:2]]
    return lines + held[:_VALUES]
