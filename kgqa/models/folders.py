"""Model folders: a card in JSON, which says what a model was trained for, beside its weights.

Adapters, graph reasoners and path rankers are each a :class:`ModelKind`. A model is named by its
folder, or by the name of a bundled one.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from kgqa.errors import AdapterMismatchError, ModelError, ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Card: TypeAlias = dict[str, Any]
    Array: TypeAlias = NDArray[np.float32]
    Changes: TypeAlias = Mapping[str, tuple[Array, Array]]

CardT = TypeVar("CardT")
WeightsName: TypeAlias = Annotated[str, Field(pattern=r"^[\w-]+\.safetensors$")]  # beside its card
# Strict: True is not a number of hops. Infinity is written as text, which JSON has no number for.
CONFIG = ConfigDict(extra="forbid", strict=True, ser_json_inf_nan="strings")
BUNDLED = Path(__file__).parent.parent / "data"
MOSTLY = 0.5  # part of a KG's relations from which a model suits it
_DOWN, _UP = ".down", ".up"  # the two factors of a weight's change
_NO: Changes = {}
_MAX_LISTED_FAULTS = 3  # faults of a card that one message names


@dataclass
class ModelKind(Generic[CardT]):
    """A kind of model folder: its name in messages, its card type, and its bundled models.

    ``version``: the ``format_version`` that is supported; ``older``: converts a card of each
    earlier version to the next. ``again``: the hint of errors for an unusable model; ``files``: the
    files of a folder.
    """

    what: str
    card_type: type[CardT]
    card_file: str
    version: int
    bundled: Path
    again: str
    files: str
    older: Mapping[int, Callable[[Card], Card]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Return the names of the bundled models, sorted."""
        return sorted(card.parent.name for card in self.bundled.glob(f"*/{self.card_file}"))

    def folder(self, name: str) -> Path:
        """Return a model's folder: an existing path, otherwise the bundled one with this name."""
        folder, ours = Path(name).expanduser(), self.bundled / name
        named = re.fullmatch(r"[\w-]{1,80}", name) and not folder.exists() and ours.is_dir()
        return ours if named else folder

    def shown(self, folder: Path) -> str:
        """Return a model's name in messages: a bundled one's name, otherwise the path."""
        return folder.name if folder.parent == self.bundled else str(folder)

    def card(self, folder: Path) -> CardT:
        """Return the card in a folder.

        Raises ModelNotFoundError if there is none, ModelError if it cannot be read or used,
        AdapterMismatchError for another version (checked first: it may have other fields).
        """
        file, what, again = folder / self.card_file, self.what, self.again
        try:
            content = json.loads(file.read_text("utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            fault = f"has no {file.name}" if folder.is_dir() else "is not there"
            raise ModelNotFoundError(
                f"The {what} folder {folder} {fault}.",
                f"A folder of this kind has {self.files}; bundled are: "
                f"{', '.join(self.names()) or 'none'}.",
            ) from None
        except json.JSONDecodeError as error:
            raise ModelError(
                f"The {what} card {file} is not JSON: {error.msg}, line {error.lineno}.", again
            ) from None
        except (OSError, ValueError, RecursionError) as error:
            raise ModelError(f"The {what} card {file} cannot be read: {error}.", again) from None
        if not isinstance(content, dict):
            raise ModelError(f"The {what} card {file} is not a JSON object.", again)
        version = content.get("format_version")
        while type(version) is int and version in self.older:
            content = {**self.older[version](content), "format_version": version + 1}
            version += 1
        if version is None:
            raise ModelError(f"The {what} card {file} does not say its format_version.", again)
        if type(version) is not int or version != self.version:
            raise AdapterMismatchError(
                f"The {what} card {file} has format version {version}; this kgqa reads versions up "
                f"to {self.version}.",
                f"Use the kgqa version that wrote it. {again}",
            )
        try:
            # as JSON text, so that lists of strings become tuples in spite of strict types
            return TypeAdapter(self.card_type).validate_json(json.dumps(content))
        except ValidationError as error:
            faults = "; ".join(_fault(fault) for fault in error.errors()[:_MAX_LISTED_FAULTS])
            raise ModelError(f"The {what} card {file} is not usable: {faults}.", again) from None

    def weights(self, folder: Path, name: str) -> dict[str, NDArray[np.float32]]:
        """Read the tensors of the weights file ``name`` in a folder.

        Raises ModelNotFoundError, ModelError.
        """
        import numpy as np
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        file = folder / name
        if not file.is_file():
            raise ModelNotFoundError(f"The {self.what} folder {folder} has no {name}.", self.again)
        try:
            with np.errstate(over="ignore"):
                state = {key: tensor.astype(np.float32) for key, tensor in load_file(file).items()}
        except (OSError, SafetensorError, ValueError) as error:
            raise ModelError(f"The weights {file} are damaged: {error}.", self.again) from None
        if not all(np.isfinite(tensor).all() for tensor in state.values()):
            raise ModelError(f"The weights {file} are damaged: not all are numbers.", self.again)
        return state

    def read(self, folder: Path) -> tuple[CardT, dict[str, Array], Changes]:
        """Read a folder's card, its tensors, and its low-rank changes of the encoder's weights.

        Errors of :meth:`card` and :meth:`weights` propagate.
        """
        card: Any = self.card(folder)
        state = self.weights(folder, card.weights)
        names = sorted(name.removesuffix(_UP) for name in state if name.endswith(_UP))
        try:
            changes = {name: (state.pop(name + _DOWN), state.pop(name + _UP)) for name in names}
        except KeyError as error:
            raise ModelError(
                f"The weights {folder / card.weights} are damaged: {error}.", self.again
            ) from None
        return card, state, changes

    def save(
        self, folder: Path, card: CardT, tensors: Mapping[str, NDArray[Any]], changes: Changes = _NO
    ) -> None:
        """Write ``card`` and its weights, as float16 except integers, into ``folder``, creating it.

        ``changes``: for the name of each changed weight ``[out, in]`` of an encoder the factors
        ``[rank, in]`` and ``[out, rank]`` (LoRA) whose product is added to it.

        The card is replaced atomically, and the old weights stay until the next save: a reader sees
        either the old model or the new one. Raises ModelError.
        """
        import numpy as np
        from safetensors.numpy import save

        state = dict(tensors)
        for name, (down, up) in changes.items():
            state |= {name + _DOWN: down, name + _UP: up}
        weights = save(
            {
                name: np.ascontiguousarray(tensor, None if tensor.dtype.kind == "i" else np.float16)
                for name, tensor in state.items()
            }
        )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            names = [f"{Path(self.card_file).stem}{end}.safetensors" for end in ("", "-2")]
            with suppress(OSError, ValueError, AttributeError):
                before = json.loads((folder / self.card_file).read_bytes()).get("weights", names[0])
                names.sort(key=lambda name: name == before)
            content = card_content(card) | {"weights": names[0]}
            text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
            for name, written in ((names[0], weights), (self.card_file, text.encode())):
                part = folder / f".{name}.partial"
                with part.open("wb") as file:
                    file.write(written)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(folder / name)
        except OSError as error:
            raise ModelError(f"The model cannot be written to {folder}: {error}.") from None


def card_content(card: Any) -> dict[str, Any]:
    """Return the fields of a card as they stand in its JSON file."""
    content: dict[str, Any] = json.loads(TypeAdapter(type(card)).dump_json(card))
    return content


def _fault(error: Any) -> str:
    """Return a validation error of pydantic as a sentence about a card's field."""
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "unexpected_keyword_argument":
        message = "it is not known"
    elif error["type"] == "missing":
        message = "it is missing"
    name = ".".join(map(str, error["loc"]))
    return f"field {name}: {message}" if name else message


def known_part(known: Collection[str], relations: Sequence[str]) -> float:
    """Return the fraction of a KG's ``relations`` (ids) that a model knows; 1 for no relations.

    ``known``: ids of relations, or their part before the first dot ("people").
    """
    ids = frozenset(known)
    count = sum(relation in ids or relation.partition(".")[0] in ids for relation in relations)
    return count / len(relations) if relations else 1.0


def suits(known: Collection[str], relations: Sequence[str]) -> bool:
    """Return whether a model knows most of a KG's ``relations``, or was trained for no special KG.

    ``known`` as in :func:`known_part`.
    """
    return not known or known_part(known, relations) >= MOSTLY
