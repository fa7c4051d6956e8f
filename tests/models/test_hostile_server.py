"""General LLMs' servers that misbehave: what is read of them is bounded, and every end is named."""

from __future__ import annotations

import http.server
import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from kgqa.errors import GeneralModelError
from kgqa.models.general import MOST_BYTES, CallCache, GeneralLLM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Handler = http.server.BaseHTTPRequestHandler

LONG_S = 60.0  # for calls that end for another reason than their deadline


class Server:
    """What a server has been asked, and how many bytes of replies it got rid of."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, str | None]] = []  # path and Authorization
        self.bodies: list[Any] = []
        self.sent = 0
        self.stop = threading.Event()

    def send(self, handler: Handler, content: bytes) -> bool:
        """Send; False if the client is gone."""
        try:
            handler.wfile.write(content)
            handler.wfile.flush()
        except OSError:
            return False
        self.sent += len(content)
        return True


@contextmanager
def serving(behave: Callable[[Server, Handler], None]) -> Iterator[Server]:
    found = Server()

    class Behaves(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.asked.append((self.path, self.headers.get("Authorization")))
            found.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            behave(found, self)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Behaves) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        found.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield found
        finally:
            found.stop.set()
            server.shutdown()
            thread.join()


def message_of(server: Server, timeout_s: float = LONG_S, retries: int = 0) -> str:
    with (
        GeneralLLM("m", base_url=server.url, timeout_s=timeout_s, retries=retries) as llm,
        pytest.raises(GeneralModelError) as caught,
    ):
        llm.complete("hello")
    assert caught.value.__cause__ is None
    return str(caught.value)


def head(handler: Handler, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def reply(text: Any, **more: Any) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}}], **more}).encode()


@pytest.mark.parametrize("status", [200, 500])
def test_no_more_of_a_reply_is_read_than_its_limit(status: int) -> None:
    def floods(server: Server, handler: Handler) -> None:
        head(handler, status)
        for _ in range(300):  # MB
            if not server.send(handler, b" " * 1_000_000):
                return

    with serving(floods) as server:
        assert "more than 4 MiB" in message_of(server)
        # what the sockets hold between the two is sent and not read
        assert server.sent < 4 * MOST_BYTES


def test_a_compressed_reply_is_not_unpacked() -> None:
    def bomb(server: Server, handler: Handler) -> None:
        head(handler, Content_Encoding="gzip")
        server.send(handler, b"\x1f\x8b")

    with serving(bomb) as server:
        assert "compressed" in message_of(server)


def drips_body(server: Server, handler: Handler) -> None:
    head(handler)
    while not server.stop.wait(0.05) and server.send(handler, b" "):
        pass


def drips_headers(server: Server, handler: Handler) -> None:
    line = b"HTTP/1.1 200 OK\r\nX-Slow: "
    while server.send(handler, line) and not server.stop.wait(0.05):
        line = b"x"


@pytest.mark.parametrize("behave", [drips_body, drips_headers])
def test_a_call_has_one_deadline_for_all_of_it(behave: Callable[..., None]) -> None:
    with serving(behave) as server:
        assert "no answer within 3 s" in message_of(server, 3.0, retries=2)
        assert len(server.asked) == 1, "each attempt would have a deadline of its own"


@pytest.mark.parametrize("wait", ["nan", "1e9", "-1", "Sun, 22 Nov 2026 00:00:00 GMT", "0"])
def test_retries_do_not_outlive_the_deadline(wait: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_busy(server: Server, handler: Handler) -> None:
        head(handler, 503, Retry_After=wait)
        server.send(handler, b"{}")

    monkeypatch.setattr("kgqa.models.general._PAUSE_S", 2 * LONG_S)
    with serving(is_busy) as server:
        assert "status 503" in message_of(server, retries=10)
        assert len(server.asked) == 1, "the pause before another would have passed the deadline"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[" * 200_000, "not JSON"),
        (b'{"choices": ' + b"[" * 200_000, "not JSON"),
        (b'{"choices": 7}', "other than a chat completion"),
        (b'{"choices": [7]}', "without any text"),
        (b'{"choices": [{"message": ["x"]}]}', "without any text"),
        (b'{"choices": {"0": {}}}', "other than a chat completion"),
        (b"7" * 5000, "not JSON"),
        (b"\xff\xfe\xfd", "not JSON"),
    ],
)
def test_nonsense_is_a_named_error(body: bytes, said: str) -> None:
    def answers(server: Server, handler: Handler) -> None:
        head(handler)
        server.send(handler, body)

    with serving(answers) as server:
        assert said in message_of(server)


@pytest.mark.parametrize("param", [["temperature"], {}, 7, "temperature"])
def test_a_refused_parameter_of_any_type(param: Any) -> None:
    def refuses(server: Server, handler: Handler) -> None:
        head(handler, 400)
        server.send(handler, json.dumps({"error": {"message": "no", "param": param}}).encode())

    with serving(refuses) as server:
        assert "status 400" in message_of(server)
        assert len(server.asked) == (2 if param == "temperature" else 1)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    def good(server: Server, handler: Handler) -> None:
        head(handler)
        server.send(handler, reply("Paris"))

    with serving(good) as elsewhere:

        def redirects(server: Server, handler: Handler) -> None:
            head(handler, status, Location=f"{elsewhere.url}/chat/completions")

        with serving(redirects) as server:
            assert f"sends elsewhere ({status})" in message_of(server)
        assert not elsewhere.asked


@pytest.mark.parametrize("usage", [{"prompt_tokens": 10**30}, {"prompt_tokens": "x"}, [1], -1])
def test_halves_of_surrogates_and_odd_counts_do_not_end_a_question(
    tmp_path: Path, usage: Any
) -> None:
    def answers(server: Server, handler: Handler) -> None:
        head(handler)
        server.send(handler, reply("Par\ud800is", usage=usage))

    with serving(answers) as server, CallCache(tmp_path / "calls") as cache:
        for _ in range(2):  # asked, then from the cache
            llm = GeneralLLM("m", base_url=server.url, timeout_s=LONG_S, cache=cache)
            found = llm.complete("\ud83d\ude00 \ud800 \udcff?")
            assert found.text == "Par\ufffdis"
            assert found.prompt_tokens == 0
    assert len(server.asked) == 1
    (message,) = server.bodies[0]["messages"]
    assert message["content"] == "\U0001f600 \ufffd \ufffd?"


def test_a_key_beside_credentials_of_the_url_is_reported() -> None:
    def wrong(server: Server, handler: Handler) -> None:
        head(handler, 500)
        server.send(handler, b'{"error": {"message": "hush, bWU6aHVzaA== and sk-1234 are wrong"}}')

    with serving(wrong) as server:
        url = server.url.replace("//", "//me:hush@")
        llm = GeneralLLM("m", base_url=url, key=SecretStr("sk-1234"), retries=0)
        assert llm.ignores_key
        with pytest.raises(GeneralModelError, match=r"\*\*\*, \*\*\* and \*\*\* are wrong"):
            llm.complete("hello")
        assert server.asked[0][1] is not None
        assert server.asked[0][1].startswith("Basic "), "the URL's are what is sent"
        assert not GeneralLLM("m", base_url=url).ignores_key
        assert not GeneralLLM("m", base_url=server.url, key=SecretStr("sk-1234")).ignores_key


@pytest.mark.parametrize(
    "url", ["http://h:S3cr3t/v1", "https://u:S3cr3t@[::1/v1", "http://u:[S3cr3t]@127.0.0.1:1/v1"]
)
def test_a_url_that_is_none_is_refused_without_its_secret(url: str) -> None:
    with pytest.raises(GeneralModelError, match=r"cannot be (asked|reached)") as failed:
        GeneralLLM("m", base_url=url, key=SecretStr("sk-1234"), retries=0).complete("hello")
    assert "S3cr3t" not in str(failed.value)


@pytest.mark.parametrize("proxy", ["S3cr3t://u", "http://u:S3cr3t@h:bad", "http://u:S3cr3t"])
def test_a_proxy_that_is_none_is_named_by_its_setting(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, proxy)
    with pytest.raises(GeneralModelError, match="HTTP_PROXY") as failed:
        GeneralLLM("m", base_url="http://general.example/v1")
    assert "S3cr3t" not in str(failed.value)
