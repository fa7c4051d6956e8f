"""The registries: the names under which stores, loaders, methods, searches and formats are found.

There is one table for each kind. An entry is a name, the class behind it as ``"module:Class"``, a
sentence, and an options model: the class's ``Options``, or where importing the class is slow, a
model named beside it in a module that imports nothing heavier than pydantic. Flags of the command
line, ``--set key=value``, keywords of the library and the tables of the docs all come from these
models.

Another package adds an entry by an entry point in the kind's group, for example ``kgqa.methods``,
whose name is the entry's and whose value is the class. Entry points are read only for names that no
table has, for listings, and for the docs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kgqa.errors import KgqaError, UsageError, first_line
from kgqa.extras import require_llm_packages

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint

    from pydantic.fields import FieldInfo


# What options of commands, loaders, methods and models alike say of walks. They stand here since
# every room that has options may import this module, and most may not import one another.
Direction: TypeAlias = Literal["out", "in", "both"]
Mediators: TypeAlias = Literal["collapse", "keep"]

_MAX_REPEATED_CHARACTERS = 120  # characters of a wrong value that an error repeats


class Options(BaseModel):
    """The options of a registered class: what it can be asked for, each field with a sentence.

    Unknown names and values that do not fit are errors. ``only_for`` names the value of another
    field that a field belongs to; given with another value, it is an error, not passed over.
    ``removed`` says of former options what to do instead.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False
    )

    as_flags: ClassVar[tuple[str, ...]] = ()  # inherited fields that are flags in this model
    heading: ClassVar[str] = ""  # the group of the model's own fields that name none
    only_for: ClassVar[Mapping[str, tuple[str, str]]] = {}  # field -> (other field, its value)
    removed: ClassVar[Mapping[str, str]] = {}  # former option -> a sentence that ends its error
    parts: ClassVar[Mapping[str, Registry]] = {}
    """Field that names an entry of another registry -> that registry.

    The entry's own options are given beside the model's, and end in the field ``NAME_options``: a
    method with ``parts = {"search": SEARCHES}`` takes ``search="diverse", groups=3``.
    """

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Show the inherited fields that a model names in ``as_flags`` as flags, too."""
        for name in cls.__annotations__.keys() & cls.model_fields.keys():
            extra = cls.model_fields[name].json_schema_extra
            if isinstance(extra, dict) and not extra["group"]:
                extra["group"] = cls.__dict__.get("heading", "")
        for name in cls.__dict__.get("as_flags", ()):
            info = copy(cls.model_fields[name])
            extra = info.json_schema_extra
            info.json_schema_extra = {**(extra if isinstance(extra, dict) else {}), "flag": True}
            cls.model_fields[name] = info

    def given(self) -> dict[str, Any]:
        """Return the options that were set, without those left at their defaults."""
        return {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name in self.model_fields_set
        }


def option(
    default: Any,
    help: str,
    *,
    flag: bool = False,
    group: str = "",
    **constraints: Any,
) -> Any:
    """Return a field of an options model: its default, help sentence, and constraints.

    ``flag``: the commands show it as a flag of its own, under the heading ``group``; every other
    field is set by ``--set``. ``constraints`` are those of :func:`pydantic.Field` (``ge``, ``gt``,
    ``le``, ``pattern``, …).
    """
    return Field(
        default, description=help, json_schema_extra={"flag": flag, "group": group}, **constraints
    )


flag = partial(option, flag=True)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a registry: a name and the class behind it.

    ``target`` is ``"module:Class"``; ``help`` a sentence; ``options`` the options model in the same
    form, or empty for the class's own ``Options``.
    """

    name: str
    target: str
    help: str = ""
    options: str = ""
    needs_llm: bool = False

    def load(self) -> Any:
        """Import and return the class.

        Raises UsageError if that fails, PackagesMissingError if it needs an LLM's packages.
        """
        if self.needs_llm:
            require_llm_packages(f"The method {self.name}")
        return _import_object(self.target, self.name)

    def options_model(self) -> type[Options]:
        """Return the options model. Raises UsageError if it is missing."""
        if self.options:
            model = _import_object(self.options, self.name)
        else:
            model = getattr(self.load(), "Options", None)
        if not (isinstance(model, type) and issubclass(model, Options)):
            raise UsageError(
                f"'{self.name}' has no options model derived from kgqa.registry.Options."
            )
        return model


