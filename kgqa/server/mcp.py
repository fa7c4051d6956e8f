"""The MCP server: tools that look into the graph and never change it.

Answers are capped and paged, so that none floods a model's context; each has an output schema, and
a few lines of text beside the structured content.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context  # noqa: TC002 - the SDK reads annotations when it runs
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from kgqa.api.kg import DEFAULT_METHOD
from kgqa.display import LONGEST, code_span, markdown, path_text, said_name
from kgqa.errors import KgqaError
from kgqa.registry import validated
from kgqa.server.faults import unexpected
from kgqa.server.forms import (
    Answered,
    Checked,
    Described,
    Kgs,
    Linked,
    PathPage,
    PathsForm,
    Rows,
    TurnForm,
)
from kgqa.server.views import answer_text, error_text, path_page
from kgqa.version import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kgqa.server.sessions import Sessions

_COMPACT, _MOST_CHARACTERS = 4_000, 60_000  # of what a tool gives, and in `full`
_MOST_ITEMS = 100  # of a list in it
_WHOLE = frozenset(
    {"text", "question", "statement", "missing", "notes", "plan", "cypher", "sparql"}
)
_STAGES = ("queued", "linked", "searching", "paths")
_INSTRUCTIONS = (
    "Answers questions from a knowledge graph. Every path that a tool shows was checked in the "
    "graph, edge by edge; what the graph does not hold is said to be not in it. Use `schema` to "
    "see what there is, `ask` for a question, `query` for counts and lists over the whole graph, "
    "`link` to find an entity's id, `neighbours` and `paths` to look around, and `check` to verify "
    "a statement before stating it."
)

Kg = Annotated[str | None, Field(description="The KG's name; needed only if there are several.")]
Limit = Annotated[int, Field(ge=1, le=50, description="Maximum number of results.")]
Offset = Annotated[
    int, Field(ge=0, description="Number of results to skip: the previous next_offset.")
]
Name = Annotated[str, Field(max_length=1_000, description="An entity, by id or name.")]
Full = Annotated[
    bool, Field(description="Give stored facts and ids of all edges too, and more of it.")
]
Question = Annotated[str, Field(min_length=1, max_length=2_000, description="The question.")]


def mcp_server(sessions: Sessions) -> MCPServer[Any]:
    """Build the MCP server over the sessions, which the caller starts and stops."""
    server: MCPServer[Any] = MCPServer(
        "kgqa", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING"
    )

    def tool(title: str) -> Callable[..., Any]:
        """Register a function as a read-only tool."""
        hints = ToolAnnotations(
            title=title, read_only_hint=True, idempotent_hint=True, open_world_hint=False
        )
        return server.tool(title=title, annotations=hints)

    @tool("Ask the graph")
    async def ask(
        question: Question,
        ctx: Context,
        kg: Kg = None,
        entities: Annotated[
            list[str], Field(max_length=16, description="Topic entities, by id or name.")
        ] = [],  # noqa: B006 - never changed; None would be in the schema
        method: Annotated[
            str, Field(description="The method; omit it for the default.")
        ] = DEFAULT_METHOD,
        limit: Limit = 5,
        after: Annotated[
            list[TurnForm],
            Field(max_length=4, description="Earlier questions that this one leaves things to."),
        ] = [],  # noqa: B006
        reading: Annotated[
            int | None,
            Field(ge=1, le=9, description="Which of the readings that an answer offered is meant."),
        ] = None,
        full: Full = False,
    ) -> Annotated[CallToolResult, Answered]:
        """Answer a question from the graph, with the checked path of facts behind each answer."""

        async def work() -> tuple[dict[str, Any], str]:
            """Ask the question; return the answer as JSON and as text."""
            waiting = await sessions.ask(
                question,
                kg,
                method,
                entities,
                after=[earlier.turn for earlier in after],
                reading=reading,
            )
            content: dict[str, Any] = {}
            async for event, known in sessions.events(waiting):
                if waiting.failure is not None:
                    raise waiting.failure
                content = known
                if event in _STAGES:
                    await ctx.report_progress(_STAGES.index(event), len(_STAGES), event)
            short = capped(content, limit)
            return short, answer_text(short)

        return await _result(work, full)

    @tool("List an entity's paths")
    async def paths(
        entity: Name,
        kg: Kg = None,
        hops: Annotated[
            int, Field(ge=1, le=3, description="Maximum number of hops of a path.")
        ] = 2,
        limit: Limit = 20,
        offset: Offset = 0,
        full: Full = False,
    ) -> Annotated[CallToolResult, PathPage]:
        """List paths of facts that start at an entity, one page at a time."""
        given = {"entity": entity, "hops": hops, "limit": limit, "offset": offset}
        return await _result(lambda: _paths(sessions, kg, given, full), full)

    @tool("List an entity's neighbours")
    async def neighbours(
        entity: Name, kg: Kg = None, limit: Limit = 20, offset: Offset = 0, full: Full = False
    ) -> Annotated[CallToolResult, PathPage]:
        """List the facts about an entity in both directions, one page at a time."""
        given = {"entity": entity, "hops": 1, "direction": "both"}
        return await _result(
            lambda: _paths(sessions, kg, {**given, "limit": limit, "offset": offset}, full), full
        )

    @tool("Find entities")
    async def link(
        question: Annotated[str, Field(max_length=2_000, description="A question, or a name.")],
        kg: Kg = None,
        limit: Limit = 5,
    ) -> Annotated[CallToolResult, Linked]:
        """Find which entities of the graph a question or a name may be about, with their ids."""

        async def work() -> tuple[dict[str, Any], str]:
            """Link the question; return the candidates as JSON and as text."""
            candidates = await sessions.read(kg, lambda kg: kg.linked(question, limit))
            rows = [
                {
                    name: candidate[name]
                    for name in ("id", "name", "score", "mention", "edges", "chosen")
                }
                for candidate in candidates["candidates"]
            ]
            lines = [
                f"{code_span(said_name(row['name']))} ({code_span(said_name(row['id']))}), "
                f"{row['edges']} edges"
                for row in rows
            ]
            return candidates | {"candidates": rows}, "\n".join(lines) or "Nothing was found."

        return await _result(work)

    @tool("Check a statement")
    async def check(
        statement: Annotated[
            str,
            Field(
                max_length=4_000,
                description="`head -> relation -> tail`, or a longer path; heads and tails by id or"
                " name, relations as `neighbours` shows them.",
            ),
        ],
        kg: Kg = None,
        full: Full = False,
    ) -> Annotated[CallToolResult, Checked]:
        """Say whether a statement or a path is in the graph, and by which edges."""

        async def work() -> tuple[dict[str, Any], str]:
            """Check the statement; return the result as JSON and as text."""
            checked = await sessions.read(kg, lambda kg: kg.check(statement).to_dict())
            short = dict(checked)
            for name in ("paths", "near"):
                short[name] = [_path_json(path) for path in checked[name][:5]]
            lines = ["It is in the graph:" if checked["found"] else "It is not in the graph:"]
            lines += [code_span(path["text"]) for path in short["paths"]]
            lines += [] if checked["found"] else [code_span(str(checked["missing"]))]
            near = [code_span(path["text"]) for path in short["near"]]
            return short, "\n".join(
                [*lines, *(["Near it, and not the same:", *near] if near else [])]
            )

        return await _result(work, full)

    @tool("List the graphs")
    async def kgs() -> Annotated[CallToolResult, Kgs]:
        """List the graphs that are served, with their sizes."""

        async def work() -> tuple[dict[str, Any], str]:
            """Return the KGs with their sizes as JSON and as text."""
            rows = await _kg_sizes(sessions)
            lines = [f"{code_span(said_name(row['name']))}: {row['edges']:,} facts" for row in rows]
            return {"kgs": rows}, "\n".join(lines)

        return await _result(work)

    @tool("Describe a graph")
    async def schema(kg: Kg = None, most: Limit = 8) -> Annotated[CallToolResult, Described]:
        """Describe what a graph holds: types, properties with an example, relations. Ask first."""

        async def work() -> tuple[dict[str, Any], str]:
            """Return the schema as JSON and as text."""
            described = await sessions.read(kg, lambda kg: kg.about(most))
            return described, _schema_text(described)

        return await _result(work)

    @tool("Query the whole graph")
    async def query(
        plan: Annotated[
            str,
            Field(
                max_length=4_000,
                description="`Customer <customer Order | desc count Order | limit 3 | give "
                "Customer, count Order`: a chain of types and relations (`relation>` or "
                '`<relation`), then clauses: a condition (`Order.date >= "1997"`), `without`, '
                "`by`, `desc`, `asc`, `limit`, `then`, `give` with count, sum, average, least, "
                "most. `schema` has the names.",
            ),
        ],
        kg: Kg = None,
        limit: Limit = 20,
        full: Full = False,
    ) -> Annotated[CallToolResult, Rows]:
        """Run a query over the whole graph; each row comes with the facts that it rests on."""

        async def work() -> tuple[dict[str, Any], str]:
            """Run the plan; return the first rows as JSON and as text."""
            table = await sessions.read(
                kg, lambda kg: kg.query(plan, rows=100).to_dict(3), plan=True
            )
            return _few_rows(table, limit)

        return await _result(work, full)

    return server


async def _kg_sizes(sessions: Sessions) -> list[dict[str, Any]]:
    """Return name and size of each KG."""
    kgs = await sessions.in_time(sessions.kgs)
    return [{"name": kg.name, "entities": kg.entities, "edges": kg.edges} for kg in kgs.values()]


def _schema_text(schema: Mapping[str, Any]) -> str:
    """Return a schema as lines of text."""
    lines = [
        f"{said_name(type_['name'])} ({type_['count']:,}): "
        + ", ".join(f"{said_name(each['name'])} {each['type']}" for each in type_["properties"])
        for type_ in schema["types"]
    ]
    lines += [
        " ".join(said_name(relation[part]) for part in ("head", "relation", "tail"))
        + f" ({relation['count']:,})"
        for relation in schema["relations"]
    ]
    return "\n".join(map(code_span, lines))


def _few_rows(table: Mapping[str, Any], limit: int) -> tuple[dict[str, Any], str]:
    """Return the first ``limit`` rows of a result as JSON, and as lines of quoted cells."""
    rows = table["rows"][:limit]
    lines = [" | ".join(map(said_name, table["columns"]))]
    lines += [" | ".join(map(_cell_text, row["values"])) for row in rows]
    if (more := len(table["rows"]) - limit) > 0:
        lines.append(f"{more} more rows; raise `limit` or add a condition.")
    return {**table, "rows": rows}, "\n".join(map(code_span, lines))


def _cell_text(cell: Any) -> str:
    """Return a cell as quoted text."""
    return said_name(cell["name"] if isinstance(cell, dict) else str(cell))


def capped(content: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Return an answer with at most ``limit`` answers, and the first two paths of each.

    Of an answer without answers, three of the paths that were looked at.
    """
    answers, kept = [], list[int]()
    for entry in content["answers"][:limit]:
        behind = entry["paths"][:2]
        kept += [place for place in behind if place not in kept]
        met = [each | {"text": path_text(each["edges"], LONGEST)} for each in entry["conditions"]]
        paths = [kept.index(place) for place in behind]
        answers.append({**entry, "paths": paths, "conditions": met})
    if not answers:  # what was looked at
        kept = list(range(min(3, len(content["paths"]))))
    notes, more = list(content["notes"]), len(content["answers"]) - len(answers)
    if more > 0:
        notes.append(f"{more} more answers are not shown; raise `limit` to see them.")
    names = ("question", "method", "topic_entities", "confidence")
    return {name: content[name] for name in names} | {
        "answers": answers,
        "paths": [_path_json(content["paths"][place]) for place in kept],
        "notes": notes,
        "readings": list(content.get("readings", ())),
    }


