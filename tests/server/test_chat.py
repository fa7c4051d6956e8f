"""The chat endpoint, asked by the real `openai` client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.server.conftest import QUESTION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.server.conftest import Served

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def message(text: str) -> list[Any]:
    return [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]


def test_there_is_a_model_for_each_kg_and_method(client: openai.OpenAI) -> None:
    names = [one.id for one in client.models.list()]
    assert names[0] == "services/auto"
    assert "services/rank" in names
    assert client.models.retrieve("services/rank").owned_by == "kgqa"


def test_an_answer_is_text_with_its_paths_and_whole_beside_it(client: openai.OpenAI) -> None:
    made = client.chat.completions.create(
        model="services", messages=message(QUESTION), temperature=0.3, max_tokens=5
    )
    text = made.choices[0].message.content
    assert text is not None
    assert text.startswith('About `"checkout-api"`.\n\n`"Ada Birch"`')
    assert '`"checkout-api" -> "onCallEngineer" -> "Ada Birch"`' in text
    assert made.choices[0].finish_reason == "stop"
    assert made.model_extra is not None
    assert made.model_extra["kgqa"]["answers"][0]["name"] == "Ada Birch"


def test_a_stream_has_the_same_text(client: openai.OpenAI) -> None:
    asked = {"model": "services/rank", "messages": message(QUESTION)}
    options = {"kgqa": {"k": 2}}
    chunks = list(
        client.chat.completions.create(
            **asked, extra_body=options, stream=True, stream_options={"include_usage": True}
        )
    )
    whole = client.chat.completions.create(**asked, extra_body=options)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    said = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert said[1].content == 'About `"checkout-api"`.\n\n'  # as soon as it is known
    thought: Any = next(one for one in said if getattr(one, "reasoning_content", None))
    assert '"Ada Birch"' in thought.reasoning_content
    assert said.index(thought) < len(said) - 2
    ends = [chunk for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
    assert [end.choices[0].finish_reason for end in ends] == ["stop"]
    assert ends[0].model_extra is not None
    assert len(ends[0].model_extra["kgqa"]["paths"]) <= 2
    assert chunks[-1].usage is not None


@pytest.mark.parametrize("stream", [False, True])
def test_a_question_about_nothing_is_answered_with_a_sentence(
    client: openai.OpenAI, stream: bool
) -> None:
    made: Any = client.chat.completions.create(
        model="services/rank", messages=message("hello zaphod"), stream=stream
    )
    text = (
        "".join(one.choices[0].delta.content or "" for one in made)
        if stream
        else made.choices[0].message.content
    )
    assert "zaphod" in text


def test_what_cannot_be_meant_is_an_error(client: openai.OpenAI) -> None:
    create: Any = client.chat.completions.create
    with pytest.raises(openai.NotFoundError, match="services/magic"):
        create(model="services/magic", messages=message(QUESTION))
    with pytest.raises(openai.BadRequestError, match="not a question"):
        create(model="services", messages=[{"role": "assistant", "content": "x"}])
    with pytest.raises(openai.BadRequestError, match="messages"):
        create(model="services", messages=[])
    with pytest.raises(openai.BadRequestError, match="hops"):
        create(model="services", messages=message(QUESTION), extra_body={"kgqa": {"hop": 1}})
    with pytest.raises(openai.BadRequestError, match="`n`"):
        create(model="services", messages=message(QUESTION), n=2)


def test_earlier_messages_count_and_earlier_answers_are_not_believed(
    client: openai.OpenAI,
) -> None:
    said: list[Any] = [
        *message(QUESTION),
        {"role": "assistant", "content": "It is price-feed, led by Dora Nagy."},
        {"role": "user", "content": "and who owns it?"},
    ]
    made = client.chat.completions.create(model="services/rank", messages=said)
    assert made.model_extra is not None
    found = made.model_extra["kgqa"]
    assert [entity["name"] for entity in found["topic_entities"]] == ["checkout-api"]
    assert found["answers"][0]["name"] == "Payments"
    assert found["notes"][0] == '"it" was taken as "checkout-api".'


TITLE = """### Task:
Generate a concise, 3-5 word title with an emoji summarizing the chat history.
### Output:
JSON format: { "title": "your concise title here" }
### Chat History:
<chat_history>
USER: who owns price-feed
ASSISTANT: Catalogue
</chat_history>"""


def test_what_a_chat_program_asks_for_itself_is_answered_without_the_graph(
    client: openai.OpenAI,
) -> None:
    create: Any = client.chat.completions.create
    made = create(model="services", messages=[{"role": "user", "content": TITLE}])
    assert json.loads(made.choices[0].message.content) == {"title": "who owns price-feed"}
    assert not made.model_extra
    tags = TITLE.replace("title", "tags")
    made = create(model="services", messages=[{"role": "user", "content": tags}])
    assert json.loads(made.choices[0].message.content) == {"tags": []}
    short = "Provide a title for this conversation."
    chunks = create(model="services", messages=[*message(QUESTION), *message(short)], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == QUESTION
    made = create(model="services/rank", messages=message("who owns the title checkout-api"))
    assert made.model_extra  # a question, although it has the word


@pytest.mark.parametrize(
    "asked", [{"tools": [{"type": "function", "function": {"name": "f"}}]},
              {"response_format": {"type": "json_object"}}],
)  # fmt: skip
def test_what_cannot_be_served_is_said(client: openai.OpenAI, asked: dict[str, Any]) -> None:
    create: Any = client.chat.completions.create
    with pytest.raises(openai.BadRequestError, match=f"`{next(iter(asked))}` is not served"):
        create(model="services", messages=message(QUESTION), **asked)
