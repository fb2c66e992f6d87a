"""A program with telemetry of its own, which it sends to a receiver of its own.

`own_telemetry.py SETUP alone|theirs-first|ours-first THEIR_RECEIVER OUR_RECEIVER`, in an
environment that has the set-up's library. It serves and calls itself, flushes what is its own,
and ends.
"""

import asyncio
import importlib
import logging
import os
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

Flush = Any  # a function without arguments
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
CONTRIB: Final = (
    "threading:ThreadingInstrumentor",
    "asyncio:AsyncioInstrumentor",
    "requests:RequestsInstrumentor",
    "urllib3:URLLib3Instrumentor",
    "aiohttp_client:AioHttpClientInstrumentor",
    "sqlite3:SQLite3Instrumentor",
    "sqlalchemy:SQLAlchemyInstrumentor",
    "fastapi:FastAPIInstrumentor",
    "urllib:URLLibInstrumentor",
    "jinja2:Jinja2Instrumentor",
    "logging:LoggingInstrumentor",
    "flask:FlaskInstrumentor",
    "starlette:StarletteInstrumentor",
    "tornado:TornadoInstrumentor",
    "aiohttp_server:AioHttpServerInstrumentor",
    "grpc:GrpcInstrumentorServer",
    "grpc:GrpcInstrumentorClient",
    "click:ClickInstrumentor",
    "celery:CeleryInstrumentor",
)  # with httpx twenty


def of(module: str, name: str) -> Any:
    """Return what a module has."""
    return getattr(importlib.import_module(module), name)


def by_sdk(receiver: str) -> Flush:
    """The SDK's providers with exporters, and contrib's instrumentors, one with a hook."""
    trace, metrics = map(importlib.import_module, ("opentelemetry.trace", "opentelemetry.metrics"))
    provider = of("opentelemetry.sdk.trace", "TracerProvider")()
    exporter = of("opentelemetry.exporter.otlp.proto.http.trace_exporter", "OTLPSpanExporter")
    batches = of("opentelemetry.sdk.trace.export", "BatchSpanProcessor")
    provider.add_span_processor(batches(exporter(f"{receiver}/v1/traces")))
    trace.set_tracer_provider(provider)
    measured = of("opentelemetry.exporter.otlp.proto.http.metric_exporter", "OTLPMetricExporter")
    reader = of("opentelemetry.sdk.metrics.export", "PeriodicExportingMetricReader")(
        measured(f"{receiver}/v1/metrics"), export_interval_millis=10_000_000
    )
    meters = of("opentelemetry.sdk.metrics", "MeterProvider")([reader])
    metrics.set_meter_provider(meters)

    def note(span: Any, request: Any) -> None:
        span.set_attribute("noted", str(request.method))

    of("opentelemetry.instrumentation.httpx", "HTTPXClientInstrumentor")().instrument(
        request_hook=note
    )
    for name in CONTRIB:
        module, kind = name.split(":")
        of(f"opentelemetry.instrumentation.{module}", kind)().instrument()
    CALLS.append(more_calls)
    return lambda: (provider.shutdown(), meters.shutdown())


def by_auto_configure(receiver: str) -> Flush:
    """FastAPI's own telemetry."""
    os.environ["FASTAPI_OTEL_AUTO_CONFIGURE"] = "true"
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver
    os.environ["OTEL_METRIC_EXPORT_INTERVAL"] = "10000000"
    return _flush_global


def by_distribution(_receiver: str) -> Flush:
    """What `opentelemetry-instrument` has set up before the program began."""
    return _flush_global


def by_langsmith(receiver: str) -> Flush:
    """LangSmith by OpenTelemetry."""
    os.environ.update(
        LANGSMITH_OTEL_ENABLED="true",
        LANGSMITH_OTEL_ONLY="true",
        LANGSMITH_TRACING="true",
        LANGSMITH_ENDPOINT=receiver,
        LANGSMITH_API_KEY="none",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"{receiver}/otel",
    )
    client = of("langsmith", "Client")()
    ROOTS.append(lambda: of("langsmith", "trace")("answer", client=client))

    def flush() -> None:
        client.flush()
        _flush_global()

    return flush


def by_langfuse(receiver: str) -> Flush:
    """Langfuse, with its client of OpenAI."""
    client = of("langfuse", "Langfuse")(
        public_key="public",
        secret_key="none",
        host=receiver,
    )
    importlib.import_module("langfuse.openai")
    ROOTS.append(lambda: client.start_as_current_observation(name="answer"))
    return client.flush


def by_logfire(receiver: str) -> Flush:
    """Logfire, with all that it instruments here."""
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver
    logfire: Any = importlib.import_module("logfire")
    logfire.configure(send_to_logfire=False, console=False, inspect_arguments=False)
    logfire.instrument_httpx()
    logfire.instrument_requests()
    logfire.instrument_openai()
    APPLICATIONS.append(logfire.instrument_fastapi)
    ROOTS.append(lambda: logfire.span("answer"))
    return logfire.shutdown


