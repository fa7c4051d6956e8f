"""The trie index of a KG: built before anyone asks, and looked at."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kgqa.api.qa import shared_name
from kgqa.api.workers import WorkerOptions
from kgqa.errors import (
    DataError,
    EntityNotFoundError,
    IndexFault,
    ShardDamagedError,
    UsageError,
)
from kgqa.extras import require_llm_packages
from kgqa.methods.options import WalkOptions
from kgqa.methods.resources import model_and_adapter
from kgqa.questions.rows import file_lines
from kgqa.registry import flag, validated

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.api.home import Home
    from kgqa.graph.model import IntArray, KGInfo
    from kgqa.graph.store import GraphStore
    from kgqa.linking.resolve import Resolution
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.lexicon import PathLexicon, TokenEncoder
    from kgqa.trie.precompute import PrecomputeResult
    from kgqa.trie.stored import StoredConstraint

MOST_SHOWN = 1_000_000  # paths of a trie that is built to be looked at; more would fill the memory


class PathOptions(WalkOptions):
    """The paths and tokens of a trie: what an index must match to be used."""

    as_flags: ClassVar[tuple[str, ...]] = ("direction", "mediators")

    preset: str | None = flag(None, "The preset whose format is used: default, gcr.")
    model: str | None = flag(None, "The KG-LLM whose tokenizer is used.")
    adapter: str | None = flag(None, "The adapter whose format is used, or 'none'.")


class IndexOptions(WorkerOptions, PathOptions):
    """The content of an index, and how it is built."""

    entities: Path | None = flag(
        None, "Only these entities: a file with an id or name on each line."
    )
    questions: Path | None = flag(None, "Only the topic entities of a question file.")
    cap: int = flag(
        100_000,
        "Maximum number of stored paths per entity; one with more is composed when asked about.",
        ge=1,
    )
    rebuild: bool = flag(False, "Delete the existing index first.")


@dataclass(frozen=True, slots=True)
class IndexBuild:
    """The result of building an index: ``counts`` of the whole index, ``hops`` of its paths."""

    kg: str
    counts: PrecomputeResult
    hops: int
    cap: int

    def to_dict(self) -> dict[str, Any]:
        """Return the build as ``kgqa precompute-tries --json`` prints it."""
        return {"kg": self.kg, **asdict(self.counts)}


def build_index(home: Home, store: GraphStore, given: dict[str, Any]) -> IndexBuild:
    """Build the index of a KG, or continue a stopped build; see :meth:`kgqa.KG.index`."""
    from kgqa.files import writing
    from kgqa.graph.open import store_backend
    from kgqa.models.adapter import preset as card_of

    options: IndexOptions = validated(IndexOptions, given, "an index")
    settings, info = home.settings, store.info
    executor = options.executor()
    preset_card = card_of(options.preset) if options.preset else None
    topics = _wanted_topics(home, store, options)

    # what takes a second to import waits until the cheap mistakes are out of the way
    require_llm_packages("An index, which stores the tokens of a language model,")
    from kgqa.methods.base import path_format, walk_rules
    from kgqa.models.kg_llm import load_encoder
    from kgqa.models.tokenizer import BareEncoder
    from kgqa.trie.index.manifest import IndexKey
    from kgqa.trie.index.writer import IndexWriter
    from kgqa.trie.lexicon import PathLexicon
    from kgqa.trie.precompute import precompute

    model, adapter = model_and_adapter(settings, store, options.model, options.adapter)
    loaded = load_encoder(model, adapter, cache=settings.cache_folder, progress=home.progress)
    card = preset_card or loaded.card
    form = path_format(card)
    rules = walk_rules(info, card, options, card_decides=options.preset is not None)
    encoder: TokenEncoder | Callable[[], TokenEncoder] = loaded.encoder
    if not isinstance(encoder, BareEncoder):  # a worker loads its own
        encoder = partial(_slow_encoder, model, adapter, settings.cache_folder)
    resources = partial(
        _worker_resources, store_backend(home.url).full_url, info.name, home.account, form, encoder
    )
    with writing(home.folder(info.name), info.name):
        writer = IndexWriter(
            home.tries(info.name),
            IndexKey.of(info, loaded.encoder, form, rules),
            PathLexicon(loaded.encoder, form),
            cap=options.cap,
            tokenizer_name=loaded.name,
            rebuild=options.rebuild,
        )
        counts = precompute(
            resources, writer, topics=topics, executor=executor, progress=home.progress
        )
    return IndexBuild(info.name, counts, rules.hops, options.cap)


def trie_text(
    home: Home,
    store: GraphStore,
    entity: str,
    limit: int,
    given: dict[str, Any],
) -> dict[str, Any]:
    """Return the trie of an entity, from a matching index, else built from the graph.

    ``limit``: the most lines of tokens; ``given``: :class:`PathOptions`; see
    :meth:`kgqa.KG.trie_text`. A note says where the trie is from. Raises UsageError for more than
    a million paths.
    """
    from kgqa.linking.resolve import resolve_entity
    from kgqa.methods.base import path_format, walk_rules
    from kgqa.models.adapter import preset as card_of
    from kgqa.models.kg_llm import load_encoder
    from kgqa.trie.export import branching, sequence_tokens, text_lines
    from kgqa.trie.lexicon import PathLexicon

    options: PathOptions = validated(PathOptions, given, "a trie")
    resolution = resolve_entity(store, entity)
    if resolution.others:
        home.note(shared_name(entity, resolution))
    settings = home.settings
    model, adapter = model_and_adapter(settings, store, options.model, options.adapter)
    loaded = load_encoder(model, adapter, cache=settings.cache_folder, progress=home.progress)
    card = card_of(options.preset) if options.preset else loaded.card
    lexicon = PathLexicon(loaded.encoder, path_format(card))
    rules = walk_rules(store.info, card, options, card_decides=options.preset is not None)
    source, constraint = _entity_trie(home, store, resolution, lexicon, rules)
    trie = constraint.trie
    return {
        "entity": {"id": resolution.id, "name": resolution.name},
        "source": source,
        "paths": constraint.paths,
        "sequences": int((trie.leaf >= 0).sum()),
        "nodes": trie.nodes,
        "tokens": sequence_tokens(trie),
        "branching": asdict(branching(trie)),
        "lines": text_lines(trie, lexicon.encoder, limit),
    }


def _entity_trie(
    home: Home,
    store: GraphStore,
    resolution: Resolution,
    lexicon: PathLexicon,
    rules: WalkRules,
) -> tuple[str, StoredConstraint]:
    """Return the source of an entity's trie, ``shard`` (an index) or ``graph``, and the trie.

    Raises UsageError for too many paths, EmptyLanguageError for none.
    """
    from kgqa.errors import EmptyLanguageError
    from kgqa.graph.model import keys_array
    from kgqa.paths.walk import walk
    from kgqa.trie.index.manifest import IndexKey
    from kgqa.trie.index.reader import open_index
    from kgqa.trie.stored import path_tokens, stored_constraint

    key = IndexKey.of(store.info, lexicon.encoder, lexicon.form, rules)
    who = f"{resolution.name} ({resolution.id})"
    reason = f"The index has no trie of {who}."
    try:
        with open_index(home.tries(store.info.name), key) as index:
            stored = index.look_up(resolution.id, resolution.key)
            if index.is_composed(resolution.id):
                reason = f"{who} has more paths than the index stores."
            if stored is not None:
                constraint = stored_constraint([(stored.sequences, stored.table)])
                home.note(f"The trie of {who} is the one in the index.")
                return "shard", constraint
    except IndexFault as error:
        reason = error.message
    home.note(f"{reason} The trie is built from the graph.")
    table, over = walk(store, keys_array([resolution.key]), rules, MOST_SHOWN)
    if len(over):
        raise UsageError(
            f"{who} has more than {MOST_SHOWN:,} paths of at most {rules.hops} hops, too many to "
            "look at.",
            "Look at shorter ones with `hops`." if rules.hops > 1 else "",
        )
    if not len(table):
        raise EmptyLanguageError(
            f"{who} has no path of at most {rules.hops} hops, so its trie is empty.",
            "Choose another entity, or the other `direction`.",
        )
    return "graph", stored_constraint([(path_tokens(store, table, lexicon), table)])


def tries_of(home: Home, info: KGInfo, entity_id: str, entity: int) -> list[dict[str, Any]]:
    """Return the size of an entity's trie in each index of this version of the KG that has it.

    ``bytes`` is its part of the shard, by paths. A damaged index is reported and skipped.
    """
    from kgqa.trie.arrays import in_order
    from kgqa.trie.index.manifest import Manifest
    from kgqa.trie.index.reader import TrieIndex, all_manifests

    tries = []
    for folder, manifest in all_manifests(home.tries(info.name)):
        if not isinstance(manifest, Manifest) or manifest.key.kg_version != info.version:
            continue
        try:
            with TrieIndex(folder, manifest) as index:
                stored = index.look_up(entity_id, entity)
                nodes = 1 if stored is None else in_order(stored.sequences.joined()).nodes
        except ShardDamagedError as error:
            home.note(str(error))
            continue
        if stored is not None:
            key = manifest.key
            tries.append(
                {
                    "model": manifest.tokenizer_name,
                    "hops": key.hops,
                    "direction": key.direction,
                    "mediators": key.mediators,
                    "paths": stored.paths,
                    "nodes": nodes,
                    "bytes": stored.bytes,
                }
            )
    return tries


def _worker_resources(
    url: str,
    kg: str,
    account: dict[str, str | None],
    form: PathFormat,
    encoder: TokenEncoder | Callable[[], TokenEncoder],
) -> tuple[GraphStore, PathLexicon]:
    """Open a store and a lexicon in a worker's process.

    ``encoder``: or the function that loads it, which needs transformers.
    """
    from kgqa.graph.open import open_store
    from kgqa.trie.lexicon import PathLexicon

    lexicon = PathLexicon(encoder() if callable(encoder) else encoder, form)
    return open_store(url, kg, **account), lexicon


def _slow_encoder(model: str | None, adapter: str | None, cache: Path) -> TokenEncoder:
    """Load the tokenizer of a model by transformers."""
    from kgqa.models.kg_llm import load_encoder
    from kgqa.progress import Silent

    encoder: TokenEncoder = load_encoder(model, adapter, cache=cache, progress=Silent()).encoder
    return encoder


def _wanted_topics(home: Home, store: GraphStore, options: IndexOptions) -> IntArray | None:
    """Return the keys of the entities to index, None for all.

    Entities that the KG lacks are reported and skipped. Raises DataError if it lacks them all.
    """
    from kgqa.graph.model import keys_array
    from kgqa.linking.resolve import resolve_entity

    if options.entities is None and options.questions is None:
        return None
    wanted: list[str] = []
    if options.entities is not None:
        lines = file_lines(options.entities, "list of entities")
        wanted += [line.strip() for line in lines if line.strip()]
    if options.questions is not None:
        for number, line in enumerate(file_lines(options.questions, "question file"), 1):
            wanted += _topics_of_line(home, line, f"{options.questions}, line {number}")
    keys, unknown = [], []
    for text in dict.fromkeys(wanted):
        try:
            keys.append(resolve_entity(store, text).key)
        except EntityNotFoundError:
            unknown.append(text)
    if unknown:
        home.note(
            f"{len(unknown)} of {len(unknown) + len(keys)} entities are not in the KG: "
            f"{', '.join(unknown[:5])}"
        )
    if not keys:
        raise DataError(
            "None of the entities asked for is in the KG.",
            "Give ids or names that it has; kgqa link finds them.",
        )
    return keys_array(keys)


def _topics_of_line(home: Home, line: str, where: str) -> list[str]:
    """Return the topic entities of a line of a question file, [] with a note if malformed.

    ``where``: the place of the line, for the note. A blank line has none.
    """
    if not line.strip():
        return []
    try:
        record: Any = json.loads(line)
        named = record.get("topic_entities", record.get("q_entity"))
        if not isinstance(named, list):
            raise TypeError("it has no list of topic_entities")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        home.note(f"{where} is not a question and is left out: {error}.")
        return []
    return [str(entity) for entity in named]
