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
    """Give what is made inside the block the permissions of ``folder``, which need not exist.

    The mask is the process's: for commands and tasks that nothing else runs beside.
    """
    before = os.umask(mask_of(folder))
    try:
        yield
    finally:
        os.umask(before)


def mask_of(folder: Path) -> int:
    """Return the mask under which new files have the permissions of ``folder``.

    Nothing is ever made that everybody may write to, or that its owner may not.
    """
    try:
        return 0o077 & ~folder.stat().st_mode | 0o002
    except OSError:
        return 0o077  # it is still to be made


def sharing_note(folder: Path) -> str:
    """Return a note if others may read ``folder``, empty if not."""
    note = readable_note(folder)
    return f"{note[:-1]}, and so is what is written there." if note else ""


def readable_note(path: Path) -> str:
    """Return a note if others than its owner may read ``path``, empty if not."""
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return ""
    if os.name == "nt" or not mode & 0o044:
        return ""
    whom = "world" if mode & 0o004 else "group"
    return f"{path} is {whom}-readable (mode {mode:o})."