def _path_json(path: Mapping[str, Any]) -> dict[str, Any]:
    """Return a path as JSON: text, score and edges."""
    text = path_text(path["edges"], LONGEST)
    return {"text": text, "score": path.get("score"), "edges": path["edges"]}


async def _paths(
    sessions: Sessions, kg: str | None, given: dict[str, Any], full: bool
) -> tuple[dict[str, Any], str]:
    """Return a page of paths as JSON and as text; ``full``: with facts and edge properties."""
    form: PathsForm = validated(PathsForm, given, "the tool paths")
    page = await sessions.read(kg, lambda kg: path_page(kg, form))
    page["paths"] = [_path_json(path) for path in page["paths"]]
    page.pop("browser_url")
    page = bounded(page if full else _compact(page), _MOST_CHARACTERS if full else _COMPACT)
    lines = [code_span(path["text"]) for path in page["paths"]]
    lines.append(f"{len(page['paths'])} of {page['total']} paths.")
    if page["next_offset"] is not None:
        lines[-1] += f" More with offset {page['next_offset']}."
    return page, "\n".join([*map(markdown, page["notes"]), *lines])


async def _result(
    work: Callable[[], Awaitable[tuple[dict[str, Any], str]]], full: bool = False
) -> CallToolResult:
    """Await ``work``; return its JSON, compact unless ``full``, and its text as a tool's result.

    Raises ToolError.
    """
    try:
        content, text = await work()
    except KgqaError as error:
        raise ToolError(error_text(error)) from None
    except TimeoutError as error:
        raise ToolError(str(unexpected(error))) from None
    most = _MOST_CHARACTERS if full else _COMPACT
    lines = text.splitlines(keepends=True)
    within = [n for n in itertools.accumulate(map(len, lines)) if n <= most]
    if more := len(lines) - len(within):
        text = (
            "".join(lines[: len(within)])
            + f"{more} more lines are not shown: lower `limit`, or set `full`."
        )
    shown = TextContent(type="text", text=text)
    content = bounded(content if full else _compact(content), most)
    return CallToolResult(content=[shown], structured_content=content)


