"""A program that two tools trace, each patched first or last: prints what its calls gave.

`beside_tracer.py TOOL theirs-first|ours-first RECEIVER`, in an environment that has the tool.
"""

import asyncio
import importlib
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

NOWHERE: Final = "http://127.0.0.1:9"


def _instrument(*names: str) -> None:
    for module, kind in (name.split(":") for name in names):
        library = importlib.import_module(f"opentelemetry.instrumentation.{module}")
        getattr(library, kind)().instrument()


def _sentry() -> None:
    sdk = importlib.import_module("sentry_sdk")
    sdk.init(dsn="http://key@127.0.0.1:9/1", traces_sample_rate=1.0)


def _ddtrace() -> None:
    os.environ.update(DD_TRACE_AGENT_URL=NOWHERE, DD_INSTRUMENTATION_TELEMETRY_ENABLED="false")
    importlib.import_module("ddtrace.auto")


def _newrelic() -> None:
    os.environ.update(
        NEW_RELIC_LICENSE_KEY="0" * 40, NEW_RELIC_DEVELOPER_MODE="true", NEW_RELIC_APP_NAME="app"
    )
    importlib.import_module("newrelic.agent").initialize()


def _langfuse() -> None:
    os.environ.update(
        LANGFUSE_PUBLIC_KEY="public",
        LANGFUSE_SECRET_KEY="none",
        LANGFUSE_HOST=NOWHERE,
    )
    importlib.import_module("langfuse.openai")


TOOLS: Final[dict[str, Callable[[], None]]] = {
    "sentry-sdk": _sentry,
    "ddtrace": _ddtrace,
    "newrelic": _newrelic,
    "langfuse": _langfuse,
    "opentelemetry-instrumentation-threading": lambda: _instrument(
        "threading:ThreadingInstrumentor"
    ),
    "opentelemetry-distro": lambda: _instrument(
        "threading:ThreadingInstrumentor",
        "asyncio:AsyncioInstrumentor",
        "httpx:HTTPXClientInstrumentor",
        "requests:RequestsInstrumentor",
        "fastapi:FastAPIInstrumentor",
    ),
}
CHAT: Final = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "tiny",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


def application() -> Any:
    fastapi, responses = map(importlib.import_module, ("fastapi", "fastapi.responses"))
    app = fastapi.FastAPI()
    ran: list[int] = []

    async def thread() -> int:
        worker = threading.Thread(target=ran.append, args=(1,))
        worker.start()
        await asyncio.to_thread(worker.join, 5)
        return len(ran)

    def plain() -> str:
        return "plain"

    async def parts() -> AsyncIterator[str]:
        for each in "abc":
            yield each

    async def stream() -> Any:
        return responses.StreamingResponse(parts())

    app.get("/thread")(thread)
    app.get("/plain")(plain)
    app.get("/stream", response_model=None)(stream)
    app.post("/v1/chat/completions")(lambda: CHAT)
    return app


def calls(address: str) -> dict[str, Callable[[], object]]:
    """What the program does, by name."""
    httpx, requests, openai = map(importlib.import_module, ("httpx", "requests", "openai"))
    asked = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}
    to = {"base_url": f"{address}/v1", "api_key": "none", "max_retries": 0}

    async def fetched() -> str:
        async with httpx.AsyncClient() as client:
            return str((await client.get(f"{address}/stream")).text)

    async def chatted() -> object:
        answer = await openai.AsyncOpenAI(**to).chat.completions.create(**asked)
        return answer.choices[0].message.content

    def chat() -> object:
        answer = openai.OpenAI(**to).chat.completions.create(**asked)
        return answer.choices[0].message.content

    def pool() -> list[int]:
        with ThreadPoolExecutor(2) as workers:
            return list(workers.map(abs, (-1, -2)))

    return {
        "a thread of a request": lambda: httpx.get(f"{address}/thread").json() > 0,
        "a def endpoint": lambda: httpx.get(f"{address}/plain").json(),
        "a stream": lambda: requests.get(f"{address}/stream", timeout=30).text,
        "asyncio.run": lambda: asyncio.run(fetched()),
        "openai": chat,
        "openai, async": lambda: asyncio.run(chatted()),
        "a pool": pool,
    }


def main(tool: str, order: str, receiver: str) -> None:
    """Serve, call, take our patches back, call again, and end the server."""
    agent = importlib.import_module("latencytrace")
    if order == "ours-first":
        agent.instrument("program", endpoint=receiver)
    if tool != "none":
        TOOLS[tool]()
    if order != "ours-first":
        agent.instrument("program", endpoint=receiver)
    uvicorn = importlib.import_module("uvicorn")
    told = threading.Event()

    class Server(uvicorn.Server):  # type: ignore[misc, name-defined]  # imported here
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            told.set()

    server = Server(uvicorn.Config(application(), port=0, log_level="error"))
    serving = threading.Thread(target=server.run)
    serving.start()
    told.wait(60)
    port = server.servers[0].sockets[0].getsockname()[1]
    found = calls(f"http://127.0.0.1:{port}")
    traced = {name: call() for name, call in found.items()}
    faults = agent.agent_status().faults
    agent.uninstrument()
    after = {name: call() for name, call in found.items()}
    server.should_exit = True
    serving.join(60)
    outcome = {"traced": traced, "after": after, "faults": faults, "ended": not serving.is_alive()}
    sys.stdout.write(json.dumps(outcome) + "\n")
    sys.stdout.flush()
    os._exit(0)  # what the tools' own threads do at exit is not asked here


if __name__ == "__main__":
    main(*sys.argv[1:])