def by_phoenix(receiver: str) -> Flush:
    """Phoenix, with OpenInference's instrumentor of OpenAI."""
    provider = of("phoenix.otel", "register")(
        endpoint=f"{receiver}/v1/traces", protocol="http/protobuf", batch=True, verbose=False
    )
    of("openinference.instrumentation.openai", "OpenAIInstrumentor")().instrument(
        tracer_provider=provider
    )
    tracer = provider.get_tracer("own")
    ROOTS.append(lambda: tracer.start_as_current_span("answer"))
    return provider.shutdown


def by_traceloop(receiver: str) -> Flush:
    """Traceloop's SDK."""
    os.environ.update(TRACELOOP_TELEMETRY="false", TRACELOOP_METRICS_ENABLED="true")
    traceloop = of("traceloop.sdk", "Traceloop")
    traceloop.init(app_name="program", api_endpoint=receiver, api_key="none", disable_batch=True)
    workflow = of("traceloop.sdk.decorators", "workflow")
    WRAPPERS.append(workflow(name="answer"))
    return _flush_global


def by_openlit(receiver: str) -> Flush:
    """OpenLIT."""
    of("openlit", "init")(otlp_endpoint=receiver, application_name="program", disable_batch=True)
    return _flush_global


def by_mlflow(receiver: str) -> Flush:
    """MLflow's tracing, exported by OTLP."""
    os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"{receiver}/v1/traces"
    os.environ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = "http/protobuf"
    mlflow: Any = importlib.import_module("mlflow")
    mlflow.openai.autolog()
    ROOTS.append(lambda: mlflow.start_span("answer"))
    own = of("mlflow.tracing.provider", "provider")
    return lambda: own.get().shutdown()


def by_sentry(receiver: str) -> Flush:
    """Sentry, which exports OpenTelemetry's spans."""
    sdk: Any = importlib.import_module("sentry_sdk")
    integration = of("sentry_sdk.integrations.otlp", "OTLPIntegration")
    sdk.init(
        dsn=receiver.replace("//", "//key@") + "/1",
        traces_sample_rate=1.0,
        integrations=[integration()],
    )
    tracer = of("opentelemetry.trace", "get_tracer")("own")
    ROOTS.append(lambda: tracer.start_as_current_span("answer"))

    def flush() -> None:
        _flush_global()
        sdk.flush(10)

    return flush


SETUPS: Final[dict[str, Callable[[str], Flush]]] = {
    "sdk": by_sdk,
    "distribution": by_distribution,
    "auto_configure": by_auto_configure,
    "langsmith": by_langsmith,
    "langfuse": by_langfuse,
    "logfire": by_logfire,
    "phoenix": by_phoenix,
    "traceloop": by_traceloop,
    "openlit": by_openlit,
    "mlflow": by_mlflow,
    "sentry": by_sentry,
}
ROOTS: list[Callable[[], AbstractContextManager[object]]] = [nullcontext]  # the last is entered
WRAPPERS: list[Callable[[Any], Any]] = [lambda call: call]  # the last is used
CALLS: list[Callable[[str], None]] = []  # what is called beside
APPLICATIONS: list[Callable[[Any], object]] = []  # what is done with the application


def _flush_global() -> None:
    for provider in (
        of("opentelemetry.trace", "get_tracer_provider")(),
        of("opentelemetry.metrics", "get_meter_provider")(),
    ):
        for name in ("force_flush", "shutdown"):
            getattr(provider, name, lambda: None)()


def application() -> Any:
    fastapi, responses = map(importlib.import_module, ("fastapi", "fastapi.responses"))
    app = fastapi.FastAPI()

    async def parts() -> AsyncIterator[str]:
        for each in "abc":
            yield each

    async def stream() -> Any:
        return responses.StreamingResponse(parts())

    app.get("/plain")(lambda: "plain")
    app.get("/stream", response_model=None)(stream)
    app.post("/v1/chat/completions")(lambda: CHAT)
    for change in APPLICATIONS:
        change(app)
    return app


def server_of(app: Any, told: threading.Event | asyncio.Event) -> Any:
    """Return a server of an application, which says when it has begun."""
    uvicorn = importlib.import_module("uvicorn")

    class Server(uvicorn.Server):  # type: ignore[misc, name-defined]  # imported here
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            told.set()

    return Server(uvicorn.Config(app, port=0, log_level="error"))


def calls(address: str) -> None:
    """Call by whatever is installed, in the same order each time."""
    for name, call in (
        ("httpx", lambda httpx: httpx.get(f"{address}/plain").raise_for_status()),
        ("requests", lambda requests: requests.get(f"{address}/stream", timeout=30).text),
        ("urllib3", lambda urllib3: urllib3.PoolManager().request("GET", f"{address}/plain")),
        ("aiohttp", lambda aiohttp: asyncio.run(_by_aiohttp(aiohttp, f"{address}/plain"))),
        ("openai", lambda openai: _chat(openai, address)),
    ):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        call(library)
    connection = sqlite3.connect(":memory:")
    connection.cursor().execute("SELECT 1")
    connection.close()
    worker = threading.Thread(target=sum, args=((1, 2),))
    worker.start()
    worker.join()
    for more in CALLS:
        more(address)


