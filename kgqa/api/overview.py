"""What there is, what fits to what, what is missing, and questions to begin with."""

from __future__ import annotations

import re
import time
from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from kgqa.api.home import Home
from kgqa.errors import KgqaError, ModelNotFoundError, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kgqa.graph.model import KGInfo
    from kgqa.models.adapter import AdapterCard
    from kgqa.models.kg_llm import LoadedEncoder
    from kgqa.queries.join import QueryStore
    from kgqa.queries.result import QueryResult

_EXAMPLED = 100_000  # things of a type among which an example is looked for
_TRIED = (50, 5_000)  # of them, for an example of a relation


def about(store: QueryStore, most: int) -> dict[str, Any]:
    """Describe the content of a KG as JSON: see :meth:`kgqa.KG.about`.

    Types and relations of too many entities have no example.
    """
    from kgqa.graph.model import keys_array
    from kgqa.graph.schema import described_schema
    from kgqa.queries.implicit_classes import queryable
    from kgqa.queries.plan import ANY, quoted_name

    def written(name: str) -> str:
        """Return a type or relation as a plan writes it."""
        return quoted_name(name) if name else ANY

    graph, info = queryable(store), store.info
    schema = described_schema(graph.schema(), most)
    counts = {type_.name: type_.count for type_ in graph.schema().types}
    instances = cache(graph.instances)
    ids = graph.relations().ids
    for entry in schema["types"]:
        entry["plan"] = written(entry["name"])
        if entry["count"] <= _EXAMPLED and len(keys := instances(entry["name"])):
            entry["example"] = graph.entities(keys[:1]).label(0)
    for entry in schema["relations"]:
        head, relation, tail = (written(entry[part]) for part in ("head", "relation", "tail"))
        entry["plan"] = f"{head} {relation}> {tail}"
        if counts.get(entry["head"], info.nodes) > _EXAMPLED or entry["relation"] not in ids:
            continue
        for tried in _TRIED:
            heads = instances(entry["head"])[:tried]
            facts = graph.facts(heads, [ids.index(entry["relation"])], inverse=False)
            for row, other in zip(facts.row.tolist(), facts.other.tolist(), strict=True):
                if "example" not in entry and entry["tail"] in ("", *graph.details(other).types):
                    ends = graph.entities(keys_array([heads[row], other]))
                    entry["example"] = f"{ends.label(0)} -> {entry['relation']} -> {ends.label(1)}"
            if "example" in entry:
                break
    return {"kg": info.name, "entities": info.entities, "edges": info.edges, **schema}


def status(home: str | Path | Home | None = None, *, verify: bool = False) -> dict[str, Any]:
    """Return the KGs, their indexes, the model, the dumps, and what is missing.

    Anything that cannot be reached is listed under ``missing`` and does not raise an error.
    ``verify``: check every byte of every index.
    """
    from kgqa.graph.attached import left_out

    home = home if isinstance(home, Home) else Home(home)
    settings = home.settings
    faults: list[KgqaError] = []
    infos: list[KGInfo] = []
    try:
        infos = home.kgs(faults)
    except KgqaError as error:
        faults.append(error)
    missing = [str(fault) for fault in faults]
    if not infos and not faults:
        missing.append("No KG is ingested. Load one: kgqa ingest freebase")
    model: dict[str, Any] | None = None
    try:
        model = _model_status(home)
    except KgqaError as error:
        missing.append(str(error))
    encoder = cache(partial(_load_encoder, home, missing)) if model else lambda: None
    kgs = [_kg_status(home, info, encoder, missing, verify=verify) for info in infos]
    missing += filter(None, (left_out(home.folder(info.name)) for info in infos))
    missing += [
        f"No index of {kg['name']} fits the model, so paths are composed on the fly. "
        f"Build one: kgqa precompute-tries --kg {kg['name']}"
        for kg in kgs
        if kg["indexes"] and encoder() and not any(index["fits"] for index in kg["indexes"])
    ]
    dumps = settings.dumps_folder
    files = sorted(path.name for path in dumps.iterdir()) if dumps.is_dir() else []
    return {
        "home": str(settings.home),
        "graph": without_secrets(str(home.url)),
        "kgs": kgs,
        "kg_llm": model,
        "general_llm": settings.general_model,
        "dumps": {"folder": str(dumps), "files": files},
        "missing": missing,
    }


