"""The dumps' own forms, turned into batches of entities and edges. Knows no store.

>>> make_loader("freebase", language="de").direction
'out'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgqa.registry import LOADERS

if TYPE_CHECKING:
    from kgqa.loaders.base import Loader


def make_loader(name: str, **options: Any) -> Loader:
    """Return the loader ``name`` with ``options``; one that is None keeps its default.

    Raises UsageError if the loader or option does not exist, or an option does not fit.
    """
    loader: Loader = LOADERS.entry(name).load()(LOADERS.options(name, options))
    return loader
