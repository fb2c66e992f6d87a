"""A program that two tools trace, each patched first or last: prints what its calls gave.

`python -m tests.agent.beside_tracer TOOL untraced|theirs-first|ours-first THEIR_RECEIVER OURS`,
in an environment that has the tool.
"""

import asyncio
import importlib
import json
import os
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final

from tests.support.agent.own_telemetry import (
    APPLICATIONS,
    CHAT,
    ROOTS,
    SETUPS,
    WRAPPERS,
    of,
    server_of,
)
from tests.support.servers.nowhere import NOWHERE


def _instrument(*names: str) -> None:
    for module, kind in (name.split(":") for name in names):
        of(f"opentelemetry.instrumentation.{module}", kind)().instrument()


def _sentry(_receiver: str) -> None:
    dsn = NOWHERE.replace("//", "//key@") + "/1"
    of("sentry_sdk", "init")(dsn=dsn, traces_sample_rate=1.0)


def _ddtrace(_receiver: str) -> None:
    os.environ.update(DD_TRACE_AGENT_URL=NOWHERE, DD_INSTRUMENTATION_TELEMETRY_ENABLED="false")
    importlib.import_module("ddtrace.auto")


def _newrelic(_receiver: str) -> None:
    os.environ.update(
        NEW_RELIC_LICENSE_KEY="0" * 40, NEW_RELIC_DEVELOPER_MODE="true", NEW_RELIC_APP_NAME="app"
    )
    importlib.import_module("newrelic.agent").initialize()


def _langfuse(_receiver: str) -> None:
    os.environ.update(
        LANGFUSE_PUBLIC_KEY="public",
        LANGFUSE_SECRET_KEY="none",
        LANGFUSE_HOST=NOWHERE,
    )
    importlib.import_module("langfuse.openai")


def _elastic(_receiver: str) -> None:
    """Elastic's agent, which records what is called in a request or within a transaction."""
    client = of("elasticapm.contrib.starlette", "make_apm_client")(
        {"SERVER_URL": NOWHERE, "SERVICE_NAME": "program", "CENTRAL_CONFIG": False}
    )
    of("elasticapm", "instrument")()
    middleware = of("elasticapm.contrib.starlette", "ElasticAPM")
    APPLICATIONS.append(lambda app: app.add_middleware(middleware, client=client))

    def in_transaction(call: Callable[[], object]) -> Callable[[], object]:
        def run() -> object:
            client.begin_transaction("task")
            found = call()
            client.end_transaction("calls", "success")
            return found

        return run

    WRAPPERS.append(in_transaction)


def _instana(_receiver: str) -> None:
    os.environ.update(INSTANA_AGENT_HOST="127.0.0.1", INSTANA_AGENT_PORT=NOWHERE.split(":")[-1])
    importlib.import_module("instana")
    tracer = of("instana.singletons", "get_tracer")()
    ROOTS.append(lambda: tracer.start_as_current_span("calls"))


def _braintrust(_receiver: str) -> None:
    os.environ.update(BRAINTRUST_API_URL=NOWHERE, BRAINTRUST_APP_URL=NOWHERE)
    braintrust: Any = importlib.import_module("braintrust")
    logger = braintrust.init_logger(project="program", api_key="none")
    braintrust.auto_instrument()
    ROOTS.append(lambda: logger.start_span("calls"))


def _langsmith(receiver: str) -> None:
    SETUPS["langsmith"](receiver)
    openai: Any = importlib.import_module("openai")
    wrap = of("langsmith.wrappers", "wrap_openai")
    for name in ("OpenAI", "AsyncOpenAI"):
        client = getattr(openai, name)
        setattr(openai, name, lambda client=client, **to: wrap(client(**to)))
    WRAPPERS.append(of("langsmith", "traceable"))


def _agentops(receiver: str) -> None:
    os.environ["AGENTOPS_LOGGING_TO_FILE"] = "false"
    importlib.import_module("openai")  # which it cannot patch while it is imported
    of("agentops", "init")(
        api_key="00000000-0000-0000-0000-000000000000",
        endpoint=receiver,
        exporter_endpoint=f"{receiver}/v1/traces",
        app_url=receiver,
    )
    WRAPPERS.append(of("agentops.sdk.decorators", "operation"))


TOOLS: Final[dict[str, Callable[[str], object]]] = {
    "none": lambda _: None,
    "sentry-sdk": _sentry,
    "ddtrace": _ddtrace,
    "newrelic": _newrelic,
    "langfuse": _langfuse,
    "opentelemetry-instrumentation-threading": lambda _: _instrument(
        "threading:ThreadingInstrumentor"
    ),
    "opentelemetry-distro": lambda _: _instrument(
        "threading:ThreadingInstrumentor",
        "asyncio:AsyncioInstrumentor",
        "httpx:HTTPXClientInstrumentor",
        "requests:RequestsInstrumentor",
        "fastapi:FastAPIInstrumentor",
    ),
    "elastic-apm": _elastic,
    "instana": _instana,
    "braintrust": _braintrust,
    "logfire": SETUPS["logfire"],
    "langsmith": _langsmith,
    "agentops": _agentops,
    "traceloop-sdk": SETUPS["traceloop"],
    "openlit": SETUPS["openlit"],
    "openinference-instrumentation-openai": SETUPS["phoenix"],
}


ASKED: Final[Mapping[str, object]] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "hello"}],
}
CHUNK: Final = {
    **CHAT,
    "object": "chat.completion.chunk",
    "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}],
}
CHUNKS: Final = [f"data: {said}\n\n" for said in (json.dumps(CHUNK), "[DONE]")]


