"""``--method ensemble`` and ``--method auto``: graph-constrained decoding and a reasoner together.

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
    """Return both members in one, ``auto`` with the reasoner asked first.

    Where no reasoner was trained for the KG, or no sentence encoder is installed, ``auto`` is GCR
    alone, and a note says so; an ``ensemble`` takes what reasoner there is. Raises what making a
    member raises.
    """
    from kgqa.answers.confidence import ConfidenceOptions
    from kgqa.cli.making import MAKERS
    from kgqa.errors import AdapterMismatchError, ModelNotFoundError
    from kgqa.methods.ensemble import Ensemble
    from kgqa.methods.kg_cot.scores import fitting_reasoner
    from kgqa.models.adapter import AdapterCard

    flags = parts.flags
    auto = flags.method == "auto"

    def member(name: str, reasoner: str | None = None) -> Ready:
        mine = replace(flags, method=name, reasoner=reasoner)
        return MAKERS[name](replace(parts, flags=mine, general=None))

    try:
        # the confidence of a reasoner from another KG says nothing, so it cannot answer alone
        named = flags.reasoner
        if auto and named is None:
            named, told = fitting_reasoner(parts.store)
            if told:
                raise AdapterMismatchError(told)
        reasoner = member("kg-cot", named)
    except (AdapterMismatchError, ModelNotFoundError) as error:
        if not auto or flags.reasoner is not None:
            raise
        parts.run.note(f"{error.message} Answering by --method gcr.")
        return MAKERS["gcr"](replace(parts, flags=replace(flags, method="gcr")))
    gcr = member("gcr")
    order = [("kg-cot", reasoner), ("gcr", gcr)] if auto else [("gcr", gcr), ("kg-cot", reasoner)]
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
        **reasoner.settings,
        **gcr.settings,
        "method": flags.method,
        "reasoner": reasoner.settings["reasoner"],
        "weights": dict(WEIGHTS),
        "sure": method.sure,
        "general_model": parts.general.model if parts.general else None,
    }
    return parts.ready(method, card, settings, gcr.index)
