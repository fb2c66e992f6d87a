"""The rows of docs/pages/propagation.md under OpenTelemetry's SDK with contrib: kept or lost.

    python -m venv contrib && contrib/bin/pip install --group contrib
    contrib/bin/python -m tests.benchmarks.measure_propagation

In an environment of its own, with every instrumentation of contrib that there is for a row.
"""

import logging
import sys
from collections.abc import Callable

from opentelemetry import trace
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
from opentelemetry.instrumentation.aiohttp_server import AioHttpServerInstrumentor
from opentelemetry.instrumentation.asyncio import AsyncioInstrumentor
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.instrumentation.grpc import (
    GrpcAioInstrumentorClient,
    GrpcAioInstrumentorServer,
    GrpcInstrumentorClient,
    GrpcInstrumentorServer,
)
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.instrumentation.redis import RedisInstrumentor
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.instrumentation.starlette import StarletteInstrumentor
from opentelemetry.instrumentation.threading import ThreadingInstrumentor
from opentelemetry.instrumentation.urllib3 import URLLib3Instrumentor
from opentelemetry.sdk.trace import TracerProvider

INSTRUMENTORS = (
    AioHttpClientInstrumentor,
    AioHttpServerInstrumentor,
    AsyncioInstrumentor,
    CeleryInstrumentor,
    GrpcAioInstrumentorClient,
    GrpcAioInstrumentorServer,
    GrpcInstrumentorClient,
    GrpcInstrumentorServer,
    HTTPXClientInstrumentor,
    RedisInstrumentor,
    RequestsInstrumentor,
    StarletteInstrumentor,
    ThreadingInstrumentor,
    URLLib3Instrumentor,
)


def main() -> None:
    """Print one line a row."""
    logging.disable(logging.CRITICAL)  # "Failed to detach context", where it is lost
    provider = TracerProvider()
    trace.set_tracer_provider(provider)
    for instrumentor in INSTRUMENTORS:
        instrumentor().instrument()  # before the libraries are used: they patch classes
    from tests.propagation.between_rows import ROWS as BETWEEN
    from tests.propagation.inside_rows import ROWS as INSIDE
    from tests.propagation.tracing import Tracing

    for row in INSIDE + BETWEEN:
        tracing = Tracing(provider)
        CeleryInstrumentor().instrument() if row.__name__ == "celery_task" else None
        sys.stdout.write(f"{row.__name__:32} {_outcome(row, tracing)}\n")


def _outcome(row: Callable[..., bool], tracing: object) -> str:
    return "kept" if row(tracing) else "lost"


if __name__ == "__main__":
    main()
