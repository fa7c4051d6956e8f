"""The chat endpoint of OpenAI's form: a model for each KG and method, asked the last message.

https://platform.openai.com/docs/api-reference/chat. The answer is readable text, and whole, as
``kgqa ask --json`` prints it, in the extra field ``kgqa``; the method's options are given in the
request's field of that name. What sets how a model samples has no meaning here and is passed over.
What chat programs ask about the chat itself (a title, tags) is answered without the KG.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from kgqa.api import Turn, leaves_out
from kgqa.api.kg import DEFAULT_METHOD
from kgqa.display import LONGEST, code_span, path_text, said_name
from kgqa.errors import KgqaError, UsageError
from kgqa.server.faults import RefusedError, error_json
from kgqa.server.forms import AskForm
from kgqa.server.http import MOST_BYTES, answered, as_json, fields, with_signs_of_life
from kgqa.server.views import UNANSWERABLE, answer_text, error_text, methods

_TITLE, _PATHS = 60, 5  # characters of a title; paths that are shown while more are looked for
# "Generate a concise, 3-5 word title …", "Suggest 3-5 relevant follow-up questions …"
_OWN_PROMPT = re.compile(
    r"\b(?:generate|create|write|suggest|provide)\b[^.?!]{0,80}?"
    r"\b(title|tags?|follow[- ]?ups?|summary|search quer\w+)\b[^.?!]{0,80}",
    re.IGNORECASE | re.DOTALL,
)
_CHAT = re.compile(
    r"###|<chat_history>|\b(?:chat|conversation|dialogue)\b|^(?:USER|Human):", re.I | re.M
)
_QUOTED = re.compile(r"^\W*(?:USER|Human)\W*:\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_KEY = re.compile(r"[{]\s*\"(title|tags|follow_ups|queries)\"\s*:")
_TURNS = 2  # earlier questions of a chat that a question may leave things to

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from kgqa.server.sessions import Sessions, Waiting


def chat_routes(sessions: Sessions) -> list[Route]:
    """Return the routes of the chat endpoint, under ``/v1``."""
    chat = Chat(sessions)
    return [
        Route("/v1/models", chat.models, methods=["GET"]),
        Route("/v1/models/{model:path}", chat.model, methods=["GET"]),
        Route("/v1/chat/completions", chat.complete, methods=["POST"]),
    ]


class Chat:
    """The chat endpoint over the sessions."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions

    async def models(self, _: Request) -> Response:
        """Return the list of models: one for each KG and method, the default methods first."""
        return JSONResponse({"object": "list", "data": await self._models()})

    async def model(self, request: Request) -> Response:
        """Describe one model."""
        name = request.path_params["model"]
        for entry in await self._models():
            if entry["id"] == name:
                return JSONResponse(entry)
        raise _no_model(name)

    async def complete(self, request: Request) -> Response:
        """Answer the last message of a chat, as one completion or as a stream of chunks."""
        given = await fields(request)
        if given.get("n", 1) not in (1, None):
            raise UsageError("A question has one completion here.", "Leave out `n`.")
        kg, method = await self._split_model(given.get("model"))
        stream = given.get("stream_options") or {}
        if not isinstance(stream, dict):
            raise UsageError("`stream_options` is not an object.", 'Write {"include_usage": true}.')
        for name in ("tools", "functions", "response_format"):
            if given.get(name) not in (None, [], {"type": "text"}):
                raise UsageError(
                    f"`{name}` is not served here: an answer is text with its paths.",
                    f"Leave out `{name}`.",
                )
        base = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": f"{kg}/{method}",
        }
        if (text := about_chat(given.get("messages"))) is not None:
            return _fixed_reply(text, base, stream=bool(given.get("stream")))
        own = given.get("kgqa") or {}
        if not isinstance(own, dict):
            raise UsageError("`kgqa` is not an object.", 'Write {"kgqa": {"k": 5}}.')
        question = {"question": _last_message(given.get("messages")), "kg": kg, "method": method}
        form, options = AskForm.of({**own, **question})
        after = [earlier.turn for earlier in form.after]
        if not after and leaves_out(form.question):
            after = await self._earlier_turns(request, given["messages"], kg, method)
        waiting = await self.sessions.ask(
            form.question,
            kg,
            method,
            form.entities,
            form.choices,
            options,
            after=after,
            reading=form.reading,
            watched=bool(given.get("stream")),
        )
        if given.get("stream"):
            usage = bool(stream.get("include_usage"))
            return StreamingResponse(
                self._stream(waiting, base, usage=usage), media_type="text/event-stream"
            )
        try:
            answer = await answered(request, self.sessions.answer(waiting))
            text = _topics_paragraph(answer) + answer_text(answer)
        except UNANSWERABLE as error:
            answer, text = error_json(error), error_text(error)
        return as_json(_completion(text, base) | {"usage": _usage(answer), "kgqa": answer})

    async def _earlier_turns(
        self, request: Request, messages: list[Any], kg: str, method: str
    ) -> list[Turn]:
        """Answer the last few earlier questions of a chat again; return them as turns.

        What a client sends as an earlier answer is only text, and may be anything. A question that
        cannot be answered is skipped.
        """
        turns: list[Turn] = []
        earlier = [text for message in messages[:-1] if (text := _message_text(message, "user"))]
        for text in earlier[-_TURNS:]:
            waiting = await self.sessions.ask(text, kg, method, after=turns, watched=False)
            try:
                answer = await answered(request, self.sessions.answer(waiting))
            except UNANSWERABLE:
                continue
            topics = tuple(entity["id"] for entity in answer["topic_entities"])
            ids = tuple(entry["id"] for entry in answer["answers"] if entry["id"] is not None)
            turns.append(Turn(answer["question"], topics, ids))
        return turns

    async def _stream(
        self, waiting: Waiting, base: dict[str, Any], *, usage: bool
    ) -> AsyncIterator[str]:
        """Yield an answer as a stream of completion chunks: topics, paths, the answer.

        ``base``: the fields that all chunks share; ``usage``: end with the counts of tokens.
        """

        def chunk(delta: dict[str, Any], end: str | None = None, **extra: Any) -> str:
            """Format one chunk as an event; ``end``: why the answer ends, None if it does not."""
            return _event_data(_chunk(delta, base, end) | extra)

        yield chunk({"role": "assistant", "content": ""})
        reply: dict[str, Any] = {}
        topics, shown = "", set[str]()
        async for event in with_signs_of_life(self.sessions.events(waiting)):
            if event is None or event[0] not in ("answer", "error"):
                if event and event[0] == "linked" and not topics:
                    topics = _topics_paragraph(event[1])
                    yield chunk({"content": topics})
                elif event and event[0] == "paths":  # what is thought of meanwhile
                    lines = [code_span(path_text(path["edges"], LONGEST))
                             for path in event[1]["paths"][:_PATHS] if path["edges"]]  # fmt: skip
                    new = "".join(f"- {line}\n" for line in lines if line not in shown)
                    shown.update(lines)
                    yield chunk({"reasoning_content": new})
                else:
                    yield f": {event[0] if event else 'still here'}\n\n"
            else:
                reply = event[1]
        if waiting.failure is not None and not isinstance(waiting.failure, UNANSWERABLE):
            yield _event_data(reply)
            return
        failed = waiting.failure
        text = error_text(failed) if failed is not None else answer_text(reply)
        if failed is None and not topics:
            text = _topics_paragraph(reply) + text
        for line in text.splitlines(keepends=True):
            yield chunk({"content": line})
        whole = chunk({}, "stop", kgqa=reply)
        yield whole if len(whole) <= MOST_BYTES else chunk({}, "stop")
        if usage:
            yield _event_data(
                {**base, "object": "chat.completion.chunk", "choices": [], "usage": _usage(reply)}
            )
        yield "data: [DONE]\n\n"

    async def _models(self) -> list[dict[str, Any]]:
        """Return the models of all KGs and methods."""
        kgs = await self.sessions.in_time(self.sessions.kgs)
        names = sorted(
            (method_["name"] for method_ in methods()), key=lambda name: name != DEFAULT_METHOD
        )
        return [
            {"id": f"{kg}/{method}", "object": "model", "created": 0, "owned_by": "kgqa"}
            for method in names
            for kg in kgs
        ]

    async def _split_model(self, model: object) -> tuple[str, str]:
        """Split a model's name into KG and method; a KG alone means the default method.

        Raises an error for an unknown model.
        """
        if not isinstance(model, str):
            raise UsageError("`model` is missing.", "GET /v1/models lists them.")
        kgs = await self.sessions.in_time(self.sessions.kgs)
        kg, _, method = model.partition("/")
        if kg not in kgs or (method and method not in {method_["name"] for method_ in methods()}):
            raise _no_model(model)
        return kg, method or DEFAULT_METHOD


