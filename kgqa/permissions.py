"""Permissions of written files: the owner's alone, unless an existing folder is open to others.

Questions are private and some dumps licensed. So new folders are 0700 and new files 0600; inside a
folder that was there before they follow its mode, so that a home may be shared by a group.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def inherit_permissions(folder: Path) -> Iterator[None]:
    """Give files created inside the block the permissions of ``folder``, which may not exist.

    It sets the mask of the process: for commands and tasks beside which nothing else runs.
    """
    before = os.umask(mask_of(folder))
    try:
        yield
    finally:
        os.umask(before)


def mask_of(folder: Path) -> int:
    """Return the umask with which new files have the permissions of ``folder``.

    It never lets everybody write, nor takes access from the owner; for a missing folder it lets
    nobody else read.
    """
    try:
        return 0o077 & ~folder.stat().st_mode | 0o002
    except OSError:
        return 0o077  # it is still to be made


def sharing_note(folder: Path) -> str:
    """Return a note if other users may read ``folder``, "" if not."""
    note = readable_note(folder)
    return f"{note[:-1]}, and so is what is written there." if note else ""


def readable_note(path: Path) -> str:
    """Return a note if other users may read the file ``path``, "" if not."""
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return ""
    if os.name == "nt" or not mode & 0o044:
        return ""
    whom = "world" if mode & 0o004 else "group"
    return f"{path} is {whom}-readable (mode {mode:o})."
