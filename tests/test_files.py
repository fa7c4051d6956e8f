"""Files of settings: what nobody writes is refused in a sentence, and nothing is waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgqa.files import read_settings


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a = " + "[" * 50_000 + "]" * 50_000, "nested too deeply"),
        (".".join(["a"] * 100_000) + " = 1", "nested too deeply"),
        ("#" * (17 << 20), "more than 16 MB"),
        ("a = 1\na = 2", "overwrite"),
    ],
    ids=["lists", "keys", "large", "twice"],
)
def test_a_file_of_settings_that_nobody_writes_is_refused(
    tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "some.toml"
    file.write_text(content)
    with pytest.raises(ValueError, match=said):
        read_settings(file)


def test_settings_are_read_with_the_mark_that_editors_put_first(tmp_path: Path) -> None:
    for name, content in (("a.toml", 'a = "1.2"\r\n'), ("a.json", '{"a": "1.2"}')):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
        assert read_settings(tmp_path / name) == {"a": "1.2"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_no_pipe_or_device_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ValueError, match="pipe or a device"):
            read_settings(file)
