"""The encodings of text that people have, and what stands above the first row of a table.

UTF-8 unless a file says otherwise: by a byte order mark, by the places of its zeros (UTF-16), or by
bytes outside UTF-8 in the place of letters, as in Windows-1252, in which Excel writes.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WESTERN = "cp1252"
CALLED = {WESTERN: "Windows-1252", "latin-1": "Latin-1"}
"""How encodings that were guessed are called in messages."""

NOT_WESTERN = (0x81, 0x8D, 0x8F, 0x90, 0x9D)  # bytes that Windows-1252 lacks
_ZEROS = 0.4  # share of the bytes of one half of UTF-16 that are zero in most languages
_LOOKED_AT = 1 << 16  # bytes, an even number
_SAYING = 12  # bytes from which the places of zeros say something
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HIGH = re.compile(rb"[\x80-\xff]+")
_IN_A_WORD = re.compile(
    rb"(?:(?<=[A-Za-z])[\xc0-\xfe]{1,2}|[\xc0-\xfe]{1,2}(?=[a-z])"  # ö in Köln, É in Évian
    rb"|[\x80\x91-\x97\xa0\xa3\xa7\xa9\xab\xae\xb0\xb1\xb7\xbb])"  # € ‘’ “” • – — nbsp £ § © « ® °
)
_MOSTLY = 0.9
_SAID_DELIMITER = re.compile(r"(?i)^sep=(.)$")
_NUMBER = re.compile(r"\d")
_LINE_END = re.compile(r"\r\n|\r|\n")
_ABOVE = 50  # lines above a header that are looked at


def wide_encoding(start: bytes) -> str:
    """Return the encoding of a file with these first bytes if UTF-16 or UTF-32, else "".

    >>> wide_encoding("id,name".encode("utf-16")), wide_encoding("id,name".encode("utf-16-be"))
    ('utf-16', 'utf-16-be')
    """
    start = start[:_LOOKED_AT]
    said = next((encoding for mark, encoding in _MARKS if start.startswith(mark)), "")
    if len(start) < _SAYING:
        return said
    half = len(start) // 2
    odd, even = start[1::2].count(0) / half, start[::2].count(0) / half
    if odd > _ZEROS > 4 * even:
        return said or "utf-16-le"
    if even > _ZEROS > 4 * odd:
        return said or "utf-16-be"
    return said


def is_western(data: bytes) -> bool | None:
    """Return whether text is Windows-1252; None for pure ASCII, which fits any encoding.

    It is if no line with other bytes is UTF-8, and most of these bytes are letters within words.
    """
    if data.isascii():
        return None
    high = 0
    for line in data.split(b"\n"):
        if line.isascii():
            continue
        high += len(_HIGH.findall(line))
        try:
            line.decode()
        except UnicodeDecodeError:
            continue
        return False
    if any(byte in data for byte in NOT_WESTERN):
        return False
    return len(_IN_A_WORD.findall(data)) >= _MOSTLY * high


def as_utf8(data: bytes, encoding: str) -> bytes:
    """Convert text of a guessed encoding to UTF-8; undefined bytes become one character each."""
    return data.decode(encoding, errors="replace").encode()


def lines_of(text: str) -> list[str]:
    r"""Split a text into lines at LF, CR LF and CR only; other separators belong to cells.

    >>> lines_of("one\u2028two\r\nthree\n")
    ['one\u2028two', 'three']
    """
    lines = _LINE_END.split(text)
    return lines[:-1] if not lines[-1] else lines


def above_rows(lines: Sequence[str], delimiters: Sequence[str]) -> tuple[int, str]:
    """Return how many lines precede a table, and the delimiter that the first one declares ("").

    Such lines are ``sep=;``, which Excel writes and reads, comments, and empty lines.
    """
    said = _SAID_DELIMITER.match(lines[0].strip()) if lines else None
    skipped = 1 if said else 0
    delimiters = said[1] if said else delimiters
    while skipped < min(_ABOVE, len(lines)) and _is_comment(lines, skipped, delimiters):
        skipped += 1
    return skipped, said[1] if said else ""


def _is_comment(lines: Sequence[str], place: int, delimiters: Sequence[str]) -> bool:
    """Return whether line ``place`` is empty or a comment, not a header such as ``#id,name``."""
    line = lines[place]
    if not line.strip():
        return True
    if not line.startswith("#"):
        return False
    after = next((each for each in lines[place + 1 :] if each.strip() and each[0] != "#"), "")
    parted = next((each for each in delimiters if line.count(each) == after.count(each) > 0), "")
    if not parted:
        return bool(after)
    pairs = zip(line.split(parted), after.split(parted), strict=True)
    above_numbers = any(_NUMBER.search(cell) and not _NUMBER.search(name) for name, cell in pairs)
    return line.startswith("# ") and not above_numbers
