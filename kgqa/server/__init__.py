"""kgqa for many clients: page, HTTP API, chat endpoint and MCP over the same sessions."""