@dataclass(slots=True)
class Registry:
    """The entries of one kind (``kind``, as errors name it); ``group``: the entry point group."""

    kind: str
    group: str
    table: tuple[Entry, ...]
    _added: dict[str, Entry] = field(default_factory=dict)

    def names(self) -> list[str]:
        """List all names, built-in ones first, then those of other packages."""
        return [entry.name for entry in self.entries()]

    def entries(self) -> list[Entry]:
        """Return every entry; a built-in one wins over an entry point of the same name."""
        every = {entry.name: entry for entry in self.table}
        for point in _entry_points(self.group):
            every.setdefault(point.name, _entry_of(point))
        for name, entry in self._added.items():
            every.setdefault(name, entry)
        return list(every.values())

    def entry(self, name: str) -> Entry:
        """Return the entry ``name``. Raises UsageError with the known names if there is none."""
        if not isinstance(name, str):  # a settings file may hold anything
            raise UsageError(f"The {self.kind} {name!r} is not a name.", "Write it as a text.")
        known = {**self._added, **{entry.name: entry for entry in self.table}}
        if name not in known:  # only then are entry points read
            known = {entry.name: entry for entry in self.entries()}
        if name in known:
            return known[name]
        names = list(known)
        near = get_close_matches(name, names, 1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise UsageError(
            f"The {self.kind} '{name}' does not exist.", f"{hint}There are: {', '.join(names)}."
        )

    def add(self, entry: Entry) -> None:
        """Add an entry for this process. Raises UsageError if the name is a built-in one."""
        if any(entry_.name == entry.name for entry_ in self.table):
            raise UsageError(f"There is a built-in {self.kind} '{entry.name}' already.")
        self._added[entry.name] = entry

    def options(self, name: str, given: Mapping[str, Any]) -> Any:
        """Validate options of the entry ``name``; None stands for the default.

        Text is converted to each field's type. Raises UsageError for an unknown or unusable option.
        """
        model = self.entry(name).options_model()
        return validated(model, given, f"the {self.kind} {name}", self.entries_with)

    def entries_with(self, field: str) -> list[str]:
        """List the names of the built-in entries that have an option ``field``."""
        return [entry.name for entry in self.table if field in entry.options_model().model_fields]


def validated(
    model: type[Options],
    given: Mapping[str, Any],
    of: str,
    having: Callable[[str], list[str]] = lambda field: [],
) -> Any:
    """Validate options by ``model``, and return the model; None stands for the default.

    ``of`` names the options' owner in errors; ``having`` returns what else has an option of a name.
    Raises UsageError that names the first option that is unknown, unusable, or belongs to another
    value of its ``only_for`` field.
    """
    set_ = {name: value for name, value in given.items() if value is not None}
    for name, registry in model.parts.items():
        part = str(set_.get(name, model.model_fields[name].default))
        fields = registry.entry(part).options_model().model_fields
        own = [field for field in set_ if field in fields and field not in model.model_fields]
        set_[f"{name}_options"] = registry.options(part, {field: set_.pop(field) for field in own})
    if unknown := [name for name in set_ if name not in model.model_fields]:
        shown = [name for name in model.model_fields if not name.endswith("_options")]
        near = get_close_matches(unknown[0], shown, 1)
        others = having(unknown[0])
        for registry in model.parts.values():
            others += [
                f"the {registry.kind} {entry}" for entry in registry.entries_with(unknown[0])
            ]
        if unknown[0] in model.removed:
            raise UsageError(
                f"The option `{unknown[0]}` of {of} was removed.", model.removed[unknown[0]]
            )
        if others:
            hint = f"It belongs to: {', '.join(others)}."
        else:
            hint = f"Did you mean `{near[0]}`?" if near else f"There are: {', '.join(shown)}."
        raise UsageError(f"The option `{unknown[0]}` does not belong to {of}.", hint)
    try:
        options = model(**set_)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        cause = (first.get("ctx") or {}).get("error")
        if isinstance(cause, KgqaError):
            raise cause from None
        name = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "missing":
            raise UsageError(f"`{name}` is missing in {of}.") from None
        message = first["msg"].removeprefix("Value error, ").rstrip(".")
        message = re.sub(r"^\w+ (?=should )", "", message)  # "Input should", "String should"
        value = repr(first["input"])
        value = (
            value
            if len(value) <= _MAX_REPEATED_CHARACTERS
            else f"{value[:_MAX_REPEATED_CHARACTERS]}…"
        )
        where = (
            f"The option `{name}` of {of} cannot be {value}"
            if name
            else f"The options of {of} do not fit together"
        )
        raise UsageError(f"{where}: {'it ' if name else ''}{message}.") from None
    for name, (other, value) in model.only_for.items():
        if set_.get(name) is not None and getattr(options, other) != value:
            raise UsageError(
                f"`{name}` belongs to the {other} {value}, and it is {getattr(options, other)}.",
                f"Leave out `{name}`, or set `{other}` to {value}.",
            )
    return options


def taken(model: type[Options], given: dict[str, Any], of: str) -> Any:
    """Validate the fields of ``model`` in ``given``, and remove them from it; return the model.

    ``of`` names the options' owner in errors. Raises UsageError.
    """
    own = {name: given.pop(name) for name in list(given) if name in model.model_fields}
    return validated(model, own, of)


def is_option(name: str) -> bool:
    """Return whether a built-in method, search or loader has, or had, an option ``name``."""
    return any(
        name in (model := entry.options_model()).model_fields or name in model.removed
        for table in (METHODS, SEARCHES, LOADERS)
        for entry in table.table
    )


def is_flag(info: FieldInfo) -> bool:
    """Return whether a field of an options model is a command line flag."""
    extra = info.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("flag"))


