"""Names in the form in which they are compared, a column at a time.

``normalise`` says what that form is; the columns here say the same (most names are ASCII, and for
those Arrow's kernels do it). What it does not do: rank or suggest.
"""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NOT_WORD = re.compile(r"[\W_]+")


def normalise(name: str) -> str:
    """Return the form in which names are compared: NFKC, case folded, words joined by one space.

    Stores keep it beside names and aliases, so that a look-up means the same in each.

    >>> normalise("  Lewis & Clark's  Expédition ")
    'lewis clark s expédition'
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return _NOT_WORD.sub(" ", folded).strip()


def is_storable(text: str) -> bool:
    """Return whether a store can hold a text: a lone surrogate has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def normalise_column(names: pa.Array) -> pa.Array:
    """Return :func:`normalise` of every name (strings without nulls)."""
    plain = pc.string_is_ascii(names)
    lowered = pc.ascii_lower(names)
    done = pc.ascii_trim(pc.replace_substring_regex(lowered, "[^0-9a-z]+", " "), " ")
    others = pc.invert(plain)
    if not pc.any(others).as_py():
        return done
    by_hand = [normalise(name) for name in names.filter(others).to_pylist()]
    return pc.replace_with_mask(done, others, pa.array(by_hand, type=names.type))


def normalised_names(nodes: pa.RecordBatch, start: int) -> pa.RecordBatch:
    """Return (norm, key) of the names and aliases of a batch of nodes, unique, in no order.

    ``start`` is the key of the first row. Mediators and values have none; empty forms are left out.
    """
    from kgqa.graph.model import NAME_SCHEMA, Kind

    keys = pa.array(np.arange(start, start + len(nodes)))
    named = pc.equal(nodes.column("kind"), pa.scalar(Kind.ENTITY, pa.uint8()))
    rows, keys = nodes.filter(named), keys.filter(named)
    aliases = rows.column("aliases")
    owners = keys.take(pc.list_parent_indices(aliases))
    texts = pa.concat_arrays([rows.column("name"), pc.list_flatten(aliases)])
    keys = pa.concat_arrays([keys, owners])
    there = texts.is_valid()
    norms, keys = normalise_column(texts.filter(there)), keys.filter(there)
    there = pc.greater(pc.binary_length(norms), 0)
    table = pa.table([norms.filter(there), keys.filter(there)], schema=NAME_SCHEMA)
    unique = table.group_by(["norm", "key"]).aggregate([]).combine_chunks()
    batches = unique.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=NAME_SCHEMA)
