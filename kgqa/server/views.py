"""What several endpoints show: a page of paths, the methods that may be asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgqa.registry import METHODS
from kgqa.server.forms import MOST_PATHS

if TYPE_CHECKING:
    from kgqa.api import KG
    from kgqa.server.forms import PathsForm


def path_page(kg: KG, form: PathsForm) -> dict[str, Any]:
    """Return what ``kgqa paths --json`` prints, a page of it."""
    from kgqa.api.qa import shared_name

    found = kg.paths(
        form.entity,
        hops=form.hops,
        limit=form.limit,
        offset=form.offset,
        most=MOST_PATHS,
        direction=form.direction,
        mediators=form.mediators,
    )
    end = form.offset + form.limit
    return found.to_dict() | {
        "next_offset": end if end < found.total else None,
        "notes": [shared_name(form.entity, found.entity)] if found.entity.others else [],
        "browser_url": kg.browser_url(found),
    }


def methods() -> list[dict[str, str]]:
    """Return the methods that may be asked for."""
    return [{"name": entry.name, "help": entry.help} for entry in METHODS.entries()]