def type_words(info: FieldInfo) -> str:
    """Return the type of a field in words, for tables: ``int``, ``beam | exact``, ``path``."""
    kind = info.annotation
    kinds = [part for part in get_args(kind) or (kind,) if part is not type(None)]
    return " | ".join(
        str(part) if not isinstance(part, type) else part.__name__.lower()
        for each in kinds
        for part in (get_args(each) or (each,))
    )


def _import_object(target: str, name: str) -> Any:
    """Import the object of a target ``"module:Class"``. Raises UsageError."""
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (KgqaError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # another package's code may do anything
        raise UsageError(
            f"'{name}' cannot be used, since {target} cannot be imported: {first_line(error)}."
        ) from error


def _entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, sorted by name."""
    from importlib.metadata import entry_points

    return sorted(entry_points(group=group), key=lambda point: point.name)


def _entry_of(point: EntryPoint) -> Entry:
    """Convert an entry point of another package to an entry."""
    origin = point.dist.name if point.dist is not None else ""
    return Entry(point.name, point.value, f"from the package {origin}" if origin else "")


LOADERS = Registry(
    "loader",
    "kgqa.loaders",
    (
        Entry(
            "tables",
            "kgqa.loaders.tabular:TablesLoader",
            "your own tables, one thing a row: CSV, Parquet, Excel, SQLite, a database",
        ),
        Entry(
            "triples",
            "kgqa.loaders.triples:TriplesLoader",
            "your own triples: TSV, CSV, N-Triples, JSON lines, Parquet",
        ),
        Entry(
            "graph",
            "kgqa.loaders.graphs:GraphLoader",
            "a graph file: GraphML, GEXF, node-link JSON, Cytoscape, an APOC export, OBO",
        ),
        Entry(
            "rdf",
            "kgqa.loaders.rdf:RdfLoader",
            "RDF: Turtle, TriG, N-Quads, N3, RDF/XML (OWL), JSON-LD",
        ),
        Entry(
            "text",
            "kgqa.loaders.text:TextLoader",
            "text, from which a general LLM extracts triples",
        ),
        Entry("freebase", "kgqa.loaders.freebase:FreebaseLoader", "the RDF dump of Freebase"),
        Entry(
            "conceptnet",
            "kgqa.loaders.conceptnet:ConceptnetLoader",
            "the assertions of ConceptNet 5",
        ),
        Entry("umls", "kgqa.loaders.umls:UmlsLoader", "an RRF release of the UMLS Metathesaurus"),
    ),
)

METHODS = Registry(
    "method",
    "kgqa.methods",
    (
        Entry(
            "gcr",
            "kgqa.methods.gcr:Gcr",
            "graph-constrained reasoning: a language model writes paths under the constraint",
            "kgqa.methods.options:GcrOptions",
            needs_llm=True,
        ),
        Entry(
            "kg-cot",
            "kgqa.methods.kg_cot.method:KgCot",
            "a small graph reasoner scores relations step by step",
            "kgqa.methods.options:KgCotOptions",
        ),
        Entry(
            "rank",
            "kgqa.methods.rank:Rank",
            "relation paths ranked by their words: for any KG, without training",
            "kgqa.methods.options:RankOptions",
        ),
        Entry(
            "query",
            "kgqa.methods.query:Query",
            "questions about the whole graph: a plan over its schema is chosen and run",
            "kgqa.methods.options:QueryOptions",
        ),
        Entry(
            "dog",
            "kgqa.methods.dog.method:Dog",
            "decoding on graphs: free thoughts with constrained triplets",
            "kgqa.methods.options:DogOptions",
            needs_llm=True,
        ),
        Entry(
            "ensemble",
            "kgqa.methods.ensemble:Ensemble",
            "the rankings of gcr and kg-cot, multiplied",
            "kgqa.methods.options:EnsembleOptions",
            needs_llm=True,
        ),
        Entry(
            "auto",
            "kgqa.methods.ensemble:Auto",
            "query, rank or kg-cot, by the question and the KG; also gcr if kg-cot and rank differ",
            "kgqa.methods.options:AutoOptions",
        ),
    ),
)

SEARCHES = Registry(
    "search",
    "kgqa.searches",
    (
        Entry(
            "beam",
            "kgqa.decoding.searches:BeamSearch",
            "the ranked list of generate(num_beams=K)",
            "kgqa.decoding.search:BeamOptions",
        ),
        Entry(
            "diverse",
            "kgqa.decoding.searches:DiverseSearch",
            "beam search in groups that avoid each other's choices",
            "kgqa.decoding.search:DiverseOptions",
        ),
        Entry(
            "exact",
            "kgqa.decoding.searches:ExactSearch",
            "the K most probable paths, with a proof",
            "kgqa.decoding.search:ExactOptions",
        ),
        Entry(
            "sample",
            "kgqa.decoding.searches:SampleSearch",
            "K paths drawn without replacement",
            "kgqa.decoding.search:SampleSearchOptions",
        ),
    ),
)

STORES = Registry(
    "store",
    "kgqa.stores",
    (
        Entry(
            "sqlite",
            "kgqa.graph.sqlite:SqliteStores",
            "embedded, one file per KG: sqlite:///FOLDER",
            "kgqa.graph.backend:StoreOptions",
        ),
        Entry(
            "neo4j",
            "kgqa.graph.neo4j_backend:Neo4jStores",
            "a Neo4j server, by routing: neo4j://HOST:7687",
        ),
        Entry(
            "bolt",
            "kgqa.graph.neo4j_backend:Neo4jStores",
            "a Neo4j server, directly: bolt://HOST:7687",
        ),
        Entry(
            "https",
            "kgqa.graph.sparql_backend:SparqlStores",
            "a SPARQL endpoint, read-only, once it is attached: https://HOST/sparql",
        ),
        Entry(
            "http",
            "kgqa.graph.sparql_backend:SparqlStores",
            "a SPARQL endpoint without encryption: http://HOST/sparql",
        ),
    ),
)

QUESTION_FORMATS = Registry(
    "question format",
    "kgqa.question_formats",
    (
        Entry(
            "jsonl", "kgqa.questions.jsonl:JsonLines", "one JSON object per line: kgqa's own format"
        ),
        Entry("webqsp", "kgqa.questions.webqsp:WebQSP", "WebQSP as Microsoft released it"),
        Entry(
            "webqsp-graph",
            "kgqa.questions.graphs:GraphQuestions",
            "WebQSP, each question with a graph",
        ),
        Entry(
            "cwq-graph",
            "kgqa.questions.graphs:GraphQuestions",
            "ComplexWebQuestions, each with a graph",
        ),
        Entry("rog", "kgqa.questions.graphs:RogQuestions", "the data sets of RoG and GCR"),
        Entry("metaqa", "kgqa.questions.text:MetaQA", "MetaQA"),
        Entry("pathquestion", "kgqa.questions.text:PathQuestion", "PathQuestion"),
        Entry("commonsenseqa", "kgqa.questions.jsonl:CommonsenseQA", "CommonsenseQA"),
        Entry("medqa", "kgqa.questions.jsonl:MedQA", "MedQA (USMLE)"),
        Entry("2wiki", "kgqa.questions.twowiki:TwoWiki", "2WikiMultihopQA"),
    ),
)

REGISTRIES = {
    "methods": METHODS,
    "searches": SEARCHES,
    "loaders": LOADERS,
    "stores": STORES,
    "formats": QUESTION_FORMATS,
}


def options(name: str | None = None) -> dict[str, Any]:
    """Return the options of a method, a search, a loader, a store or a question format.

    The options are dictionaries of type, default and help by option name, under each kind that has
    an entry ``name``. Without a name, return every entry of every kind, with its help. Raises
    UsageError.
    """
    if name is None:
        return {
            kind: {entry.name: entry.help for entry in table.entries()}
            for kind, table in REGISTRIES.items()
        }
    by_kind = {}
    for kind, table in REGISTRIES.items():
        if name not in table.names():
            continue
        model = table.entry(name).options_model()
        by_kind[kind] = _field_descriptions(model)
        for part, of in model.parts.items():
            for entry in of.entries():
                extra = {}
                with suppress(UsageError):  # asked for itself, it says what is wrong with it
                    extra = _field_descriptions(entry.options_model())
                if extra:
                    by_kind[f"{part} {entry.name}"] = extra
    if not by_kind:
        raise UsageError(f"Unknown name '{name}'.", "List them with `kgqa options`.")
    return by_kind


def _field_descriptions(model: type[Options]) -> dict[str, Any]:
    """Return type, default and help of each field of an options model."""
    return {
        name: {
            "type": type_words(info),
            "default": info.default if isinstance(info.default, int | float | str) else None,
            "help": info.description or "",
        }
        for name, info in model.model_fields.items()
        if not name.endswith("_options")
    }