def more_calls(address: str) -> None:
    """Call by and serve with the rest of what contrib instruments and needs no other server."""
    sqlalchemy, click, jinja2, flask, celery = map(
        importlib.import_module, ("sqlalchemy", "click", "jinja2", "flask", "celery")
    )
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("SELECT 2"))
    engine.dispose()
    of("urllib.request", "urlopen")(f"{address}/plain").read()
    logging.getLogger("program").warning("called")
    of("click.testing", "CliRunner")().invoke(click.Command("say", callback=lambda: None))
    jinja2.Environment(loader=jinja2.DictLoader({"page": "{{ word }}"})).get_template(
        "page"
    ).render(word="word")
    served = flask.Flask("served")
    served.get("/flask")(lambda: "flask")
    served.test_client().get("/flask")
    tasks = celery.Celery("tasks", broker="memory://")
    tasks.task(name="add")(_added).apply((1, 2))
    _by_grpc(importlib.import_module("grpc"))
    asyncio.run(_by_servers())


def _added(one: int, two: int) -> int:
    return one + two


def _by_grpc(grpc: Any) -> None:
    def same(request: bytes, _: object) -> bytes:
        return request

    handlers = {"Same": grpc.unary_unary_rpc_method_handler(same)}
    server = grpc.server(of("concurrent.futures", "ThreadPoolExecutor")(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        channel.unary_unary("/Echo/Same")(b"said", timeout=30)
    server.stop(None).wait(30)


async def _by_servers() -> None:
    """Ask servers of Starlette's, Tornado's and aiohttp's."""
    web, aiohttp, tornado = map(importlib.import_module, ("aiohttp.web", "aiohttp", "tornado.web"))
    routing, responses = map(importlib.import_module, ("starlette.routing", "starlette.responses"))

    async def endpoint(_: object) -> Any:
        return responses.PlainTextResponse("starlette")

    app = of("starlette.applications", "Starlette")(routes=[routing.Route("/asgi", endpoint)])
    told = asyncio.Event()
    asgi = server_of(app, told)
    serving = asyncio.create_task(asgi.serve())
    await told.wait()
    port = asgi.servers[0].sockets[0].getsockname()[1]
    await _by_aiohttp(aiohttp, f"http://127.0.0.1:{port}/asgi")
    asgi.should_exit = True
    await serving

    class Page(tornado.RequestHandler):  # type: ignore[misc, name-defined]  # imported here
        def get(self) -> None:
            self.write("tornado")

    sockets = of("tornado.netutil", "bind_sockets")(0, "127.0.0.1")
    server = of("tornado.httpserver", "HTTPServer")(tornado.Application([("/tornado", Page)]))
    server.add_sockets(sockets)
    port = sockets[0].getsockname()[1]
    await of("tornado.httpclient", "AsyncHTTPClient")().fetch(f"http://127.0.0.1:{port}/tornado")
    server.stop()

    async def answer(_: object) -> Any:
        return web.Response(text="aiohttp")

    application = web.Application()
    application.router.add_get("/aiohttp", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    await _by_aiohttp(aiohttp, f"http://127.0.0.1:{port}/aiohttp")
    await runner.cleanup()


async def _by_aiohttp(aiohttp: Any, url: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        await answer.read()


def _chat(openai: Any, address: str) -> None:
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
    asked = [{"role": "user", "content": "hello"}]
    client.chat.completions.create(model="tiny", messages=asked)


def main(setup: str, order: str, theirs: str, ours: str) -> None:
    """Set both up in an order, serve, call, and flush what is the program's."""
    agent = importlib.import_module("latencytrace") if order != "alone" else None
    if agent is not None and order == "ours-first":
        agent.instrument("program", endpoint=ours)
    flush = SETUPS[setup](theirs)
    if agent is not None and order == "theirs-first":
        agent.instrument("program", endpoint=ours)
    told = threading.Event()
    server = server_of(application(), told)
    serving = threading.Thread(target=server.run)
    serving.start()
    told.wait(60)
    port = server.servers[0].sockets[0].getsockname()[1]

    def answer() -> None:
        with ROOTS[-1]():
            calls(f"http://127.0.0.1:{port}")

    try:
        WRAPPERS[-1](answer)()
    finally:
        server.should_exit = True
        serving.join(60)
    flush()
    if agent is not None:
        agent.flush(30)
        sys.stdout.write(f"faults {agent.agent_status().faults}\n")
    sys.stdout.flush()
    os._exit(0)  # what the tools' own threads do at exit is not asked here


if __name__ == "__main__":
    main(*sys.argv[1:])
