"""A knowledge graph that is open: the noun that carries the library."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from kgqa.closing import Closing
from kgqa.display import said_entity
from kgqa.errors import KgqaError, UsageError
from kgqa.tabular import Tabular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from kgqa.answers.answer import Answer
    from kgqa.api.check import Check
    from kgqa.api.evaluation import Measured
    from kgqa.api.home import Home
    from kgqa.api.index import IndexBuild
    from kgqa.api.language import PathLanguage, WrittenPlans
    from kgqa.api.qa import QA
    from kgqa.graph.model import Direction, KGInfo
    from kgqa.graph.schema import GraphSchema
    from kgqa.graph.store import GraphStore
    from kgqa.linking.linker import Candidate
    from kgqa.linking.resolve import Resolution
    from kgqa.paths.ground import Fact, GroundedPath
    from kgqa.paths.walk import Mediators
    from kgqa.queries.plan import Plan
    from kgqa.queries.result import QueryResult
    from kgqa.training.reports import LearnReport

DEFAULT_METHOD = "auto"


@dataclass(frozen=True, slots=True)
class EntityPaths(Tabular):
    """The selected paths of an entity; ``total``: the number of all its paths.

    ``hops``: the maximum number of edges of a path.
    """

    entity: Resolution
    paths: tuple[GroundedPath, ...]
    total: int
    hops: int

    def to_dict(self) -> dict[str, Any]:
        """Return the paths as ``kgqa paths --json`` prints them."""
        return {
            "entity": {"id": self.entity.id, "name": self.entity.name},
            "paths": [_path_dict(path) for path in self.paths],
            "total": self.total,
        }

    def to_arrow(self) -> pa.Table:
        """Return the paths as a table.

        Columns: path (its text), relations (a list), hops, tail_id and tail (the name).
        """
        import pyarrow as pa

        relations = [path.relation_path for path in self.paths]
        return pa.table(
            {
                "path": pa.array([path.text for path in self.paths], pa.string()),
                "relations": pa.array(relations, pa.list_(pa.string())),
                "hops": pa.array([len(path.edges) for path in self.paths], pa.int64()),
                "tail_id": pa.array([path.tail.id for path in self.paths], pa.string()),
                "tail": pa.array([path.tail.name for path in self.paths], pa.string()),
            }
        )

    def facts(self) -> list[Fact]:
        """Return the stored triples behind the paths, each once."""
        every = (fact for path in self.paths for edge in path.edges for fact in edge.facts)
        return list(dict.fromkeys(every))


class KG(Closing):
    """An open KG. Close it with :meth:`close`, or use ``with``.

    ``store`` is the store that holds it, and ``home`` its data folder with the settings. If
    :func:`kgqa.ingest` returned it, ``loaded`` has the counts of the load, as
    ``kgqa ingest --json`` prints them.
    """

    def __init__(self, home: Home, store: GraphStore, loaded: dict[str, Any] | None = None) -> None:
        self.home = home
        self._store = store
        self.loaded = loaded
        self._sessions: dict[str, QA] = {}
        self._results = WeakValueDictionary[int, "QueryResult"]()  # those that are still held

    @classmethod
    def of(cls, home: Home) -> KG:
        """Open the KG that the settings of ``home`` name, or the only one."""
        return cls(home, home.open_store())

    @property
    def store(self) -> GraphStore:
        """The store that holds the KG, in its present state: the next call sees an update."""
        self._store.refresh()
        return self._store

    @property
    def info(self) -> KGInfo:
        """The KG's name, source, counts, version and direction."""
        return self.store.info

    @property
    def is_live(self) -> bool:
        """Whether the KG is a live database, which each question reads in its present state."""
        from kgqa.graph.store import is_live

        return is_live(self.store)

    @property
    def name(self) -> str:
        """The KG's name."""
        return self._store.info.name

    @property
    def folder(self) -> Path:
        """The folder with all files of this KG."""
        return self.home.folder(self.name)

    def ask(
        self,
        question: str,
        *,
        entities: Sequence[str] = (),
        choices: Sequence[str] = (),
        after: Answer | Sequence[Answer] = (),
        reading: int | None = None,
        method: str = DEFAULT_METHOD,
        **options: Any,
    ) -> Answer:
        """Answer one question with the options of :meth:`qa`; models stay loaded.

        ``entities`` are topic entities, by id or name, instead of those that linking finds;
        ``choices`` are the possible answers, by id or name. ``after``: the answers to earlier
        questions, the latest last, from which "and her children?" or "which of them …" is filled
        in; notes say how. ``reading``: which one of ``answer.readings`` is meant, from 1, where
        the answer offers some. Raises LinkingError, EntityNotFoundError, EmptyLanguageError,
        TimeLimitError, ModelError, UsageError.
        """
        key = repr((method, sorted(options.items())))
        if key not in self._sessions:
            self._sessions[key] = self.qa(method, **options)
        session = self._sessions[key]
        return session.ask(
            question, entities=entities, choices=choices, after=after, reading=reading
        )

    def qa(self, method: str = DEFAULT_METHOD, **options: Any) -> QA:
        """Return a session: this KG and a method whose models stay loaded for many questions.

        ``options`` are those of the method (``kgqa.options("gcr")`` lists them). Models are loaded
        with the first question. Raises UsageError for an unknown or unsuitable option.
        """
        from kgqa.api.qa import QA

        session = QA(self.home, self.store, method, options)
        session.hold = self._keep_open
        return session

    def link(self, question: str, limit: int = 10) -> list[Candidate]:
        """Return up to ``limit`` entities that the question may be about, best first.

        Raises LinkingError.
        """
        from kgqa.linking import linker

        return linker.link(self.store, question, limit)

    def linked(self, question: str, limit: int = 10) -> dict[str, Any]:
        """Return the results of :meth:`link` as ``kgqa link --json`` prints them.

        Each candidate has the parts of its score, and whether it is a topic entity.
        """
        from kgqa.linking import linker
        from kgqa.understanding.asked import asks_whether

        candidates = self.link(question, limit)
        topics = linker.topic_entities(candidates, two=asks_whether(question))
        chosen = {topic.id for topic in topics}
        return {
            "question": question,
            "candidates": [
                {
                    "id": candidate.id,
                    "name": candidate.name,
                    "score": round(candidate.score, 4),
                    "mention": candidate.mention,
                    "start": candidate.start,
                    "end": candidate.end,
                    "match": candidate.match,
                    "edges": candidate.degree,
                    "parts": candidate.features.points(),
                    "features": candidate.features.values(),
                    "chosen": candidate.id in chosen,
                }
                for candidate in candidates
            ],
        }

    def entity(self, name: str) -> Resolution:
        """Return the entity with this id or name (if several have it, the best connected one).

        Raises EntityNotFoundError with the nearest names.
        """
        from kgqa.linking.resolve import resolve_entity

        return resolve_entity(self.store, name)

    def suggest(self, typed: str, limit: int = 8) -> list[dict[str, Any]]:
        """Return entities with a name or alias in which some word begins with each typed word.

        Each has its id, its name and its number of edges; at most ``limit``, the best first.
        """
        from kgqa.graph.names import normalise

        store = self.store
        entities = store.entities(store.suggest(typed, 4 * limit, prefix=True))
        degrees = store.degrees(entities.keys).tolist()
        infos = [
            {"id": id_, "name": entities.label(row), "edges": degrees[row]}
            for row, id_ in enumerate(entities.ids)
        ]
        begun = normalise(typed)
        infos.sort(key=lambda info: (not normalise(info["name"]).startswith(begun), -info["edges"]))
        return infos[:limit]

    def paths(
        self,
        entity: str,
        *,
        hops: int = 2,
        limit: int = 50,
        offset: int = 0,
        most: int | None = None,
        direction: Direction | None = None,
        mediators: Mediators = "collapse",
    ) -> EntityPaths:
        """Return ``limit`` paths of at most ``hops`` hops from an entity, starting at ``offset``.

        The default ``direction`` is the KG's. An entity with more than ``most`` paths is refused.
        Raises EntityNotFoundError, UsageError.
        """
        from kgqa.graph.model import keys_array
        from kgqa.linking.resolve import resolve_entity
        from kgqa.paths.format import PathFormat
        from kgqa.paths.ground import ground
        from kgqa.paths.walk import WalkRules, ordered, walk

        store = self.store
        resolution = resolve_entity(store, entity)
        if resolution.others:
            from kgqa.api.qa import shared_name

            self.home.note(shared_name(entity, resolution))
        rules = WalkRules(hops, direction or store.info.direction, mediators)
        walked, over = walk(store, keys_array([resolution.key]), rules, most)
        if len(over):
            raise UsageError(
                f"{said_entity(resolution.name, resolution.id)} has more than {most:,} paths of at "
                f"most {hops} hops.",
                "Ask for fewer with `hops`.",
            )
        table = ordered(walked, store)
        first = table.take(
            keys_array(range(min(offset, len(table)), min(offset + limit, len(table))))
        )
        shown = tuple(path for path in ground(store, first, PathFormat()) if path is not None)
        return EntityPaths(resolution, shown, len(table), hops)

    def check(self, statement: Any) -> Check:
        """Return whether a statement is in the graph, and its edges.

        ``statement`` is a triple (head, relation, tail) of ids or names, a list of consecutive
        triples, a path as text (``A -> relation -> B -> …``), or a path of an answer.
        Raises EntityNotFoundError, UsageError.
        """
        from kgqa.api.check import check

        return check(self.store, statement)

    def query(self, plan: str | Plan, *, rows: int = 10_000, seconds: float = 30.0) -> QueryResult:
        """Return the result of a plan: its value or rows, with the facts behind each.

        ``plan``: its text, as ``docs/queries.md`` has it. ``rows``, ``seconds``: the most that it
        may give and take. Raises PlanError, which says what does not fit; TimeLimitError.
        """
        from kgqa.queries.result import QueryLimits
        from kgqa.queries.run import rows_of
        from kgqa.queries.text import parse_plan

        read = parse_plan(plan) if isinstance(plan, str) else plan
        limits = QueryLimits(rows=rows, seconds=seconds)
        return self._keep_open(rows_of(read, self._property_graph(), limits))

    def cypher(self, plan: str | Plan) -> str:
        """Return a plan as Cypher that runs in Neo4j Browser as it stands.

        Raises PlanError, and UsageError for a SPARQL endpoint.
        """
        from kgqa.graph.open import is_endpoint
        from kgqa.queries.cypher import cypher_of
        from kgqa.queries.text import parse_plan

        store = self._property_graph()
        if is_endpoint(store):
            raise UsageError(
                f"{self.name} is a SPARQL endpoint, which does not run Cypher.",
                "Ask for the plan as SPARQL: `kgqa query PLAN --sparql`, or `kg.sparql(plan)`.",
            )
        read = parse_plan(plan) if isinstance(plan, str) else plan
        return cypher_of(read, store.schema())

    def sparql(self, plan: str | Plan) -> str:
        """Return a plan as SPARQL that runs in the endpoint's own page as it stands.

        Raises PlanError, and UsageError for other stores than a SPARQL endpoint.
        """
        from kgqa.graph.open import is_endpoint
        from kgqa.queries.endpoint import statement_of
        from kgqa.queries.text import parse_plan

        store = self._property_graph()
        if not is_endpoint(store):
            raise UsageError(
                f"{self.name} is not a SPARQL endpoint.",
                "Ask for the plan as Cypher: `kgqa query PLAN --cypher`, or `kg.cypher(plan)`.",
            )
        read = parse_plan(plan) if isinstance(plan, str) else plan
        return statement_of(read, store)

    def plans(
        self, question: str, tokenizer: Any, *, hops: int = 3, vocab_size: int | None = None
    ) -> WrittenPlans:
        """Return the language of all plans for ``question``, for Hugging Face ``generate``.

        Whatever is written in it fits the schema, and its literals are of the question. ``hops``:
        the most that a pattern has. Raises UsageError, ModelError.
        """
        from kgqa.api.language import plan_language

        return plan_language(self._property_graph(), question, tokenizer, hops, vocab_size)

    def schema(self) -> GraphSchema:
        """Return the KG's classes, their properties, and which relations lead where.

        A KG of mostly untyped entities has the classes of :mod:`kgqa.queries.implicit_classes`.
        """
        from kgqa.queries.implicit_classes import queryable

        return queryable(self._property_graph()).schema()

    def about(self, most: int = 20) -> dict[str, Any]:
        """Return in JSON what the KG holds: its size, types, properties and relations.

        The ``most`` frequent of each, with an example; ``plan``: as a plan writes it.
        """
        from kgqa.api.overview import about

        return about(self._property_graph(), most)

    def examples(self, most: int = 6) -> list[str]:
        """Return at most ``most`` questions that the KG answers, of its most frequent relations."""
        from kgqa.api.overview import example_questions

        return example_questions(self.about(4 * most)["relations"], self.query, most)

    def _property_graph(self) -> Any:
        """Return the store as a property graph. Raises UsageError if it is not one."""
        from kgqa.graph.schema import PropertyGraph

        store = self.store
        if not isinstance(store, PropertyGraph):
            raise UsageError(
                f"The store of {self.name} does not give classes and properties to query.",
                "Load the KG again, or attach its database: `kgqa attach`.",
            )
        return store

    def constraint(
        self,
        entities: Sequence[str],
        tokenizer: Any,
        *,
        hops: int = 2,
        direction: Direction | None = None,
        mediators: Mediators = "collapse",
        start: str = "",
        end: str = "",
        vocab_size: int | None = None,
    ) -> PathLanguage:
        """Return the language of all paths from ``entities``, for Hugging Face ``generate``.

        ``entities`` are ids or names, and ``tokenizer`` is a transformers tokenizer. ``start`` and
        ``end`` are the markers that a model was trained to write around a path. Raises
        EntityNotFoundError, EmptyLanguageError, ModelError.
        """
        from kgqa.api.language import path_language
        from kgqa.linking.resolve import resolve_entity
        from kgqa.paths.format import PathFormat
        from kgqa.paths.walk import WalkRules

        store = self.store
        keys = [resolve_entity(store, entity).key for entity in entities]
        rules = WalkRules(hops, direction or store.info.direction, mediators)
        form = PathFormat(start=start, end=end)
        return path_language(store, keys, rules, form, tokenizer, vocab_size)

    def index(self, *, workers: int | None = None, **options: Any) -> IndexBuild:
        """Build the trie index, or continue a run that was stopped.

        ``options`` are those of :class:`kgqa.api.index.IndexOptions`. Raises UsageError, DataError.
        """
        from kgqa.api.index import build_index

        return build_index(self.home, self.store, {"workers": workers, **options})

    def tries(self, entity: str) -> list[dict[str, Any]]:
        """Return the size of an entity's trie in each index of this KG that contains it.

        Raises EntityNotFoundError.
        """
        from kgqa.api.index import tries_of
        from kgqa.linking.resolve import resolve_entity

        store = self.store
        resolution = resolve_entity(store, entity)
        return tries_of(self.home, store.info, resolution.id, resolution.key)

    def trie_text(self, entity: str, limit: int = 50, **options: Any) -> dict[str, Any]:
        """Return the token trie of an entity as ``kgqa tries export --json`` prints it.

        ``options`` are those of :class:`kgqa.api.index.PathOptions`. Raises EntityNotFoundError,
        EmptyLanguageError.
        """
        from kgqa.api.index import trie_text

        return trie_text(self.home, self.store, entity, limit, options)

    def evaluate(
        self,
        file: str | Path,
        format: str = "jsonl",
        *,
        method: str = DEFAULT_METHOD,
        **options: Any,
    ) -> Measured:
        """Answer every question of a file and measure the answers.

        ``options`` are those of :class:`kgqa.api.evaluation.EvalOptions` and of the method.
        """
        from kgqa.api.evaluation import evaluate

        return evaluate(self.home, self.store, file, format, method, options)

    def update(
        self,
        add: str | Path | Sequence[str | Path] = (),
        remove: str | Path | Sequence[str | Path] = (),
        **options: Any,
    ) -> dict[str, Any]:
        """Add the triples of files to this KG and remove those of others, in one atomic change.

        The KG is then what loading the changed triples would give. ``options`` are those of
        :class:`kgqa.api.update.UpdateOptions` and of the loader. Options that the KG was loaded
        with apply again, except those about files. Returns what ``kgqa update --json`` prints.
        Raises UsageError if the KG is attached, DumpMalformedError, IngestError, GraphError.
        """
        from kgqa.api.update import update

        given = {**options, "remove": _paths(remove) or options.get("remove")}
        return update(self.home, self.store, _paths(add), given)

    def learn(self, **options: Any) -> LearnReport:
        """Fit a path ranker for this KG to ``questions``; the method auto then uses it.

        ``questions`` is a file of people's questions with their answers. The ranker is kept if it
        is better on held-out ones. ``phrases`` is a file of the relations' words, which the KG
        keeps. Returns what was measured. Raises UsageError, DataError.
        """
        from kgqa.api.training import learn

        report = learn(self.home, self.store, options)
        self._close_sessions()
        return report

    def browser_url(self, result: Answer | EntityPaths) -> str | None:
        """Return a Neo4j Browser link that draws the facts, or None if the store is not Neo4j."""
        if self._store.url.startswith("sqlite"):
            return None
        from kgqa.graph.browser import browser_url

        triples = [(fact.head, fact.predicate, fact.tail) for fact in result.facts()]
        return browser_url(self._store, triples, self.home.settings.neo4j_browser)

    def close(self) -> None:
        """Close the store and the sessions that :meth:`ask` opened.

        The evidence of results that are still held is read first.
        """
        self._close_sessions()
        with suppress(KgqaError):  # reading the result later raises the error
            for result in list(self._results.values()):
                result.keep()
        self._store.close()

    def _keep_open(self, result: QueryResult) -> QueryResult:
        """Register a result, so that its evidence is read before the KG is closed; return it."""
        self._results[id(result)] = result
        return result

    def _close_sessions(self) -> None:
        """Close the sessions that :meth:`ask` opened."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def __repr__(self) -> str:
        info = self.info
        return (
            f"<KG {info.name}: {info.entities:,} entities, {info.edges:,} edges, {self._store.url}>"
        )


def _paths(given: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return one or several paths as a list."""
    from pathlib import Path

    return [Path(path) for path in ([given] if isinstance(given, str | Path) else given)]


def _path_dict(path: GroundedPath) -> dict[str, Any]:
    """Return a path as JSON, in the form of an answer's paths."""
    edges = [edge.to_dict() for edge in path.edges]
    return {
        "text": path.text,
        "hypothesis": path.tail.name,
        "edges": edges,
        "groundings": [edges],
        "grounded": True,
    }