def about_chat(messages: object) -> str | None:
    """Return a reply to a chat program's own prompt, None for a real question.

    Such a prompt asks for a title, tags or further questions of the chat: the title is the first
    question, and the rest is empty. The reply is JSON if the prompt names a key.
    """
    if not isinstance(messages, list) or not messages:
        return None
    text = _message_text(messages[-1], "user")
    asked = _OWN_PROMPT.search(text)
    if not asked or not _CHAT.search(text):
        return None
    earlier = [said for message in messages[:-1] if (said := _message_text(message, "user"))]
    first = earlier[0] if earlier else match[1] if (match := _QUOTED.search(text)) else "Questions"
    title = " ".join(first.split())[:_TITLE]
    key = _KEY.search(text)
    if key is None:
        return title if asked[1].lower() == "title" else ""
    return json.dumps({key[1]: title if key[1] == "title" else []}, ensure_ascii=False)


def _topics_paragraph(answer: dict[str, Any]) -> str:
    """Return the topic entities as the first paragraph of an answer, "" if there are none."""
    names = [code_span(said_name(entity["name"])) for entity in answer["topic_entities"]]
    return f"About {', '.join(names)}.\n\n" if names else ""


def _completion(text: str, base: dict[str, Any]) -> dict[str, Any]:
    """Return a text as a whole completion."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    return {**base, "object": "chat.completion", "choices": [choice], "usage": usage}


def _chunk(delta: dict[str, Any], base: dict[str, Any], end: str | None = None) -> dict[str, Any]:
    """Return a delta as a completion chunk with the fields ``base``; ``end``: why it ends."""
    choice = {"index": 0, "delta": delta, "finish_reason": end, "logprobs": None}
    return {**base, "object": "chat.completion.chunk", "choices": [choice]}


def _fixed_reply(text: str, base: dict[str, Any], *, stream: bool) -> Response:
    """Return ``text`` as a completion without asking the KG; ``stream``: as chunks."""
    if not stream:
        return JSONResponse(_completion(text, base))
    chunks = [
        _chunk({"role": "assistant", "content": text}, base),
        _chunk({}, base, "stop"),
    ]
    return Response(
        "".join(map(_event_data, chunks)) + "data: [DONE]\n\n", media_type="text/event-stream"
    )


def _last_message(messages: object) -> str:
    """Return the text of the last message, which must be the user's. Raises UsageError."""
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], dict):
        raise UsageError("`messages` holds no message.", "Send at least one of the role user.")
    if not (text := _message_text(messages[-1], "user")):
        raise UsageError(
            "The last message is not a question.", "Send a text of the role user as the last one."
        )
    return text


def _message_text(message: object, role: str) -> str:
    """Return the text of a message, "" if it has none or another role."""
    if not isinstance(message, dict) or message.get("role") != role:
        return ""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    return content.strip() if isinstance(content, str) else ""


def _usage(answer: dict[str, Any]) -> dict[str, int]:
    """Return the token counts of an answer in OpenAI's form."""
    used = [use for name in ("kg_llm", "general_llm") if (use := answer.get(name))]
    prompt = sum(use["prompt_tokens"] for use in used)
    written = sum(use.get("generated_tokens", use.get("completion_tokens", 0)) for use in used)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
    }


def _no_model(name: str) -> KgqaError:
    """Return the error of an unknown model."""
    return RefusedError(
        404, f"The model '{name[:80]}' does not exist.", "GET /v1/models lists them."
    )


def _event_data(known: dict[str, Any]) -> str:
    """Format JSON as an event of an event stream."""
    return f"data: {json.dumps(known)}\n\n"
