"""Calls of the general LLM are kept by all that decides them, and never hold a key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from kgqa.errors import GeneralModelError
from kgqa.models.general import CallCache, Completion, GeneralLLM, Usage, call_key

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import OpenAIServer

URL = "http://localhost:8000/v1"


def asked(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_what_was_kept_is_there_for_the_next_run(tmp_path: Path) -> None:
    answer = Completion("Nine Mile – 牙買加", 11, 4)
    with CallCache(tmp_path / "new" / "calls.sqlite") as cache:
        assert cache.get("a") is None
        cache.put("a", "m", answer)
        cache.put("a", "m", Completion("another", 1, 1))  # the first answer stays
    with CallCache(tmp_path / "new" / "calls.sqlite") as cache:
        assert cache.get("a") == answer
        assert len(cache) == 1
        cache.close()  # again does nothing


calls = st.tuples(
    st.sampled_from([URL, "http://localhost:9000/v1"]),
    st.sampled_from(["a", "b"]),
    st.text(max_size=3),
    st.sampled_from([{"temperature": 0.0}, {"temperature": 0.7}, {"temperature": 0.7, "seed": 1}]),
)


@given(calls, calls)
def test_two_calls_share_a_key_only_where_they_are_one(
    one: tuple[str, str, str, dict[str, float]], other: tuple[str, str, str, dict[str, float]]
) -> None:
    keys = [call_key(url, model, asked(text), more) for url, model, text, more in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


def test_many_threads_share_one_file(tmp_path: Path) -> None:
    with CallCache(tmp_path / "calls.sqlite") as cache, ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda n: cache.put(f"{n % 20}", "m", Completion(f"{n % 20}", 1, 1)), range(200)
            )
        )
        assert len(cache) == 20
        assert list(pool.map(lambda n: cache.get(str(n)), range(20))) == [
            Completion(str(n), 1, 1) for n in range(20)
        ]


def test_a_file_that_is_none_is_named_with_the_way_out(tmp_path: Path) -> None:
    file = tmp_path / "calls.sqlite"
    file.write_bytes(b"this is no database, and it is longer than a header of one" * 4)
    with pytest.raises(GeneralModelError, match=r"calls\.sqlite.*`cache_calls`"):
        CallCache(file)
    with pytest.raises(GeneralModelError, match="cannot be used"):
        CallCache(tmp_path / "calls.sqlite" / "below" / "a-file")


@pytest.mark.model
def test_a_call_is_made_once(openai_server: OpenAIServer, tmp_path: Path) -> None:
    url = openai_server.base_url.replace("http://", "http://me:pass@")
    key = SecretStr("sk-very-secret-0123456789")
    file = tmp_path / "calls.sqlite"

    def client() -> GeneralLLM:
        return GeneralLLM(openai_server.model, base_url=url, key=key, cache=CallCache(file))

    with client() as llm:
        first = llm.complete("Say hello.", max_tokens=4)
        assert llm.complete("Say hello.", max_tokens=4) == first
        assert llm.usage == Usage(1, first.prompt_tokens, first.completion_tokens, cached=1)
    with client() as llm:  # another run, from the file
        assert llm.complete("Say hello.", max_tokens=4) == first
        assert llm.usage == Usage(0, 0, 0, cached=1)
        drawn = llm.complete("Say hello.", max_tokens=4, temperature=0.7, seed=3)
        assert llm.complete("Say hello.", max_tokens=4, temperature=0.7, seed=3) == drawn
        assert (llm.usage.calls, llm.usage.cached) == (1, 2)  # a sample is a call of its own
    kept = file.read_bytes()
    assert b"very-secret" not in kept
    assert b"me:pass" not in kept


def test_a_call_that_fails_is_not_kept(tmp_path: Path) -> None:
    with CallCache(tmp_path / "calls.sqlite") as cache:
        llm = GeneralLLM("m", base_url="http://127.0.0.1:9/v1", cache=cache, retries=0)
        with pytest.raises(GeneralModelError):
            llm.complete("hello")
        assert (llm.usage.calls, len(cache)) == (1, 0)
        llm.close()
