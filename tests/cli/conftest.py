"""The command line run in this process, as `kgqa` runs it, over homes with the bundled sample."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from kgqa.cli import main

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = "Where was Barack Obama born?"
STORED = ("m.02mjmr", "Apollo 13")  # the entities whose tries are in the index

_OURS = ("KGQA_", "NEO4J_", "OPENAI_")


@dataclass(frozen=True)
class Outcome:
    """What a run of a command left: its exit code and everything it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout; anything else there fails the test."""
        assert self.code == 0, self.err
        assert self.out.count("\n") == 1
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def error(self) -> str:
        """The error's line: the last on stderr, after notes; nothing on stdout, exit code 1."""
        assert self.code == 1, (self.out, self.err)
        assert self.out == ""
        assert "Traceback" not in self.err
        lines = self.err.splitlines()
        assert [line for line in lines if line.startswith("Error: ")] == lines[-1:], self.err
        return lines[-1]


class Kgqa(Protocol):
    """Runs `kgqa ARGUMENTS…`; keywords are environment variables."""

    def __call__(self, *arguments: str | Path, **env: str | Path) -> Outcome: ...


@pytest.fixture(scope="session")
def kgqa(model_cache: Path) -> Kgqa:
    def run(*arguments: str | Path, **env: str | Path) -> Outcome:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        code = 0
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name in os.environ:
                if name.startswith(_OURS) and not name.startswith("KGQA_TEST_"):
                    patch.delenv(name)
            patch.setenv("KGQA_CACHE", str(model_cache))
            patch.setenv("KGQA_DEVICE", "cpu")
            for name, value in env.items():
                patch.setenv(name, str(value))
            patch.setattr(sys, "argv", ["kgqa", *map(str, arguments)])
            try:
                main()
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else int(left.code is not None)
        texts = []
        for stream in (out, err):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
        return Outcome(code, *texts)

    return run


@pytest.fixture(scope="session")
def plain_home(kgqa: Kgqa, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the bundled Freebase sample and no index. Shared: copy it to change it."""
    home = tmp_path_factory.mktemp("plain") / "home"
    assert kgqa("ingest", "freebase", "--home", home).code == 0
    return home


@pytest.fixture(scope="session")
def home(kgqa: Kgqa, plain_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the sample and an index for two entities. Shared: copy it to change it."""
    folder = tmp_path_factory.mktemp("indexed")
    home = shutil.copytree(plain_home, folder / "home")
    entities = folder / "entities.txt"
    entities.write_text("\n".join(STORED), encoding="utf-8")
    done = kgqa("precompute-tries", "--entities", entities, "--home", home)
    assert done.code == 0, done.err
    return home


@pytest.fixture
def own_home(home: Path, tmp_path: Path) -> Path:
    """A copy of the indexed home that a test may damage."""
    return shutil.copytree(home, tmp_path / "home")


@pytest.fixture(scope="session")
def quick(kgqa: Kgqa, tiny_folder: Path) -> Kgqa:
    """Commands with a tiny model of random weights, where it does not matter what is answered."""
    return partial(kgqa, KGQA_MODEL=tiny_folder)


@pytest.fixture(scope="session")
def healthy(kgqa: Kgqa, tiny_folder: Path, home: Path) -> dict[str, Any]:
    """The JSON of a question that the index serves, by a tiny model of random weights."""
    asked = ("ask", QUESTION, "--method", "gcr", "--k", "2", "--json", "--home", home)
    return kgqa(*asked, KGQA_MODEL=tiny_folder).json
