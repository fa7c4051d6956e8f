"""The dumps' own forms, turned into batches of entities and edges. Knows no store.

>>> make_loader("freebase", language="de").direction
'out'
"""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kgqa import registry
from kgqa.errors import UsageError

if TYPE_CHECKING:
    from kgqa.loaders.base import Loader

LOADERS: dict[str, tuple[str, str]] = {
    "freebase": ("FreebaseLoader", "FreebaseOptions"),
    "conceptnet": ("ConceptnetLoader", "ConceptnetOptions"),
    "umls": ("UmlsLoader", "UmlsOptions"),
    "triples": ("TriplesLoader", "TriplesOptions"),
}
"""Name of a loader, which is its module's too → its class and the class of its options."""


def make_loader(name: str, **options: Any) -> Loader:
    """Return the loader ``name`` with ``options``; one that is None keeps its default.

    Raises UsageError where there is no such loader or option, or an option has no sense.
    """
    if name not in LOADERS:
        raise UsageError(f"There is no loader {name!r}.", f"There are: {', '.join(LOADERS)}.")
    loader: Loader
    module = import_module(f"kgqa.loaders.{name}")
    loader_class, options_class = (getattr(module, part) for part in LOADERS[name])
    if hasattr(loader_class, "Options"):
        loader = loader_class(registry.LOADERS.options(name, options))
        return loader
    known = [field.name for field in dataclasses.fields(options_class)]
    given = {option: value for option, value in options.items() if value is not None}
    if unknown := sorted(set(given) - set(known)):
        raise UsageError(
            f"The loader {name} has no option {', '.join(unknown)}.",
            f"It has: {', '.join(known)}.",
        )
    loader = loader_class(options_class(**given))
    return loader
