"""Flags from an options model: a command that takes what the model marks as flags."""

from __future__ import annotations

import inspect
import re
import types
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import typer

from kgqa.registry import is_flag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic.fields import FieldInfo

    from kgqa.registry import Options


def with_flags(
    model: type[Options], names: Mapping[str, str]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of ``model`` in place of its ``**given``.

    ``names``: how a flag is spelled, if not by its field's name. A flag that is not given is None,
    so that the model's default holds.
    """

    def change(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        flags = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[
                    _kind(info) | None,
                    typer.Option(_spelled(name, info, names), help=_help(info)),
                ],
            )
            for name, info in model.model_fields.items()
            if is_flag(info)
        ]
        function.__signature__ = signature.replace(parameters=[*own, *flags])  # type: ignore[attr-defined]
        return function

    return change


def _kind(info: FieldInfo) -> Any:
    """Return the type of a flag: that of its field, several values as a list."""
    kind = info.annotation
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (one for one in get_args(kind) if one is not type(None))
    return list[get_args(kind)[0]] if get_origin(kind) is tuple else kind  # type: ignore[misc]


def _spelled(name: str, info: FieldInfo, names: Mapping[str, str]) -> str:
    flag = name.replace("_", "-")
    return names.get(name) or (f"--{flag}/--no-{flag}" if info.default is True else f"--{flag}")


def _help(info: FieldInfo) -> str:
    """Return the sentence of a field as the help shows it, with its default."""
    text = re.sub(
        r"`(\w+)`", lambda found: f"--{found[1].replace('_', '-')}", info.description or ""
    )
    shown = isinstance(info.default, str | int | float) and not isinstance(info.default, bool)
    return f"{text.removesuffix('.')} ({info.default})." if shown else text
