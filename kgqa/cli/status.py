"""What ``kgqa status`` finds: KGs, their indexes, the model, the dumps; and what is missing."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from kgqa.cli import llm
from kgqa.cli.common import Run

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.model import KGInfo
    from kgqa.models.kg_llm import LoadedEncoder
    from kgqa.trie.index.manifest import IndexKey


def collect(run: Run, *, verify: bool) -> dict[str, Any]:
    """Return the JSON of ``kgqa status``. What cannot be reached is said, not raised."""
    from kgqa.errors import KgqaError, without_secrets
    from kgqa.graph.open import list_kgs

    settings = run.settings
    missing: list[str] = []
    faults: list[KgqaError] = []
    infos: list[KGInfo] = []
    try:
        infos = list_kgs(run.graph_url, faults=faults, **run.credentials)
    except KgqaError as error:
        faults.append(error)
    missing += [str(fault) for fault in faults]
    if not infos and not faults:
        missing.append("No KG is ingested. Load one: kgqa ingest freebase")
    encoder = None
    try:
        encoder = _encoder(run)
    except KgqaError as error:
        missing.append(str(error))
    kgs = [_kg(run, info, encoder, verify=verify) for info in infos]
    for kg in kgs:
        if not any(index["fits"] for index in kg["indexes"]):
            missing.append(
                f"{kg['name']} has no index that fits the model. "
                f"Build it: kgqa precompute-tries --kg {kg['name']}"
            )
    return {
        "home": str(settings.home),
        "graph": without_secrets(str(run.graph_url)),
        "kgs": kgs,
        "kg_llm": None
        if encoder is None
        else {
            "model": encoder.name,
            "adapter": _adapter_name(run),
            "hops": encoder.card.hops,
            "decoding": _decoding(run, encoder.name),
        },
        "general_llm": settings.general_model,
        "dumps": {"folder": str(settings.dumps_folder), "files": _files(settings.dumps_folder)},
        "missing": missing,
    }


def _encoder(run: Run) -> LoadedEncoder:
    from kgqa.models.kg_llm import load_encoder

    settings = run.settings
    return load_encoder(
        settings.model, settings.adapter, cache=settings.cache_folder, progress=run.progress
    )


def _decoding(run: Run, model: str) -> dict[str, Any] | None:
    """Return how the model was found to be run on the device, None where it never was."""
    from kgqa.models.kg_llm import PLANS_FILE, pick_device
    from kgqa.models.profile import known_plan

    device = pick_device(run.settings.device)
    plan = known_plan(run.settings.cache_folder / PLANS_FILE, model, device)
    return None if plan is None else {"device": device.type, **dataclasses.asdict(plan)}


def _adapter_name(run: Run) -> str | None:
    from kgqa.models.kg_llm import adapter_folder

    folder = adapter_folder(run.settings.model, run.settings.adapter)
    return folder.name if folder else None


def _kg(run: Run, info: KGInfo, encoder: LoadedEncoder | None, *, verify: bool) -> dict[str, Any]:
    from kgqa.trie.index.manifest import Manifest
    from kgqa.trie.index.reader import TrieIndex, all_manifests

    wanted = None
    if encoder is not None:
        rules = llm.walk_rules(info, encoder.card, None, None, None, card_decides=False)
        wanted = llm.index_key(info, encoder.encoder, llm.path_format(encoder.card), rules)
    indexes: list[dict[str, Any]] = []
    for folder, manifest in all_manifests(run.tries_folder(info.name)):
        if not isinstance(manifest, Manifest):
            indexes.append({"folder": str(folder), "fits": False, "faults": [str(manifest)]})
            continue
        sampled = manifest.key.sampled
        differs = [] if wanted is None else wanted.differences(manifest.key)
        with TrieIndex(folder, manifest) as index:
            indexes.append(
                {
                    "folder": str(folder),
                    "fits": wanted is not None and not differs,
                    "differs": differs,
                    "hops": manifest.key.hops,
                    "direction": manifest.key.direction,
                    "mediators": manifest.key.mediators,
                    "flags": _flags(wanted, manifest.key),
                    "sample": sampled and dataclasses.asdict(sampled),
                    "stored": manifest.entities,
                    "composed": len(manifest.composed),
                    "paths": manifest.paths,
                    "bytes": manifest.bytes,
                    "shards": len(manifest.shards),
                    "joining": manifest.joining and dataclasses.asdict(manifest.joining),
                    "faults": index.verify() if verify else [],
                }
            )
    return {**dataclasses.asdict(info), "indexes": indexes}


def _decoding_shown(plan: dict[str, Any] | None) -> str:
    if plan is None:
        return "not probed on this device yet; the first question does it"
    if plan["way"] == "plain":
        return f"plain, prefix by prefix on {plan['device']}: {plan['why']}"
    limit = "" if plan["limit"] is None else f", plain beyond {plan['limit']} tokens"
    return f"by trees of {plan['budget']} tokens on {plan['device']}{limit}: {plan['why']}"


def _joined(check: dict[str, Any] | None) -> str:
    """Return how many of the paths looked at have the tokens that their whole strings get."""
    if check is None:
        return "?"
    return f"{check['sampled'] - check['differing']:,} of {check['sampled']:,}"


def _fits(index: dict[str, Any]) -> str:
    if index["fits"]:
        return "yes"
    if index.get("flags"):
        return f"with {index['flags']}"
    return "no: " + "; ".join(index.get("differs", ["damaged"]))


def _flags(wanted: IndexKey | None, key: IndexKey) -> str | None:
    """Return the flags under which the sample of an index is what is asked for."""
    if wanted is None or key.sample is None:
        return None
    asked = dataclasses.replace(wanted, walk=key.walk, sample=key.sample, seed=key.seed)
    if asked != key:
        return None
    return f"--sample {key.sample} --walk {key.walk}" + (f" --seed {key.seed}" if key.seed else "")


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def show(found: dict[str, Any]) -> None:
    """Print the status for a person."""
    from kgqa.cli.show import say, show_rows

    say(f"home   {found['home']}")
    say(f"graph  {found['graph']}")
    model = found["kg_llm"]
    if model:
        adapter = f" with the adapter {model['adapter']}" if model["adapter"] else ""
        say(f"model  {model['model']}{adapter}")
        say(f"decoding  {_decoding_shown(model['decoding'])}")
    say(f"general model  {found['general_llm'] or 'none (answers are voted by paths)'}")
    rows = [
        (kg["name"], kg["source"], f"{kg['entities']:,}", f"{kg['edges']:,}", kg["direction"])
        for kg in found["kgs"]
    ]
    if rows:
        show_rows("\nKGs", ["name", "source", "entities", "edges", "direction"], rows)
    indexes = [
        (
            kg["name"],
            f"{index.get('stored', 0):,}",
            f"{index.get('paths', 0):,}" + (" (a sample)" if index.get("sample") else ""),
            f"{index.get('bytes', 0) / 1e6:.1f}",
            _joined(index.get("joining")),
            _fits(index),
        )
        for kg in found["kgs"]
        for index in kg["indexes"]
    ]
    if indexes:
        show_rows("\nindexes", ["KG", "tries", "paths", "MB", "joined = whole", "fits"], indexes)
    faults = [fault for kg in found["kgs"] for i in kg["indexes"] for fault in i["faults"]]
    for line in [*faults, *found["missing"]]:
        say(f"! {line}", style="yellow")
