"""What several endpoints show: an answer as text, a page of paths, the methods there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgqa.display import (
    LONGEST,
    REFUSED,
    code_span,
    markdown,
    path_text,
    refusal,
    said_name,
)
from kgqa.errors import (
    EmptyLanguageError,
    EntityNotFoundError,
    KgqaError,
    LinkingError,
    without_secrets,
)
from kgqa.registry import METHODS
from kgqa.server.forms import MOST_PATHS, PathsForm
from kgqa.server.guard import asking

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kgqa.api import KG


UNANSWERABLE = (LinkingError, EntityNotFoundError, EmptyLanguageError)
"""Errors that say something about the question, and not about the request."""
_ANSWERS, _PATHS = 10, 5


def answer_text(response: Mapping[str, Any]) -> str:
    """Format an answer as Markdown: answers, the paths behind them, and notes.

    Names are untrusted text: each is quoted, and in a code span.
    """
    answers, paths = response["answers"], response["paths"]
    if not answers:
        rest = [note for note in response["notes"] if not note.startswith(REFUSED)]
        said = [refusal(response["notes"], response["confidence"]), *rest]
        return "\n\n".join([*map(markdown, said), *_readings_list(response)])
    names = [
        code_span(said_name(answer["name"])) + ("" if answer["grounded"] else " (in no path)")
        for answer in answers
    ]
    first = ", ".join(names[:_ANSWERS])
    if len(names) > _ANSWERS:
        first += f" and {len(names) - _ANSWERS} more"
    if response["confidence"] is not None:
        first += f" (confidence {min(round(100 * response['confidence']), 99)} %)"
    behind = list(dict.fromkeys(place for answer in answers for place in answer["paths"]))[:_PATHS]
    lines = [f"- {code_span(path_text(paths[place]['edges'], LONGEST))}" for place in behind]
    for answer in answers[:_ANSWERS]:
        lines += [
            f"- {code_span(said_name(each['asked']))}: "
            f"{code_span(path_text(each['edges'], LONGEST))}"
            for each in answer["conditions"]
        ]
    parts = [first]
    if lines:
        parts.append("\n".join(["Paths, each edge checked in the graph:", *lines]))
    return "\n\n".join([*parts, *map(markdown, response["notes"]), *_readings_list(response)])


def error_text(error: KgqaError) -> str:
    """Format an error as Markdown, without credentials."""
    return markdown(without_secrets(str(error)))


def _readings_list(response: Mapping[str, Any]) -> list[str]:
    """Return the plans that a question may mean as a numbered list; [] if it is unambiguous."""
    if not response.get("readings"):
        return []
    lines = [
        f"{at}. {markdown(reading['text'])}" for at, reading in enumerate(response["readings"], 1)
    ]
    return ["\n".join(["It may mean (choose by `reading`):", "", *lines])]


def path_page(kg: KG, form: PathsForm) -> dict[str, Any]:
    """Return one page of an entity's paths, as ``kgqa paths --json`` prints them."""
    from kgqa.api.qa import shared_name

    paths = kg.paths(
        form.entity,
        hops=form.hops,
        limit=form.limit,
        offset=form.offset,
        most=MOST_PATHS,
        direction=form.direction,
        mediators=form.mediators,
    )
    end = form.offset + form.limit
    return paths.to_dict() | {
        "next_offset": end if end < paths.total else None,
        "notes": [shared_name(form.entity, paths.entity)] if paths.entity.others else [],
        "browser_url": kg.browser_url(paths),
    }


def visible_status(report: Mapping[str, Any], served: Collection[str]) -> dict[str, Any]:
    """Return the part of a status for a client; ``served``: the KGs that it may access.

    A client whose key is bound to KGs gets these alone: folders, dumps and what is missing are the
    server's own, and may name others.
    """
    kgs = [kg for kg in report["kgs"] if kg["name"] in served]
    own = report if asking.get().opens_all else {}
    return {**own, "kgs": kgs}


def methods() -> list[dict[str, str]]:
    """Return name and help of the offered methods."""
    return [{"name": entry.name, "help": entry.help} for entry in METHODS.entries()]