def _model_status(home: Home) -> dict[str, Any]:
    """Describe the KG-LLM and its measured decoding plan, without importing what runs it.

    Raises PackagesMissingError, ModelNotFoundError.
    """
    from kgqa.extras import require_llm_packages
    from kgqa.models.kg_llm import PLANS_FILE, chosen, known_plan
    from kgqa.models.locate import SMOLLM, smollm_is_converted

    require_llm_packages("A language model (for the methods gcr and dog)")
    settings = home.settings
    if settings.model is None and not smollm_is_converted(settings.cache_folder):
        raise ModelNotFoundError(  # converting takes half a minute, and nobody asked for it here
            f"The offline model {SMOLLM} is not prepared yet.",
            "Prepare it: kgqa setup --llm",
        )
    folder, card, located = chosen(
        settings.model, settings.adapter, settings.cache_folder, home.progress, fitting=False
    )
    return {
        "model": located.name,
        "adapter": folder.name if folder else None,
        "hops": card.hops,
        "decoding": known_plan(settings.cache_folder / PLANS_FILE, located.name, settings.device),
    }


def _load_encoder(home: Home, missing: list[str]) -> LoadedEncoder | None:
    """Load the KG-LLM's tokenizer, with which indexes are compared.

    None if that fails; the error is added to ``missing``.
    """
    from kgqa.models.kg_llm import load_encoder

    given = home.settings
    try:
        return load_encoder(
            given.model, given.adapter, cache=given.cache_folder, progress=home.progress
        )
    except KgqaError as error:
        missing.append(str(error))
        return None


def _card(home: Home, info: KGInfo, encoder: LoadedEncoder) -> AdapterCard:
    """Return the card of the adapter that answers questions about a KG."""
    from kgqa.graph.open import open_store
    from kgqa.methods.resources import model_and_adapter
    from kgqa.models.adapter import ADAPTERS
    from kgqa.models.kg_llm import adapter_folder

    with open_store(home.url, info.name, **home.account) as store:
        folder = adapter_folder(*model_and_adapter(home.settings, store))
    return ADAPTERS.card(folder) if folder else encoder.card


def _kg_status(
    home: Home,
    info: KGInfo,
    loaded: Callable[[], LoadedEncoder | None],
    missing: list[str],
    *,
    verify: bool,
) -> dict[str, Any]:
    """Describe one KG: counts, indexes, which of them match the model, ranker.

    ``loaded``: loads the tokenizer, if there are indexes; ``missing`` gets what is out of reach;
    ``verify``: check every byte of the indexes.
    """
    from kgqa.trie.index.manifest import Manifest
    from kgqa.trie.index.reader import TrieIndex, all_manifests

    wanted, manifests = None, list(all_manifests(home.tries(info.name)))
    encoder = loaded() if manifests else None
    if encoder is not None:
        from kgqa.methods.base import path_format, walk_rules
        from kgqa.trie.index.manifest import IndexKey

        try:
            card = _card(home, info, encoder)
        except KgqaError as error:  # the server of an attached KG, perhaps
            missing.append(f"{info.name}: {error}")
            card = encoder.card
        form, rules = path_format(card), walk_rules(info, card)
        wanted = IndexKey.of(info, encoder.encoder, form, rules)
    indexes: list[dict[str, Any]] = []
    for folder, manifest in manifests:
        if not isinstance(manifest, Manifest):
            indexes.append({"folder": str(folder), "fits": False, "faults": [str(manifest)]})
            continue
        key = manifest.key
        differs = [] if wanted is None else wanted.differences(key)
        with TrieIndex(folder, manifest) as index:
            began = time.perf_counter()
            verified = index.verify() if verify else []
            seconds = time.perf_counter() - began
            indexes.append(
                {
                    "folder": str(folder),
                    "fits": wanted is not None and not differs,
                    "differs": differs,
                    "hops": key.hops,
                    "direction": key.direction,
                    "mediators": key.mediators,
                    "stored": manifest.entities,
                    "composed": len(manifest.composed),
                    "paths": manifest.paths,
                    "bytes": manifest.bytes,
                    "shards": len(manifest.shards),
                    "faults": verified,
                    "verified_seconds": seconds if verify else None,
                }
            )
    return {**asdict(info), "ranker": _ranker_status(home, info), "indexes": indexes}


