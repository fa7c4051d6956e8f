"""Commands about a KG that is there: ``paths``, ``link``, ``status``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run, browser_link, others_of

if TYPE_CHECKING:
    from kgqa.graph.model import KGInfo
    from kgqa.linking.linker import TextEncoder
    from kgqa.paths.ground import GroundedPath


def paths(
    run: Run,
    entity: Annotated[str, typer.Argument(help="An id or a name.")],
    hops: Annotated[int | None, typer.Option(help="Hops at most.", min=1)] = None,
    limit: Annotated[int, typer.Option(help="Paths that are shown.", min=1)] = 50,
    direction: DirectionFlag = None,
    mediators: MediatorsFlag = None,
) -> None:
    """Show the paths of an entity, with the Neo4j Browser link that draws them."""
    from kgqa.cli.show import path_line, say
    from kgqa.graph.model import keys_array
    from kgqa.linking.resolve import resolve_entity
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import ground
    from kgqa.paths.sample import Sample
    from kgqa.paths.walk import WalkRules, ordered, walk

    with run.open_store() as store:
        found = resolve_entity(store, entity)
        if found.others:
            run.note(
                f"'{entity}' means {found.id}, the best connected one; others: "
                f"{others_of(found.others)}."
            )
        rules = WalkRules(
            hops=2 if hops is None else hops,
            direction=direction or store.info.direction,
            mediators=mediators or "collapse",
        )
        table, _ = walk(store, keys_array([found.key]), rules)
        table = ordered(table)
        shown_table = table.take(keys_array(range(min(limit, len(table)))))
        grounded = [path for path in ground(store, shown_table, PathFormat()) if path]
        facts = [fact for path in grounded for edge in path.edges for fact in edge.facts]
        link = browser_link(run, store, dict.fromkeys(facts))
        tries = _tries(run, store.info, found.id)

    def human() -> None:
        for path in grounded:
            say(path_line(path))
        say()
        say(
            f"{len(grounded):,} of {len(table):,} paths of at most {rules.hops} hops out of "
            f"{found.name} ({found.id})",
            style="dim",
        )
        for trie in tries:
            say(
                f"in the index of {trie['model']}: {trie['paths']:,} paths of at most "
                f"{trie['hops']} hops, {trie['nodes']:,} nodes, {trie['bytes']:,} bytes"
                + (f" (a sample: {Sample(**trie['sample'])})" if trie["sample"] else ""),
                style="dim",
            )
        if link:
            say(f"Neo4j Browser: {link}", style="dim")

    run.print(
        human,
        {
            "entity": {"id": found.id, "name": found.name},
            "paths": [_path_json(path) for path in grounded],
            "total": len(table),
            "browser_url": link,
            "tries": tries,
        },
    )


def _tries(run: Run, info: KGInfo, entity_id: str) -> list[dict[str, Any]]:
    """Return the size of the entity's trie in each index of this KG version that holds it.

    ``bytes`` are those of its row before compression. A damaged index is told and
    passed over.
    """
    from kgqa.errors import ShardDamagedError
    from kgqa.trie.index.manifest import Manifest
    from kgqa.trie.index.reader import TrieIndex, all_manifests

    found = []
    for folder, manifest in all_manifests(run.tries_folder(info.name)):
        if not isinstance(manifest, Manifest) or manifest.key.kg_version != info.version:
            continue
        try:
            with TrieIndex(folder, manifest) as index:
                row = index.read(entity_id)
        except ShardDamagedError as error:
            run.note(str(error))
            continue
        sampled = manifest.key.sampled
        if row is not None:
            found.append(
                {
                    "model": manifest.tokenizer_name,
                    "hops": manifest.key.hops,
                    "direction": manifest.key.direction,
                    "mediators": manifest.key.mediators,
                    "paths": row["paths"],
                    "nodes": row["nodes"],
                    "sample": sampled and dataclasses.asdict(sampled),
                    "bytes": sum(len(part) for part in row.values() if isinstance(part, bytes)),
                }
            )
    return found


def _path_json(path: GroundedPath) -> dict[str, Any]:
    edges = [edge.to_json() for edge in path.edges]
    return {
        "text": path.text,
        "hypothesis": path.tail.name,
        "edges": edges,
        "groundings": [edges],
        "grounded": True,
    }


def link(
    run: Run,
    question: Annotated[str, typer.Argument(help="A question, or a name.")],
    limit: Annotated[int, typer.Option(help="Candidates that are shown.", min=1)] = 10,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Weigh meaning too, by a sentence-transformers name or folder (all-MiniLM-L6-v2 "
            "is the offline one)."
        ),
    ] = None,
) -> None:
    """Show which entities a question may be about, and what each one's score is made of."""
    from kgqa.cli.show import say, show_rows
    from kgqa.linking.linker import link as find
    from kgqa.linking.linker import topic_entities
    from kgqa.linking.score import WEIGHTS

    with run.open_store() as store:
        candidates = find(store, question, limit, encoder=_text_encoder(run, encoder))
    chosen = {one.id for one in topic_entities(candidates)}
    points = [one.features.points() for one in candidates]

    def show() -> None:
        rows = [
            (
                "*" if one.id in chosen else "",
                one.name,
                one.id,
                f"{one.score:.3f}",
                one.mention,
                one.match,
                one.degree,
            )
            for one in candidates
        ]
        show_rows("", ["", "name", "id", "score", "mention", "by", "edges"], rows)
        say()
        # a column for each feature that gives or takes anything here
        shown = [name for name in WEIGHTS if any(one[name] for one in points)]
        show_rows(
            "what the scores are made of",
            ["name", *shown],
            [
                (one.name, *(f"{made[name]:+.3f}" if made[name] else "" for name in shown))
                for one, made in zip(candidates, points, strict=True)
            ],
        )

    run.print(
        show,
        {
            "question": question,
            "candidates": [
                {
                    "id": one.id,
                    "name": one.name,
                    "score": round(one.score, 4),
                    "mention": one.mention,
                    "start": one.start,
                    "end": one.end,
                    "match": one.match,
                    "edges": one.degree,
                    "parts": made,
                    "features": one.features.values(),
                    "chosen": one.id in chosen,
                }
                for one, made in zip(candidates, points, strict=True)
            ],
        },
    )


def _text_encoder(run: Run, name: str | None) -> TextEncoder | None:
    if name is None:
        return None
    from kgqa.models.sentences import load_sentence_encoder

    settings = run.settings
    return load_sentence_encoder(
        name,
        device=settings.device,
        cache=settings.cache_folder,
        progress=run.progress,
    )


def status(
    run: Run,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every byte of every index.")
    ] = False,
) -> None:
    """Show what is there, what fits to what, and what is missing."""
    from kgqa.cli.status import collect, show

    found = collect(run, verify=verify)
    run.print(lambda: show(found), found)
    if verify and any(index["faults"] for kg in found["kgs"] for index in kg["indexes"]):
        raise typer.Exit(1)
