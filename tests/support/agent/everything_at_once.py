"""An application of FastAPI that four tools trace, patched in the order of `ORDER`; or none.

gunicorn serves `app`, or with its gevent workers `wsgi`.
"""

import asyncio
import importlib
import os
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any, Final

from tests.agent.beside_tracer import TOOLS
from tests.support.servers.nowhere import NOWHERE

OURS: Final = "latencytrace"
TRACERS: Final = ("sentry-sdk", "opentelemetry-distro", "ddtrace", OURS)
PARTS: Final = 20
_PAUSE_S: Final = 0.05


def _patched() -> None:
    for name in os.environ["ORDER"].split():
        if name == OURS:
            importlib.import_module(OURS).instrument("shop", endpoint=os.environ["RECEIVER"])
        else:
            TOOLS[name](NOWHERE)


def plain() -> str:
    """Answer on a thread of the pool."""
    return "plain"


async def thread() -> list[int]:
    """Answer with what a thread of the request's did."""
    ran: list[int] = []
    worker = threading.Thread(target=ran.append, args=(1,))
    worker.start()
    await asyncio.to_thread(worker.join, 5)
    return ran


def called() -> list[str]:
    """Call by two clients."""
    httpx, requests = map(importlib.import_module, ("httpx", "requests"))
    url = os.environ["UPSTREAM"]
    return [httpx.get(url).text, requests.get(url, timeout=60).text]


def forked() -> int:
    """Answer with what a child ended with."""
    child = os.fork()
    if not child:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def parts() -> AsyncIterator[str]:
    """Make an answer a part at a time."""
    for number in range(PARTS):
        yield f"{number},"
        await asyncio.sleep(_PAUSE_S)


def faults() -> int:
    """Answer with how many faults the agent of this process counted."""
    agent: Any = sys.modules.get(OURS)
    return agent.agent_status().faults if agent else 0


def _application() -> Any:
    fastapi, responses = map(importlib.import_module, ("fastapi", "fastapi.responses"))
    application = fastapi.FastAPI()

    async def stream() -> Any:
        return responses.StreamingResponse(parts())

    for endpoint in (plain, thread, called, forked, faults):
        application.get(f"/{endpoint.__name__}", response_model=None)(endpoint)
    application.get("/stream", response_model=None)(stream)
    return application


def __getattr__(name: str) -> Any:
    if name == "wsgi":
        return importlib.import_module("a2wsgi").ASGIMiddleware(app)
    raise AttributeError(name)


if "ORDER" in os.environ:
    _patched()
    app = _application()
