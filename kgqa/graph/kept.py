"""What is computed from a KG is kept beside it, a file each, for as long as the KG is the same.

A file is a safetensors file, mapped when it is read, whose header says which version of which KG it
is of, what computed it, and a checksum. Nothing here fails a question: what cannot be read, or is
of something else, is computed again; what cannot be written is computed by the next process, too.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from kgqa.files import write_cache
from kgqa.graph.store import EndpointStore
from kgqa.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kgqa.graph.store import GraphStore

    Arrays = Mapping[str, NDArray[Any]]

KEPT = "graph.kept"  # the folder of it in a KG's folder
_PACKAGE = Path(__file__).resolve().parent.parent
_MOST_HEADER = 1 << 26
_TYPES = {"I64": np.int64, "I32": np.int32, "U8": np.uint8, "F32": np.float32, "F64": np.float64}


class Kept:
    """A cache of arrays computed from ``version`` of a KG, in ``folder``; None caches nothing."""

    def __init__(self, folder: Path | None, version: str) -> None:
        self._folder, self._version = folder, version

    def read(self, name: str, made_by: Sequence[str]) -> tuple[Arrays, Any] | None:
        """Read the cached arrays and JSON content ``name``; None if absent, outdated or damaged.

        ``made_by``: modules of this package that computed them; entries of other code are outdated.
        Arrays are memory-mapped.
        """
        if self._folder is None or not self._version:
            return None
        try:
            return _read(self._folder / f"{name}.safetensors", self._mark(made_by))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _log_debug(f"{name} is not read from {self._folder}: {error}")
            return None

    def write(self, name: str, made_by: Sequence[str], arrays: Arrays, content: Any = None) -> None:
        """Write arrays and JSON content to the cache as ``name``, for this version of the KG.

        A failure to write is only logged.
        """
        from safetensors.numpy import save

        if self._folder is None or not self._version:
            return
        packed = {key: np.ascontiguousarray(one) for key, one in arrays.items()}
        packed = packed or {"none": np.zeros(1, np.uint8)}
        sums = {key: str(crc32(one.tobytes())) for key, one in packed.items()}
        text = json.dumps(content)
        header = {"mark": self._mark(made_by), "content": text, "sums": json.dumps(sums)}
        header["sum"] = str(crc32(text.encode()))
        path = self._folder / f"{name}.safetensors"
        try:
            write_cache(path, save(packed, header))
        except OSError as error:
            _log_debug(f"{name} is not kept in {self._folder}: {error}")

    def _mark(self, made_by: Sequence[str]) -> str:
        """Return the text that identifies a cache entry: the KG's version and the code's digest."""
        return f"{self._version} {_code(tuple(made_by))}"


def kept_of(store: GraphStore) -> Kept:
    """Return the cache of a store's KG at the store's version."""
    return Kept(getattr(store, "kept_in", None), store.info.version)


def kept_of_endpoint(store: Any) -> Kept:
    """Return the cache of a SPARQL endpoint's KG; for other stores, one that caches nothing."""
    is_endpoint = isinstance(store, EndpointStore)
    return kept_of(store) if is_endpoint else Kept(None, "")


def _read(path: Path, mark: str) -> tuple[Arrays, Any] | None:
    """Map a safetensors file; None if ``mark`` differs: it is of another version or code.

    Raises ValueError if it is damaged.
    """
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > _MOST_HEADER:
            raise ValueError("its header is too long")
        header = json.loads(file.read(size))
        named = header.pop("__metadata__")
        if named["mark"] != mark:
            return None
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if crc32(named["content"].encode()) != int(named["sum"]):
        raise ValueError("it is damaged")
    sums, arrays = json.loads(named["sums"]), {}
    for key, one in header.items():
        start, end = (8 + size + at for at in one["data_offsets"])
        part = mapped[start:end]
        if len(part) != end - start or crc32(part) != int(sums[key]):
            raise ValueError("it is damaged")
        arrays[key] = np.frombuffer(part, _TYPES[one["dtype"]]).reshape(one["shape"])
    return arrays, json.loads(named["content"])


@cache
def _code(modules: tuple[str, ...]) -> str:
    """Return a digest of the source of some modules, so that results of other code are not read."""
    hashed = hashlib.sha256(__version__.encode())
    for one in ("graph/kept.py", *modules):
        with suppress(OSError):
            hashed.update((_PACKAGE / one).read_bytes())
    return hashed.hexdigest()[:16]


def _log_debug(text: str) -> None:
    """Log a message at debug level."""
    logging.getLogger("kgqa").debug("%s", text)
