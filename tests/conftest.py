"""Fixtures that several rooms use: the real offline model and a real OpenAI-compatible server.

Nothing heavy is imported before a test asks for it.
"""

from __future__ import annotations

import gc
import os
import random
import re
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.tiny import tiny

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kgqa.models.kg_llm import KgLLM

pytest_plugins = ["tests.graph.neo4j_server", "tests.fixtures"]

# A busy machine is not a failure. Only a full run draws new examples each time: in the usual one a
# test that fails does so because of the change under test.
settings.register_profile("full", deadline=None)
settings.register_profile("usual", deadline=None, derandomize=True)
settings.load_profile("usual")

os.environ["KGQA_ENCODER"] = "small"  # whatever this machine's user has installed

_SERVER_START_S = 400.0  # two seconds on an idle machine, minutes on a busy one


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run tests marked long")
    parser.addoption("--fast", action="store_true", help="only tests without a model or a server")
    parser.addoption("--shuffle", metavar="SEED", help="modules, and tests in each, in any order")


def pytest_configure(config: pytest.Config) -> None:
    if _is_full(config):
        settings.load_profile("full")


def _is_full(config: pytest.Config) -> bool:
    return bool(config.getoption("--full")) or os.environ.get("KGQA_TEST_FULL") == "1"


_SERVERS = {"in_neo4j": "Neo4j", "neo4j_server": "Neo4j", "openai_server": "an OpenAI server"}
_NAMED_SERVER = re.compile(rf"(?<!\.)\b({'|'.join(_SERVERS)})\b")  # not the module of that name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under pytest-xdist a module has one worker, and so have all that share a server."""
    from xdist.scheduler import LoadScopeScheduling

    scopes: dict[str, str] = {}

    class ByModule(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            if file not in scopes:
                named = _NAMED_SERVER.search((config.rootpath / file).read_text("utf-8"))
                scopes[file] = _SERVERS[named[1]] if named else file
            return scopes[file]

    return ByModule(config, log)


_SLOW = {
    *("kg_llm", "smollm_folder", "tiny_folder", "minilm", "quick", "serving", "served", "browser"),
    *("neo4j_server", "openai_server", "postgres", "cluster", "local", "sample_home", "home"),
    *("plain_home", "source", "shared"),
}  # fixtures that load a model, start a server or Ray, ingest the sample, build, or have real data
_SLOW_ROOMS = {"cli", "api", "server", "methods", "training", "evaluation"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Under --fast a room that it leaves out is not imported either."""
    return True if config.getoption("--fast") and collection_path.name in _SLOW_ROOMS else None


def _is_fast(item: pytest.Item) -> bool:
    """Return whether a test takes milliseconds: about the cores, without models and servers."""
    names = set(getattr(item, "fixturenames", ()))
    marks = {mark.name for mark in item.iter_markers()}
    room = item.path.parent.name
    return not (names & _SLOW or marks & {"model", "neo4j", "long"} or room in _SLOW_ROOMS)


def _draw_fewer(items: list[pytest.Item], share: float, least: int) -> None:
    """Let tests draw that share of the examples that they would, and ``least`` at least."""
    tests = {getattr(item.obj, "__func__", item.obj) for item in items if _is_drawn(item)}
    for test in tests:
        whole = test._hypothesis_internal_use_settings
        fewer = min(whole.max_examples, max(least, int(share * whole.max_examples)))
        test._hypothesis_internal_use_settings = settings(whole, max_examples=fewer)


def _is_drawn(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: what is imported and collected stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # nor is it looked through while tests run
        gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else some libraries complain that their objects are left at the end


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slow = [item for item in items if not _is_fast(item)]
    slow_files = {item.path for item in slow}
    if seed := config.getoption("--shuffle"):
        dice = random.Random(seed)
        dice.shuffle(items)
        place = {path: dice.random() for path in dict.fromkeys(item.path for item in items)}
        items.sort(key=lambda item: place[item.path])  # a module's tests stay together
    items.sort(key=lambda item: item.path not in slow_files)  # so that workers end together
    if config.getoption("--fast"):
        config.hook.pytest_deselected(items=slow)
        items[:] = filter(_is_fast, items)
    if _is_full(config):
        return
    _draw_fewer(items, *((0.0, 5) if config.getoption("--fast") else (0.25, 10)))
    skip = pytest.mark.skip(reason="long: only with --full")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def model_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of converted models: kept from run to run, for converting takes a while."""
    named = os.environ.get("KGQA_TEST_CACHE")
    if named:
        return Path(named)
    cache = getattr(request.config, "cache", None)  # absent under -p no:cacheprovider
    return cache.mkdir("kgqa-models") if cache else tmp_path_factory.mktemp("kgqa-models")


@pytest.fixture(scope="session", autouse=True)
def one_cache(model_cache: Path) -> Iterator[None]:
    """No home converts the offline model into a cache of its own, which takes half a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGQA_CACHE", str(model_cache))
        yield


@pytest.fixture(scope="session")
def smollm_folder(model_cache: Path) -> Path:
    """The real SmolLM2-135M-Instruct as a folder of safetensors and tokenizer files."""
    from kgqa.models.locate import smollm_folder
    from kgqa.progress import Silent

    return smollm_folder(model_cache, Silent())


@pytest.fixture
def minilm() -> None:
    """The offline sentence encoder; a test that needs it is skipped where it is not installed."""
    from kgqa.errors import ModelNotFoundError
    from kgqa.models.locate import minilm_folder

    try:
        minilm_folder()
    except ModelNotFoundError as error:
        pytest.skip(error.message)


@pytest.fixture(scope="session")
def tiny_folder(smollm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder: a tiny Llama with random weights behind SmolLM2's own tokenizer."""
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("models") / "Tiny-Llama"
    tokenizer = AutoTokenizer.from_pretrained(smollm_folder)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": 512}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True}
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    # with a smaller range nothing it could learn would change what it says
    model = tiny(len(tokenizer), 7, **sizes, **heads, **ids, initializer_range=0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def kg_llm(model_cache: Path) -> KgLLM:
    """The offline default as `kgqa ask` loads it, on the CPU; shared: do not change it."""
    from kgqa.models.kg_llm import load_kg_llm
    from kgqa.progress import Silent

    return load_kg_llm(None, None, device="cpu", cache=model_cache, progress=Silent())


@dataclass(frozen=True)
class OpenAIServer:
    """A running OpenAI-compatible server: what to put into OPENAI_BASE_URL and the model's name."""

    base_url: str
    model: str


@pytest.fixture(scope="session")
def openai_server(
    smollm_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenAIServer]:
    """A real `transformers serve` of SmolLM2, stopped at the end of the session."""
    from tests.graph.neo4j_server import free_ports

    (port,) = free_ports(1)
    log = tmp_path_factory.mktemp("server") / "log"
    serve = "from transformers.cli.transformers import main; main()"
    command = [sys.executable, "-c", serve, "serve", str(smollm_folder)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "default"},
        )
    try:
        _await_health(f"http://127.0.0.1:{port}/health", process, log)
        yield OpenAIServer(f"http://127.0.0.1:{port}/v1", str(smollm_folder))
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_health(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _SERVER_START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError(f"transformers serve did not start:\n{log.read_text()[-2000:]}")
