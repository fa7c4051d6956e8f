"""What is installed: the wheel is whole, the locks are exact and portable."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

CHECKOUT = Path(__file__).resolve().parent.parent
LOCKS = [
    "requirements.lock",
    "requirements-test.lock",
    "requirements-light.lock",
    "kgqa/data/models/encoder.lock",
    "kgqa/data/models/large.lock",
    "kgqa/data/models/llm.lock",
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the package is built from: building writes into its folder."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, copy)
    for name in ("kgqa", "loaders", "cypher", "sparql"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / name, copy / name, symlinks=True, ignore=ignored)
    return copy


def build(kind: str, source: Path, target: Path) -> Path:
    """Build a wheel or an sdist by the backend that pyproject.toml names, without a network."""
    code = f"import sys, setuptools.build_meta as b; b.build_{kind}(sys.argv[1])"
    command = [sys.executable, "-c", code, str(target)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    (built,) = target.iterdir()
    return built


def shipped() -> set[str]:
    """The files that must be installed: everything of the package in the checkout."""
    found = set()
    for name in ("kgqa", "kgqa/loaders", "kgqa/cypher", "kgqa/sparql"):
        for path in (CHECKOUT / name).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                found.add(path.relative_to(CHECKOUT).as_posix())
    return found


def test_a_wheel_of_the_sdist_holds_every_file_of_the_package_and_nothing_beside_it(
    source: Path, tmp_path: Path
) -> None:
    with tarfile.open(build("sdist", source, tmp_path / "sdist")) as sdist:
        # absent before 3.11.4, and said to be missing where it is not set from 3.12 on
        sdist.extraction_filter = getattr(tarfile, "data_filter", None)
        sdist.extractall(tmp_path / "unpacked")
    (source,) = (tmp_path / "unpacked").iterdir()
    with zipfile.ZipFile(build("wheel", source, tmp_path / "wheel")) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        records = {name.split("/", 1)[1] for name in wheel.namelist() if ".dist-info/" in name}
    wanted = shipped()
    assert {
        "kgqa/cypher/neighbours_out.cypher",
        "kgqa/sparql/there.rq",
        "kgqa/loaders/freebase.py",
    } <= wanted
    assert "kgqa/data/freebase/sample.nt.gz" in wanted
    assert sorted(wanted - names) == []
    assert sorted(names - wanted) == []
    assert {"entry_points.txt", "licenses/LICENSE"} <= records


def pinned(lock: str) -> dict[str, str]:
    """The packages of a lock file and their versions."""
    text = (CHECKOUT / lock).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_package_with_a_hash_and_names_no_place(lock: str) -> None:
    text = (CHECKOUT / lock).read_text(encoding="utf-8")
    assert not re.search(r"://|^-|@ |\bfile:|(^|\s)/\w", text, re.MULTILINE)
    body = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    entry = re.compile(
        r"[a-z0-9._-]+==\S+( ;[^\\\n]*)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n", re.MULTILINE
    )
    assert body
    assert entry.sub("", body) == ""


@pytest.mark.parametrize(
    ("lock", "extras"),
    [(LOCKS[0], ["serve", "llm"]), (LOCKS[1], ["test", "llm"]), (LOCKS[2], ["serve"])],
)
def test_a_lock_satisfies_what_the_project_asks_for(lock: str, extras: list[str]) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    versions = pinned(lock)
    for requirement in map(Requirement, wanted):
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert versions[name] in requirement.specifier, requirement


def test_a_larger_lock_holds_all_of_a_smaller_one_in_the_same_versions() -> None:
    # what the scripts rely on: an environment for tests serves the demo as it stands
    run, test, light = pinned(LOCKS[0]), pinned(LOCKS[1]), pinned(LOCKS[2])
    assert light
    assert light.items() <= run.items() <= test.items()


def test_the_light_lock_has_nothing_of_a_language_model() -> None:
    names = set(pinned("requirements-light.lock"))
    assert not names & {"torch", "transformers", "peft", "gguf", "accelerate"}
    assert not [name for name in names if name.startswith(("nvidia-", "cuda-"))]


@pytest.mark.parametrize("lock", LOCKS[:3])
def test_a_lock_holds_what_builds_the_project_which_no_step_fetches(lock: str) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))
    for requirement in map(Requirement, project["build-system"]["requires"]):
        assert pinned(lock)[requirement.name] in requirement.specifier


def test_the_version_is_one_and_the_changelog_begins_with_it() -> None:
    from kgqa.version import __version__

    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["dynamic"] == ["version"]
    assert f"\nversion: {__version__}\n" in (CHECKOUT / "CITATION.cff").read_text("utf-8")
    newest = re.search(r"^## (.*)$", (CHECKOUT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__


def test_an_entry_of_the_changelog_is_one_line_that_fits_a_screen() -> None:
    lines = (CHECKOUT / "CHANGELOG.md").read_text("utf-8").splitlines()
    entries = [line for line in lines if line.strip() and not line.startswith(("#", "**"))]
    assert entries
    assert [line for line in entries if len(line) > 120 or not line.startswith("- ")] == []


def test_the_image_is_built_from_what_is_pinned() -> None:
    text = (CHECKOUT / "Dockerfile").read_text("utf-8")
    given = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert bases
    for base in bases:
        base = re.sub(r"\$\{(\w+)\}", lambda name: given[name[1]], base)
        assert re.fullmatch(r"python:3\.\d+\.\d+-[a-z-]+@sha256:[0-9a-f]{64}", base), base
    installed = re.findall(r"pip install (.*)", text)
    assert installed
    for each in installed:
        named = [one for one in each.split() if not one.startswith("-")]
        assert all(re.fullmatch(r"[a-z-]+==[\d.]+", one) for one in named), each
    composed = (CHECKOUT / "docker-compose.yml").read_text("utf-8")
    assert all(re.search(r":\d+\.\d+\.\d+", one) for one in re.findall(r"image: (.*)", composed))