def _ranker_status(home: Home, info: KGInfo) -> dict[str, Any] | None:
    """Describe the KG's own path ranker, or its fault; None if the KG has none."""
    from kgqa.models.path_ranker import RANKERS, own_ranker

    folder = own_ranker(home.folder(info.name))
    if folder is None:
        return None
    try:
        return {"folder": str(folder), **RANKERS.card(folder).described}
    except KgqaError as error:
        return {"folder": str(folder), "fault": str(error)}


_SECONDS = 2.0  # that a relation may take
_LONGEST = 60  # characters of a name
_ENDS = re.compile(r".* (?:by|in|at|to|from|with|on|for)")


def example_questions(
    relations: Sequence[Mapping[str, str]], query: Callable[..., QueryResult], most: int
) -> list[str]:
    """Return at most ``most`` questions that the KG answers, one for each relation.

    ``relations``: each with a ``plan`` that gives its heads; ``query`` runs a plan. A relation
    whose plan fails or takes too long is skipped.
    """
    questions: dict[str, str] = {}  # by relation
    for place, relation in enumerate(relations):
        if len(questions) == most:
            break
        if relation["relation"] in questions:
            continue
        try:
            rows = query(f"{relation['plan']} | limit 8", rows=8, seconds=_SECONDS).rows
        except KgqaError:  # too slow, or no plan of this KG
            continue
        names = [getattr(row[0], "name", None) or "" for row in rows]
        names = [name for name in names if 0 < len(name) <= _LONGEST]
        if names:
            questions[relation["relation"]] = _question(
                relation["relation"], names[place % len(names)]
            )
    return list(questions.values())


def _question(relation: str, name: str) -> str:
    """Phrase a question for a relation of an entity.

    >>> _question("captain", "Aurora"), _question("dependsOn", "billing")
    ('What is the captain of Aurora?', 'What does billing depend on?')
    >>> _question("ACTED_IN", "Tom Hanks"), _question("hasIngredient", "soup")
    ('Tom Hanks acted in what?', 'What ingredient does soup have?')
    >>> _question("wrote", "Ibsen")
    'Ibsen wrote what?'
    """
    from kgqa.paths.words import relation_phrase
    from kgqa.queries.sentence import PAST_VERBS

    phrase = relation_phrase(relation)
    first, _, rest = phrase.partition(" ")
    if first == "has" and rest:
        return f"What {rest} does {name} have?"
    if phrase.endswith(" of"):
        return f"What is the {phrase} {name}?"
    if relation.isupper() and (first.endswith("ed") or _ENDS.fullmatch(phrase)):
        return f"{name} {phrase} what?"  # so named, it is what the head does
    if _ENDS.fullmatch(phrase) and not first.endswith("s"):
        return f"What is {name} {phrase}?"
    if first.endswith("ed") or first in PAST_VERBS:
        return f"{name} {phrase} what?"
    if first.endswith("s") and not first.endswith("ss") and (rest or first.endswith("es")):
        stem = f"{first[:-3]}y" if first.endswith("ies") else first[:-1]
        return f"What does {name} {f'{stem} {rest}'.strip()}?"
    return f"What is the {phrase} of {name}?"
