"""Requests and answers as HTTP has them: fields, streams, clients that go away, errors."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from kgqa.display import said_name
from kgqa.errors import HALF_A_PAIR, KgqaError, UsageError
from kgqa.server.faults import (
    BusyError,
    RefusedError,
    error_json,
    status_of,
    unexpected,
)
from kgqa.server.metrics import request_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from kgqa.server.sessions import Event

_ALIVE = 10.0  # seconds between signs of life in a stream
_BODY_SECONDS = 30.0  # in which a body must have come
MOST_BYTES = 16_000_000  # of an answer


async def fields(request: Request) -> dict[str, Any]:
    """Parse the fields of a request from its JSON body, else from its query. Raises KgqaError."""
    if request.method != "POST":
        return dict(request.query_params)
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            body = await request.body()
        given = json.loads(body)
    except TimeoutError:
        raise RefusedError(408, "The body took too long to come.") from None
    except ValueError:
        raise UsageError("The body is not JSON.", 'Send {"question": "…"}.') from None
    except RecursionError:
        raise UsageError("The body is nested too deeply.") from None
    if not isinstance(given, dict):
        raise UsageError("The body holds no object.", 'Send {"question": "…"}.')
    for name, value in given.items():
        try:
            json.dumps([name, value], ensure_ascii=False).encode()
        except UnicodeEncodeError:
            what, hint = HALF_A_PAIR
            raise UsageError(f"In the field {said_name(name)}: {what}", hint) from None
    return given


def check_size(size: int) -> None:
    """Raise RefusedError if a reply of that many bytes exceeds the limit."""
    if size > MOST_BYTES:
        raise RefusedError(
            413,
            f"The answer has {size:,} bytes, and the server gives up to {MOST_BYTES:,}.",
            "Ask for less: a lower `k`, `limit`, `rows` or `hops`.",
        )


def as_json(content: Any) -> Response:
    """Return a JSON response with ``content``. Raises RefusedError if it is too large."""
    response = JSONResponse(content)
    check_size(len(response.body))
    return response


async def answered(request: Request, answer: Any) -> Any:
    """Await an answer, but cancel the work and raise RefusedError if the client disconnects."""
    work = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(request.receive())  # the body was read: all that can come now
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise RefusedError(499, "The client went away.")
        return await work
    finally:
        work.cancel()
        gone.cancel()


async def with_signs_of_life(events: AsyncIterator[Event]) -> AsyncIterator[Event | None]:
    """Yield the events, and None in each pause, since proxies close silent connections."""
    upcoming: asyncio.Future[Event] | None = None
    try:
        while True:
            upcoming = upcoming or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({upcoming}, timeout=_ALIVE)
            if not done:
                yield None
                continue
            try:
                event = upcoming.result()
            except StopAsyncIteration:
                return
            upcoming = None
            yield event
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)
        await events.aclose()  # type: ignore[attr-defined]


async def failed(request: Request, error: Exception) -> Response:
    """Return the JSON response of a KgqaError."""
    assert isinstance(error, KgqaError)
    content = error_json(error)
    if request.url.path.startswith("/v1/"):  # whose clients show the message alone
        shown = content["error"]
        shown["message"] = f"{shown['message']} {shown['hint']}".rstrip()
    response = JSONResponse(content, status_of(error))
    if isinstance(error, BusyError):
        response.headers["retry-after"] = str(error.seconds)
    return response


async def refused(request: Request, error: Exception) -> Response:
    """Return the JSON response of Starlette's own errors: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    hint = "GET /openapi.json lists what there is."
    what = f"{request.method} {request.url.path[:200]}: {error.detail.lower()}."
    answer = JSONResponse(error_json(RefusedError(error.status_code, what, hint)))
    answer.status_code = error.status_code
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


async def broken(request: Request, error: Exception) -> Response:
    """Log an internal error, and return a response that names its kind."""
    fault = unexpected(error, f"{request.url.path} failed (request {request_id.get()}).")
    return JSONResponse(error_json(fault), status_of(fault))
