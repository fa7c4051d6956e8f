"""Which reasoner fits a KG: that which was trained with most of its relations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.errors import AdapterMismatchError, ModelNotFoundError
from kgqa.models.folders import MOSTLY, known_part
from kgqa.models.graph_reasoner_card import REASONERS

if TYPE_CHECKING:
    from kgqa.graph.store import GraphStore


def fitting_reasoner(store: GraphStore | None) -> tuple[str, str]:
    """Return the bundled reasoner that fits ``store`` best, and what the user should know; or "".

    ``store`` is None if every question has a graph of its own. Raises ModelNotFoundError if
    none is bundled, AdapterMismatchError if none can walk this KG.
    """
    train = "Train one for this KG (kgqa train kg-cot), and name its folder with `reasoner`."
    cards = {name: REASONERS.card(REASONERS.folder(name)) for name in REASONERS.names()}
    if not cards:
        raise ModelNotFoundError("No reasoner is bundled.", train)
    by_text = [name for name, card in cards.items() if card.relations_by == "text"]
    if store is None:
        return (by_text or list(cards))[0], ""
    relations = store.relations().known
    known = {name: known_part(card.relations, relations) for name, card in cards.items()}
    best = max(cards, key=lambda name: known[name])
    if known[best] >= MOSTLY:
        return best, ""
    if not by_text:
        raise AdapterMismatchError(
            f"No bundled reasoner was trained for the KG {store.info.name}: {best} knows "
            f"{known[best]:.0%} of its relations.",
            train,
        )
    return by_text[0], (
        f"The reasoner {by_text[0]} was trained on another KG, and reads the relations of "
        f"{store.info.name} by their words. {train}"
    )
