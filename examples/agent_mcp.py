"""An agent's side of MCP: start ``kgqa serve --mcp``, list its tools, and call two of them.

    python examples/agent_mcp.py [QUESTION]

This is what an agent does when a model decides to use a tool. The example needs no key, because it
leaves out the model; any MCP client (docs/serve.md names some) can take its place. The graph is
services.tsv, in a folder that is deleted at the end.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import kgqa

TRIPLES = Path(__file__).with_name("services.tsv")
QUESTION = "who gets paged when checkout-api goes down"


async def talk(home: str, question: str) -> None:
    """Ask over MCP, and check the first path with the tool `check`."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "kgqa", "serve", "--mcp", "--home", home]
    )
    async with Client(stdio_client(server)) as client:
        tools = (await client.list_tools()).tools
        print("tools:", ", ".join(sorted(tool.name for tool in tools)))
        found = (
            await client.call_tool("ask", {"question": question, "limit": 1})
        ).structured_content
        assert found is not None
        for answer in found["answers"]:
            print("answer:", answer["name"])
            path = found["paths"][answer["paths"][0]]["text"]
            checked = await client.call_tool("check", {"statement": path})
            assert checked.structured_content is not None
            print("path:", path, "| in the graph:", checked.structured_content["found"])


def main(question: str = QUESTION) -> None:
    """Load the graph, and talk to its server."""
    with tempfile.TemporaryDirectory() as home:
        kgqa.ingest("triples", TRIPLES, home=home).close()
        asyncio.run(talk(home, question))


if __name__ == "__main__":
    main(*sys.argv[1:])
