"""A FastAPI application for `bench_request.py`: `python request_server.py PORT HOW MODEL`.

Args:
    PORT: Where it listens.
    HOW: What traces it.
    MODEL: Base address of an OpenAI-compatible server.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Collection
from functools import cache
from importlib.metadata import entry_points

import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI

CHUNKS = 200
EVENT = (
    b'data: {"id":"chatcmpl-1234567890","object":"chat.completion.chunk","created":1763690000,'
    b'"model":"llama","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,'
    b'"finish_reason":null}]}\n\n'
)

app = FastAPI()


@app.get("/hello")
async def hello() -> dict[str, str]:
    """Answer at once."""
    return {"hello": "world"}


@app.get("/stream")
async def stream() -> StreamingResponse:
    """Answer in chunks, as fast as they leave."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(CHUNKS):
            yield EVENT

    return StreamingResponse(chunks(), media_type="text/event-stream")


@app.get("/paced")
async def paced() -> StreamingResponse:
    """Answer in chunks, each in a turn of the event loop of its own, as a model would."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(CHUNKS):
            await asyncio.sleep(0)
            yield EVENT

    return StreamingResponse(chunks(), media_type="text/event-stream")


@app.get("/threaded")
def threaded() -> StreamingResponse:
    """Answer in chunks that are made on a thread of a pool."""
    return StreamingResponse((EVENT for _ in range(CHUNKS)), media_type="text/event-stream")


@app.get("/agent")
async def agent() -> dict[str, float | str | None]:
    """Say what the agent says of itself."""
    import latencytrace

    status = latencytrace.agent_status()
    cost, overhead = status.cost, status.overhead
    return {
        "cpu_ns": cost.cpu_ns,
        "hooks_ns": cost.hooks_cpu_ns,
        "reporting_ns": cost.reporting_cpu_ns,
        "share_ratio": overhead.share_ratio,
        "step": overhead.step,
        "is_held": overhead.is_held,
        "sampling_ratio": overhead.sampling_ratio,
        "requests": overhead.requests,
        "dropped": overhead.dropped_requests,
    }


@app.get("/model")
async def model() -> dict[str, str | None]:
    """Answer with what a model says."""
    completion = await client().chat.completions.create(
        model="llama", messages=[{"role": "user", "content": "hello"}]
    )
    return {"said": completion.choices[0].message.content}


@cache
def client() -> AsyncOpenAI:
    """Return the one client, which keeps its connection."""
    return AsyncOpenAI(api_key="none", base_url=f"{sys.argv[3]}/v1", max_retries=0)


def trace(how: str, app: FastAPI, clients: Collection[str]) -> None:
    """Trace this process, an application in it and, by contrib, some clients, as asked for."""
    if how == "latencytrace":
        import latencytrace

        latencytrace.instrument("bench")
    elif how.startswith("contrib"):
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
            OTLPSpanExporter,
        )
        from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
        excluded = ["receive", "send"] if how == "contrib-without-send" else None
        FastAPIInstrumentor.instrument_app(app, exclude_spans=excluded)
        os.environ["TRACELOOP_TRACE_CONTENT"] = "false"  # as ours, and as ddtrace
        for each in entry_points(group="opentelemetry_instrumentor"):
            if each.name in clients and each.value.startswith("opentelemetry."):
                each.load()().instrument()


def serve(app: FastAPI) -> None:
    """Serve an application until this process is told to end."""
    uvicorn.run(
        app,
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        log_level="error",
        timeout_keep_alive=3600,  # longer than the turns of the others
    )


if __name__ == "__main__":
    trace(sys.argv[2], app, {"openai"})
    serve(app)
