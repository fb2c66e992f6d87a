"""The hook of the Model Context Protocol's library, with its own client and server."""

import asyncio
import importlib
from contextlib import suppress
from typing import Any

import pytest

from latencytrace.agent.hooks.mcp import McpHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text

mcp = pytest.importorskip("mcp")

HOOKS = (McpHook,)
FastMCP: Any = None
with suppress(ImportError):  # of version 1, which does not trace itself
    FastMCP = importlib.import_module("mcp.server.fastmcp").FastMCP

of_version_1 = pytest.mark.skipif(FastMCP is None, reason="mcp traces itself since version 2")
of_version_2 = pytest.mark.skipif(FastMCP is not None, reason="the installed mcp is older")


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


def fail(secret: str) -> None:
    """Fail, whatever it is given."""
    raise LookupError(secret)


def called(name: str, arguments: dict[str, object]) -> Any:
    """The answer that a client gets from a server of version 1."""
    memory = importlib.import_module("mcp.shared.memory")

    async def call() -> Any:
        server = FastMCP("tools")
        server.add_tool(add)
        server.add_tool(fail)
        async with memory.create_connected_server_and_client_session(server) as session:
            return await session.call_tool(name, arguments)

    return asyncio.run(call())


@of_version_1
def test_a_tool_is_one_span_of_the_client_and_one_of_the_server(spans: Spans) -> None:
    assert called("add", {"one": 1, "other": 2}).content[0].text == "3"

    assert spans.names == ["execute_tool add", "execute_tool add"]
    assert [dict(span.attributes) for span in spans.all] == [
        {semconv.STAGE: Stage.TOOL, semconv.GEN_AI_OPERATION_NAME: "execute_tool"}
    ] * 2


@of_version_1
def test_a_tool_that_fails_is_an_error_of_both(spans: Spans) -> None:
    assert called("fail", {"secret": "a secret"}).isError

    server, client = spans.all
    assert server.attributes[semconv.ERROR_TYPE] == "ToolError"
    assert client.attributes[semconv.ERROR_TYPE] == "tool_error"
    assert "secret" not in attribute_text(spans)


@of_version_2
def test_a_tool_that_its_library_traces_is_left_to_it(spans: Spans) -> None:
    client_of = importlib.import_module("mcp.client.client").Client
    server_of = importlib.import_module("mcp.server.mcpserver").MCPServer

    async def call() -> Any:
        server = server_of("tools")
        server.add_tool(add)
        async with client_of(server) as client:
            return await client.call_tool("add", {"one": 1, "other": 2})

    assert asyncio.run(call()).content[0].text == "3"
    assert spans.names == []
