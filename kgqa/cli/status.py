"""``kgqa status``: what there is, what fits to what, and what is missing."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import kgqa
from kgqa.cli.common import Run


def status(
    run: Run,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every byte of every index.")
    ] = False,
) -> None:
    """Show the KGs, models and indexes, which of them fit together, and what is missing.

    With --kg also what that KG holds: types, properties and relations, with examples.
    """
    report = kgqa.status(run.home, verify=verify)
    if run.options.kg:
        with run.kg() as kg:
            report["about"] = kg.about()
    run.print(lambda: _show(report), report)
    if verify and any(index["faults"] for kg in report["kgs"] for index in kg["indexes"]):
        raise typer.Exit(1)


def _show(report: dict[str, Any]) -> None:
    """Print the status report as text and tables."""
    from kgqa.cli.terminal import say, show_rows, show_schema

    say(f"home   {report['home']}")
    say(f"graph  {report['graph']}")
    model = report["kg_llm"]
    if model:
        adapter = f" with the adapter {model['adapter']}" if model["adapter"] else ""
        say(f"model  {model['model']}{adapter}")
        say(f"decoding  {_decoding_text(model['decoding'])}")
    say(f"general model  {report['general_llm'] or 'none (answers come from path scores)'}")
    rows = [
        (
            kg["name"],
            kg["source"],
            f"{kg['entities']:,}",
            f"{kg['edges']:,}",
            kg["direction"],
            _ranker_text(kg["ranker"]),
        )
        for kg in report["kgs"]
    ]
    if rows:
        titles = ["name", "source", "entities", "edges", "direction", "ranker"]
        say()
        show_rows("KGs", titles, rows)
    indexes = [
        (
            kg["name"],
            f"{index.get('stored', 0):,}",
            f"{index.get('paths', 0):,}",
            f"{index.get('bytes', 0) / 1e6:.1f}",
            _fits_text(index),
        )
        for kg in report["kgs"]
        for index in kg["indexes"]
    ]
    if indexes:
        say()
        show_rows("indexes", ["KG", "tries", "paths", "MB", "fits"], indexes)
    if "about" in report:
        say()
        show_schema(report["about"])
    for kg in report["kgs"]:
        for index in kg["indexes"]:
            if index.get("verified_seconds") is not None:
                say(f"verified {kg['name']}: {_verified_text(index)}")
    faults = [fault for kg in report["kgs"] for i in kg["indexes"] for fault in i["faults"]]
    faults += [kg["ranker"]["fault"] for kg in report["kgs"] if "fault" in (kg["ranker"] or {})]
    for line in [*faults, *report["missing"]]:
        say(f"! {line}", style="yellow")


def _decoding_text(plan: dict[str, Any] | None) -> str:
    """Return a sentence on how the model decodes, by its measured plan (None: not measured)."""
    if plan is None:
        return "not measured on this device yet; the first question does it"
    if plan["way"] == "plain":
        return f"plain, prefix by prefix on {plan['device']}: {plan['why']}"
    limit = "" if plan["limit"] is None else f", plain beyond {plan['limit']} tokens"
    return f"by trees of {plan['budget']} tokens on {plan['device']}{limit}: {plan['why']}"


def _ranker_text(own: dict[str, Any] | None) -> str:
    """Return the kind of a KG's path ranker in words; None is the universal one."""
    if own is None:
        return "universal"
    if "fault" in own:
        return "its own, which is damaged"
    asked = own.get("asked")
    return "its own" + (f", {asked:,} questions" if asked else "")


def _verified_text(index: dict[str, Any]) -> str:
    """Return the result of verifying an index in words."""
    damaged = len(index["faults"])
    shards = f"{index['shards']:,} shard{'s' if index['shards'] != 1 else ''}"
    return (
        f"{shards}, {index['bytes'] / 1e6:.1f} MB: "
        f"{f'{damaged:,} damaged' if damaged else 'intact'} ({index['verified_seconds']:.2f} s)"
    )


def _fits_text(index: dict[str, Any]) -> str:
    """Return whether an index matches model and KG, in words."""
    if index["fits"]:
        return "yes"
    return "no: " + "; ".join(index.get("differs", ["damaged"]))
