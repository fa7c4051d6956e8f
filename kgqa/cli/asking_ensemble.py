"""``--method ensemble`` and ``--method auto``: graph-constrained decoding and a walker together.

What this does not do: make the members themselves (``kgqa.cli.making``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgqa.cli.making import Parts, Ready

# Chosen on development questions: docs/methods.md.
WEIGHTS = {"gcr": 1.0, "kg-cot": 1.0}
SURE = 0.98


def make_ensemble(parts: Parts) -> Ready:
    """Return both members in one, ``auto`` with the walker asked first.

    Where no walker was trained for the KG, or no sentence encoder is installed, ``auto`` is GCR
    alone, and a note says so; an ``ensemble`` takes what walker there is. Raises what making a
    member raises.
    """
    from kgqa.cli.making import MAKERS
    from kgqa.errors import AdapterMismatchError, ModelNotFoundError
    from kgqa.models.adapter import AdapterCard
    from kgqa.reasoning.confidence import ConfidenceOptions
    from kgqa.reasoning.ensemble import Ensemble
    from kgqa.reasoning.kg_cot_scores import fitting_walker

    flags = parts.flags
    auto = flags.method == "auto"

    def member(name: str, walker: str | None = None) -> Ready:
        mine = replace(flags, method=name, walker=walker)
        return MAKERS[name](replace(parts, flags=mine, general=None))

    try:
        # the confidence of a walker from another KG says nothing, so it cannot answer alone
        named = flags.walker
        if auto and named is None:
            named, told = fitting_walker(parts.store)
            if told:
                raise AdapterMismatchError(told)
        walker = member("kg-cot", named)
    except (AdapterMismatchError, ModelNotFoundError) as error:
        if not auto or flags.walker is not None:
            raise
        parts.run.note(f"{error.message} Answering by --method gcr.")
        return MAKERS["gcr"](replace(parts, flags=replace(flags, method="gcr")))
    gcr = member("gcr")
    order = [("kg-cot", walker), ("gcr", gcr)] if auto else [("gcr", gcr), ("kg-cot", walker)]
    judging = flags.weigh.confidence if flags.weigh else ConfidenceOptions()
    method = Ensemble(
        tuple(ready.method for _, ready in order),
        tuple(WEIGHTS[name] for name, _ in order),
        judging,
        SURE if auto else None,
    )
    card = AdapterCard(
        hops=gcr.settings["hops"] or AdapterCard().hops,
        direction=gcr.settings["direction"] or AdapterCard().direction,
        mediators=gcr.settings["mediators"],
    )
    settings = {
        **walker.settings,
        **gcr.settings,
        "method": flags.method,
        "walker": walker.settings["walker"],
        "weights": dict(WEIGHTS),
        "sure": method.sure,
        "general_model": parts.general.model if parts.general else None,
    }
    return parts.ready(method, card, settings, gcr.index)
