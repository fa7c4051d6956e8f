from __future__ import annotations

import http.server
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from kgqa.deadline import deadline
from kgqa.errors import GeneralModelError, TimeLimitError
from kgqa.models.general import CallCache, Completion, GeneralLLM, Usage, call_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import OpenAIServer

KEY = "sk-very-secret-0123456789"


@pytest.mark.model
def test_a_real_server_answers_and_is_counted(openai_server: OpenAIServer) -> None:
    with GeneralLLM(openai_server.model, base_url=openai_server.base_url) as llm:
        first = llm.complete("What is the capital of France?", max_tokens=12)
        assert "Paris" in first.text
        assert first.prompt_tokens > 10
        assert 0 < first.completion_tokens <= 12
        again = llm.complete("What is the capital of France?", max_tokens=12)
        assert again == first  # temperature 0
        assert llm.usage == Usage(
            2, 2 * first.prompt_tokens, first.completion_tokens + again.completion_tokens
        )


@pytest.mark.model
def test_a_model_that_the_server_lacks(openai_server: OpenAIServer) -> None:
    url = openai_server.base_url.replace("http://", "http://me:pass@")
    with (
        GeneralLLM("nobody/nothing", base_url=url, key=SecretStr(KEY), retries=0) as llm,
        pytest.raises(GeneralModelError) as caught,
    ):
        llm.complete("hello")
    assert openai_server.base_url in str(caught.value)
    assert "pass" not in str(caught.value)
    assert llm.usage.calls == 1


def message_of(url: str, timeout_s: float = 60.0, retries: int = 0) -> str:
    with (
        GeneralLLM(
            "some-model", base_url=url, key=SecretStr(KEY), timeout_s=timeout_s, retries=retries
        ) as llm,
        pytest.raises(GeneralModelError) as caught,
    ):
        llm.complete("hello")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert KEY not in str(caught.value) + repr(caught.value)
    return str(caught.value)


def test_no_server_names_the_url_without_credentials() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    message = message_of(f"http://me:hush@127.0.0.1:{port}/v1")
    assert f"http://127.0.0.1:{port}/v1 cannot be reached" in message
    assert "OPENAI_BASE_URL" in message
    assert "hush" not in message


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        message = message_of(f"http://127.0.0.1:{mute.getsockname()[1]}/v1", timeout_s=0.3)
    assert "no answer within 0.3 s" in message


def test_a_call_ends_when_nobody_waits_for_it() -> None:
    accepted: list[socket.socket] = []

    def stop() -> None:
        if accepted:
            raise TimeLimitError("Nobody waits.")

    with socket.create_server(("127.0.0.1", 0)) as mute, deadline(stop):
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/v1"
        threading.Thread(target=lambda: accepted.append(mute.accept()[0]), daemon=True).start()
        with (
            GeneralLLM("some-model", base_url=url, timeout_s=600.0) as llm,
            pytest.raises(TimeLimitError, match="Nobody waits"),
        ):
            llm.complete("hello")
        accepted[0].close()


@contextmanager
def answering(status: int, body: str, kind: str = "application/json") -> Iterator[tuple[str, list]]:
    """A web server that gives every request the same answer: what stands at a wrong address."""
    asked: list[str] = []

    class Same(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            content = body.replace("KEY", self.headers.get("Authorization", "")).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Same) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", asked
        finally:
            server.shutdown()
            thread.join()


def wrong(text: str) -> str:
    return json.dumps({"error": {"message": text, "type": "x", "param": None, "code": "y"}})


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, wrong("Incorrect key: KEY"), "refused the key (401)"),
        (403, wrong("Not for KEY"), "refused the key (403)"),
        (404, wrong("no such model"), "knows no model some-model"),
        (400, wrong("context too long; sent by KEY"), "context too long"),
        (429, wrong("quota is used up"), "quota is used up"),
        (500, wrong("out of memory"), "failed with status 500"),
        (502, "<html>Bad gateway</html>", "failed with status 502"),
        (200, "[1, 2", "unusable|not JSON|other than a chat completion"),
        (200, "{}", "other than a chat completion"),
        (200, "[]", "other than a chat completion"),
        (200, '{"choices": []}', "without any text"),
        (200, '{"choices": [{"message": {"content": null}}]}', "without any text"),
        (200, '{"choices": [{}]}', "other than a chat completion|without any text"),
    ],
)
def test_a_failing_server_is_explained(status: int, body: str, expected: str) -> None:
    with answering(status, body) as (url, _):
        message = message_of(url)
    assert any(part in message for part in expected.split("|")), message
    assert url in message


def test_a_web_page_is_no_completion() -> None:
    with answering(200, "<html>Welcome</html>", "text/html") as (url, _):
        assert "it must name the API, not a web page" in message_of(url)


def test_retries_are_bounded_and_only_for_what_may_pass() -> None:
    with answering(503, wrong("busy")) as (url, asked):
        message_of(url, retries=1)
        assert asked == ["/v1/chat/completions"] * 2
    with answering(400, wrong("no")) as (url, asked):
        message_of(url, retries=1)
        assert len(asked) == 1


@pytest.mark.parametrize("key", ["S3cr3t\rX", "S3cr3té", "S3cr3t \u20ac"])
def test_a_key_that_no_request_can_carry_is_not_shown(key: str) -> None:
    with pytest.raises(GeneralModelError, match="key holds characters") as failed:
        GeneralLLM("m", base_url="http://127.0.0.1:9/v1", key=SecretStr(key))
    assert "S3cr3t" not in str(failed.value)


def test_openai_itself_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)  # an exported key alone never makes paid calls
    with pytest.raises(GeneralModelError, match=r"https://api\.openai\.com.* needs a key"):
        GeneralLLM("gpt")


def test_a_url_without_scheme_is_refused() -> None:
    with pytest.raises(GeneralModelError, match="begin with http"):
        GeneralLLM("gpt", base_url="localhost:8000/v1")


# ── calls are kept by all that decides them ──


def messages(text: str) -> list[dict[str, str]]:
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
    st.sampled_from(["http://localhost:8000/v1", "http://localhost:9000/v1"]),
    st.sampled_from(["a", "b"]),
    st.text(max_size=3),
    st.sampled_from([{"temperature": 0.0}, {"temperature": 0.7}, {"temperature": 0.7, "seed": 1}]),
)


@given(calls, calls)
def test_two_calls_share_a_key_only_where_they_are_one(
    one: tuple[str, str, str, dict[str, float]], other: tuple[str, str, str, dict[str, float]]
) -> None:
    keys = [call_key(url, model, messages(text), more) for url, model, text, more in (one, other)]
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
    file = tmp_path / "calls.sqlite"

    def client() -> GeneralLLM:
        return GeneralLLM(
            openai_server.model, base_url=url, key=SecretStr(KEY), cache=CallCache(file)
        )

    with client() as llm:
        first = llm.complete("Say hello.", max_tokens=4)
        assert llm.complete("Say hello.", max_tokens=4) == first
        assert llm.usage == Usage(1, first.prompt_tokens, first.completion_tokens, cached=1)
    with client() as llm:  # another run, from the file
        assert llm.complete("Say hello.", max_tokens=4) == first
        assert llm.usage == Usage(0, 0, 0, cached=1)
        longer = llm.complete("Say hello.", max_tokens=5)
        assert llm.complete("Say hello.", max_tokens=5) == longer
        assert (llm.usage.calls, llm.usage.cached) == (1, 2)  # another limit is another call
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