def _compact(content: Any) -> Any:
    """Return a tool's JSON without stored facts and edge properties."""
    if isinstance(content, list):
        return [_compact(member) for member in content]
    if not isinstance(content, dict):
        return content
    left = {"facts", "groundings", "properties"} if "tail" in content else {"facts_in_all"}
    return {name: _compact(member) for name, member in content.items() if name not in left}


def bounded(content: Mapping[str, Any], most: int = _MOST_CHARACTERS) -> dict[str, Any]:
    """Reduce a tool's JSON to about ``most`` characters.

    Long texts are cut, and say how long they are; then the longest list is halved until all fits.
    """
    short: dict[str, Any] = _cut(content)
    size = {name: len(json.dumps(value)) for name, value in short.items()}
    while sum(size.values()) > most:
        name = max(size, key=size.__getitem__)
        if not isinstance(short[name], list) or not short[name]:
            break
        before = len(short[name])
        del short[name][before // 2 :]
        size[name] = len(json.dumps(short[name]))
        gone = before - len(short[name])
        if name == "paths" and "next_offset" in short:
            after = short["next_offset"]
            short["next_offset"] = (short["total"] if after is None else after) - gone
        for entry in short.get("answers", ()):
            entry["paths"] = [place for place in entry["paths"] if place < len(short["paths"])]
        if "notes" in short:
            short["notes"].append(f"{gone} more of `{name}` are not shown: they are too long.")
    return short


def _cut(value: Any, name: str = "") -> Any:
    """Cut long texts, and the members beyond a limit, of a JSON value; ``name``: its key."""
    if isinstance(value, str):
        most = 4_000 if name in _WHOLE else 500
        long = len(value) > most
        return f"{value[: most - 40]}… ({len(value):,} characters)" if long else value
    if isinstance(value, dict):
        return {_cut(key): _cut(member, key) for key, member in [*value.items()][:_MOST_ITEMS]}
    if isinstance(value, list | tuple):
        return [_cut(member, name) for member in value[:_MOST_ITEMS]]
    return value
