"""What can be registered, and what options each entry has: for help, tables and the docs."""

from __future__ import annotations

from typing import Any

from kgqa import registry
from kgqa.errors import UsageError

REGISTRIES = {
    "methods": registry.METHODS,
    "searches": registry.SEARCHES,
    "loaders": registry.LOADERS,
    "stores": registry.STORES,
    "formats": registry.QUESTION_FORMATS,
}


def options(name: str | None = None) -> dict[str, Any]:
    """Return the options of a method, a search, a loader, a store or a question format.

    The options are dictionaries of type, default and help by option name, under each kind that has
    an entry ``name``. Without a name, return every entry of every kind, with its help. Raises
    UsageError.
    """
    if name is None:
        return {
            kind: {entry.name: entry.help for entry in table.entries()}
            for kind, table in REGISTRIES.items()
        }
    infos = {}
    for kind, table in REGISTRIES.items():
        if name not in table.names():
            continue
        model = table.entry(name).options_model()
        infos[kind] = _fields(model)
        for part, of in model.parts.items():
            for entry in of.entries():
                extra = _fields(entry.options_model())
                if extra:
                    infos[f"{part} {entry.name}"] = extra
    if not infos:
        raise UsageError(f"Unknown name '{name}'.", "List them with `kgqa options`.")
    return infos


def _fields(model: type[registry.Options]) -> dict[str, Any]:
    return {
        name: {
            "type": registry.type_words(info),
            "default": info.default if isinstance(info.default, int | float | str) else None,
            "help": info.description or "",
        }
        for name, info in model.model_fields.items()
        if not name.endswith("_options")
    }
