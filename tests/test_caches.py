"""Every cache of the program stands in the table of SECURITY.md, by what its reader may see."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).parent.parent
_PACKAGE = _ROOT / "kgqa"
_EMPTY = {
    "Counter", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary", "defaultdict", "deque",
    "dict", "local", "set",
}  # fmt: skip


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder; parts of the package are links to folders."""
    for one in sorted(folder.iterdir()):
        if one.is_dir():
            yield from _files(one)
        else:
            yield one


def _name(node: ast.AST) -> str:
    """Return the last name of what is called, subscripted or referred to."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_empty(value: ast.AST | None) -> bool:
    """Whether a value is a container that can only be filled later."""
    if isinstance(value, ast.Call):
        return _name(value.func) in _EMPTY and not value.args
    return isinstance(value, ast.Dict) and not value.keys


def _of_self(node: ast.AST) -> str:
    """Return the name of an attribute of ``self``, or of one that is subscripted; "" if none."""
    if isinstance(node, ast.Subscript):
        node = node.value
    mine = isinstance(node, ast.Attribute) and _name(node.value) == "self"
    return _name(node) if mine else ""


def _assigned(node: ast.AST) -> tuple[list[ast.expr], ast.expr | None]:
    """Return the targets of an assignment, and its value."""
    if isinstance(node, ast.Assign):
        targets = [one for t in node.targets for one in getattr(t, "elts", None) or [t]]
        return targets, node.value
    if isinstance(node, ast.AnnAssign | ast.NamedExpr):
        return [node.target], node.value
    return [], None


def _kept_by(method: ast.AST) -> Iterator[str]:
    """Yield the attributes that a method begins empty, or looks into and then fills."""
    written, looked = set(), set()
    for node in ast.walk(method):
        targets, value = _assigned(node)
        names = {name for target in targets if (name := _of_self(target))}
        written |= names
        if _is_empty(value):
            yield from names
        if isinstance(node, ast.Compare):
            looked |= {_of_self(one) for one in (node.left, *node.comparators)}
        elif isinstance(node, ast.UnaryOp):
            looked.add(_of_self(node.operand))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("get", "setdefault"):
                looked.add(_of_self(node.func.value))
            if node.func.attr == "setdefault":
                written.add(_of_self(node.func.value))
    yield from (written & looked) - {""}


def _caches(file: Path) -> Iterator[str]:
    """Yield what a module keeps: functions, classes (in the server their attributes), globals."""
    name = str(file.relative_to(_PACKAGE))
    module = ast.parse(file.read_text("utf-8"))
    for statement in module.body:
        targets, value = _assigned(statement)
        if _is_empty(value):
            yield from (f"{name} {_name(target)}" for target in targets)
    for node in ast.walk(module):
        if isinstance(node, ast.Global):
            yield from (f"{name} {one}" for one in node.names)
        elif isinstance(node, ast.Call) and _name(node) == "write_cache":
            yield f"{name} write_cache"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if {"cache", "lru_cache"} & {_name(one) for one in node.decorator_list}:
                yield f"{name} {node.name}"
        elif isinstance(node, ast.ClassDef):
            if node.name.endswith("Cache") and not name.startswith("server/"):
                yield f"{name} {node.name}"
            kept = [
                attribute
                for method in node.body
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
                for attribute in (
                    [method.name]
                    if "cached_property" in map(_name, method.decorator_list)
                    else _kept_by(method)
                )
            ]
            for attribute in kept:
                yield f"{name} {node.name}" + f".{attribute}" * name.startswith("server/")


# By the first words of a row of SECURITY.md. In the server each attribute has a place of its own,
# elsewhere each class: before a new one is listed, ask who may read what is in it.
ROWS = {
    "answers of the server": "server/sessions.py: AnswerCache._kept",
    "the list of KGs": "server/api.py: Api._status | server/kgs.py: ServedKgs._listed",
    "open KGs and sessions": """
        api/kg.py: KG | api/qa.py: QA
        server/sessions.py: Sessions._homes Sessions._readers
        server/worker.py: Worker._homes Worker._kgs Worker._open Worker._kept
    """,
    "replies of a general LLM": "models/general.py: CallCache",
    "schema, classes": """
        graph/kept.py: write_cache | graph/attached.py: SurveyFile
        graph/neo4j_store.py: Neo4jStore | graph/sqlite.py: SqliteStore
        graph/sqlite_file.py: SqliteReader | models/kept_vectors.py: KeptVectors
        methods/ensemble.py: Auto | methods/query.py: Query | methods/rank_words.py: RankWords
        methods/kg_cot/hops.py: HopTable | methods/kg_cot/scores.py: BoundReasoner
        paths/schema.py: Schema | paths/triplets.py: StoreTriplets
        planning/schema_parts.py: SchemaParts | planning/value_index.py: ValueIndex
        queries/check.py: SchemaIndex | trie/composed.py: TripletLanguage _Walks
        trie/index/packed.py: Dictionary | trie/index/reader.py: TrieIndex
        trie/index/shard.py: Shard StoredTrie | trie/lexicon.py: PathLexicon _Part _Pool
    """,
    "what was read of an attached database": """
        graph/attached_reader.py: AttachedReader | graph/attached_store.py: AttachedStore
        graph/sparql_around.py: NeighbourCache | graph/sparql_store.py: SparqlStore
    """,
    "classes of plain triples": "queries/implicit_classes.py: _Classing _Mine",
    "converted models": "models/profile.py: _plans write_cache",
    "loaded models": """
        decoding/cuda_graphs.py: FixedPasses
        methods/resources.py: Models Resources | models/bert.py: Bert | models/mpnet.py: MPNet
        models/path_ranker.py: _Vectors | models/plan_scorer.py: PartTokens
        models/tokenizer.py: BareEncoder HFEncoder
    """,
    "words, forms of names": """
        graph/literals.py: read_value | graph/moments.py: length moment | graph/names.py: _short
        lexicon/joined.py: split_joined | lexicon/lemmas.py: stem | linking/forms.py: _likeness
        linking/masking.py: _same | linking/wording.py: _words_of
        linking/neighbourhood_features.py: _stem _stems_of_all _stems_of_relation stems_of
        loaders/freebase.py: local_name | loaders/tabular_mapping.py: _split_words
        methods/rank_asked.py: _last_stems | paths/words.py: holds_both_ways relation_phrase
        planning/question_words.py: _stems _verbs measured names_class superlative
        understanding/direction.py: _roots _stated
    """,
    "the package's own": """
        api/update.py: _ADDING | cypher/__init__.py: names statement text
        cypher/attached.py: attached | graph/freebase.py: bundled Filters | graph/kept.py: _code
        graph/sqlite_file.py: _created_by | lexicon/english.py: words
        lexicon/entries.py: _trie entries | lexicon/lemmas.py: _verbs
        lexicon/joined.py: _table | lexicon/tables.py: tables_of
        linking/language.py: _languages | loaders/graph_files.py: _names_relation
        models/folders.py: _NO | models/profile.py: _plans_json | server/api.py: description
        sparql/__init__.py: names text | trie/index/manifest.py: _adapter
    """,
    "who asks and what runs": """
        server/guard.py: Keys._stamp | server/turns.py: Turns._last Turns._running
        server/sessions.py: Sessions._answering Sessions._asked Sessions._looked Sessions._reading
        server/sessions.py: Sessions._running Sessions._workers Sessions.done
        server/worker.py: Workers._loaded
    """,
    "what a question, a load": """
        api/check.py: _Names | decoding/engine.py: Engine _ActiveSearch
        decoding/generate.py: ConstraintLogitsProcessor _Prefixes
        decoding/model.py: ColumnCache | decoding/transformers_cache.py: TransformersCache
        decoding/span_markers.py: MarkedConstraint | decoding/spans.py: TextForward
        decoding/speculative_tree.py: PrefixTree | methods/dog/answers.py: GraphNames
        methods/dog/chains.py: ChainWriter | methods/dog/graph.py: GraphFilter
        methods/query.py: run | planning/evidence.py: QuestionReading
        planning/fact_words.py: FactWords | planning/orders.py: OrderSearch
        planning/patterns.py: PatternSearch | planning/place_words.py: KnownPlaces PlaceWords
        planning/question_words.py: Mentions | planning/search.py: PlanSearch
        queries/cypher.py: _Statement | queries/endpoint.py: _SingleStatement _Solved
        queries/execute.py: Execution _Columns | queries/join.py: Solver
        queries/language.py: PlanConstraint PlanLanguage | queries/sentence.py: _Words
        queries/sparql.py: _Query _Writer | queries/text.py: _Parser | trie/export.py: show
        graph/amounts.py: NumberTexts | graph/attached_survey.py: _Reading
        graph/neo4j_admin.py: ImportWriter | graph/neo4j_files.py: _CsvFiles
        graph/properties.py: _Survey _ValueCounts | loaders/base.py: Rejects
        loaders/blocks.py: Block ByteStream _Utf8 | loaders/rdf_rows.py: StatementsReader
        loaders/strings.py: BlockReport | loaders/tabular_rows.py: Rows _TableSlice
        loaders/tabular_table.py: Table | loaders/text.py: _Names
        loaders/umls.py: Release UmlsLoader _ReleaseReader
        loaders/umls_relations.py: Cuis Inverses RelationRows | loading/facts.py: _FactBuilder
        loading/files.py: _Digest | loading/pipeline.py: Stages | loading/spool.py: Spool
        loading/update.py: Removal _Builder | training/chains.py: _Maker | training/fit.py: _Loss
        training/loop.py: Checkpoint Fit | training/reasoners.py: ReasonerRun
    """,
    "what a command holds": """
        cli/common.py: Run _Terminal _flags | cli/terminal.py: _console
        cluster.py: RayExecutor _held | parallel.py: _held _opened
        graph/neo4j.py: Neo4jConnection | graph/sparql_client.py: SparqlClient
        models/general.py: GeneralLLM _loop
    """,
}
_NOT_CODE = {"judged questions", "in the client's browser"}


def _listed() -> dict[str, str]:
    """Return the row of each cache that is listed."""
    return {
        f"{module.strip()} {name}": row
        for row, places in ROWS.items()
        for place in places.replace("\n", "|").split("|")
        if place.strip()
        for module, _, names in [place.partition(":")]
        for name in names.split()
    }


def test_every_cache_has_its_row() -> None:
    files = (file for file in _files(_PACKAGE) if file.suffix == ".py")
    found = {cache for file in files for cache in _caches(file)}
    listed = _listed()
    assert found - {*listed} == set(), "add it to ROWS, below the row of who may read it"
    assert {*listed} - found == set(), "it is no more"


def test_every_row_has_its_caches() -> None:
    text = (_ROOT / "SECURITY.md").read_text("utf-8")
    table = text.partition("| cache | its key |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines()]
    named = {row for row in rows for known in (*ROWS, *_NOT_CODE) if row.startswith(known)}
    assert len(rows) == len(ROWS) + len(_NOT_CODE)
    assert set(rows) == named