def application() -> Any:
    """Serve threads, streams, failures and chat."""
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

    def refused() -> None:
        raise fastapi.HTTPException(418, "refused")

    async def stream() -> Any:
        return responses.StreamingResponse(parts(*"abc"))

    async def chat(asked: dict[str, Any]) -> Any:
        if not asked.get("stream"):
            return CHAT if asked["model"] == "tiny" else responses.Response(status_code=404)
        return responses.StreamingResponse(parts(*CHUNKS), media_type="text/event-stream")

    app.get("/thread")(thread)
    app.get("/plain")(plain)
    app.get("/refused")(refused)
    app.get("/stream", response_model=None)(stream)
    app.post("/v1/chat/completions", response_model=None)(chat)
    for change in APPLICATIONS:
        change(app)
    return app


async def parts(*said: str) -> AsyncIterator[str]:
    for each in said:
        yield each


class Program:
    """What the program does: each public method, a coroutine's in a loop of its own."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._httpx, self._requests, self._openai = map(
            importlib.import_module, ("httpx", "requests", "openai")
        )

    def _to(self, address: str) -> Mapping[str, object]:
        return {"base_url": f"{address}/v1", "api_key": "none", "max_retries": 0}

    def outcomes(self) -> dict[str, object]:
        """Return what each call gave or raised."""
        found: dict[str, object] = {}
        for name in (name for name in vars(Program) if not name.startswith("_")):
            if name != "outcomes":
                try:
                    given = getattr(self, name)()
                    found[name] = asyncio.run(given) if asyncio.iscoroutine(given) else given
                except Exception as error:  # noqa: BLE001  # which is to be the same
                    found[name] = f"{type(error).__module__}.{type(error).__qualname__}"
        return found

    def thread_of_a_request(self) -> bool:
        return bool(self._httpx.get(f"{self._address}/thread").json() > 0)

    def def_endpoint(self) -> object:
        return self._httpx.get(f"{self._address}/plain").json()

    def refusal(self) -> object:
        return self._httpx.get(f"{self._address}/refused").status_code

    def raised_refusal(self) -> object:
        answer = self._requests.get(f"{self._address}/refused", timeout=30)
        return answer.raise_for_status()

    def stream(self) -> object:
        return self._requests.get(f"{self._address}/stream", timeout=30).text

    async def async_stream(self) -> str:
        async with self._httpx.AsyncClient() as client:
            return str((await client.get(f"{self._address}/stream")).text)

    async def tasks(self) -> list[str]:
        called = (asyncio.create_task(self.async_stream()) for _ in range(3))
        return await asyncio.gather(*called)

    def chat(self) -> object:
        answer = self._openai.OpenAI(**self._to(self._address)).chat.completions.create(**ASKED)
        return answer.choices[0].message.content

    def chat_in_parts(self) -> list[str]:
        completions = self._openai.OpenAI(**self._to(self._address)).chat.completions
        return [part_of(chunk) for chunk in completions.create(**ASKED, stream=True)]

    async def async_chat(self) -> object:
        async with self._openai.AsyncOpenAI(**self._to(self._address)) as client:
            answer = await client.chat.completions.create(**ASKED)
        return answer.choices[0].message.content

    async def async_chat_in_parts(self) -> list[str]:
        async with self._openai.AsyncOpenAI(**self._to(self._address)) as client:
            chunks = await client.chat.completions.create(**ASKED, stream=True)
            return [part_of(chunk) async for chunk in chunks]

    def chat_with_a_model_that_is_not_there(self) -> object:
        completions = self._openai.OpenAI(**self._to(self._address)).chat.completions
        return completions.create(**{**ASKED, "model": "other"})

    def chat_with_nobody(self) -> object:
        return self._openai.OpenAI(**self._to(NOWHERE)).chat.completions.create(**ASKED)

    def httpx_with_nobody(self) -> object:
        return self._httpx.get(NOWHERE)

    def requests_with_nobody(self) -> object:
        return self._requests.get(NOWHERE, timeout=30)

    def pool(self) -> list[int]:
        with ThreadPoolExecutor(2) as workers:
            return list(workers.map(abs, (-1, -2)))

    def database(self) -> list[object]:
        with closing(sqlite3.connect(":memory:")) as connection:
            return connection.cursor().execute("SELECT 1, 'a'").fetchall()


def part_of(chunk: Any) -> str:
    return str(chunk.choices[0].delta.content)


def main(tool: str, order: str, theirs: str, ours: str) -> None:
    """Serve, call, take our patches back, call again, and end the server."""
    agent = importlib.import_module("latencytrace")
    if order == "ours-first":
        agent.instrument("program", endpoint=ours)
    TOOLS[tool](theirs)
    if order == "theirs-first":
        agent.instrument("program", endpoint=ours)
    told = threading.Event()
    server = server_of(application(), told)
    serving = threading.Thread(target=server.run)
    serving.start()
    told.wait(60)
    port = server.servers[0].sockets[0].getsockname()[1]
    program = Program(f"http://127.0.0.1:{port}")

    def called() -> dict[str, object]:
        with ROOTS[-1]():
            return program.outcomes()

    try:
        traced = WRAPPERS[-1](called)()
        faults = agent.agent_status().faults
        agent.uninstrument()
        after = WRAPPERS[-1](called)()
    finally:
        server.should_exit = True
        serving.join(60)
    outcome = {"traced": traced, "after": after, "faults": faults, "ended": not serving.is_alive()}
    sys.stdout.write(json.dumps(outcome) + "\n")
    sys.stdout.flush()
    os._exit(0)  # what the tools' own threads do at exit is not asked here


if __name__ == "__main__":
    main(*sys.argv[1:])
