"""What is done while a server starts is marked, and nothing after it."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from gunicorn.workers.sync import SyncWorker

import latencytrace
from latencytrace.model import semconv
from tests.support.agent.receiving import ReceivedSpan, TracedProgram
from tests.support.servers.serving import get, serving
from tests.support.waiting import until

IMPORTED = """
import latencytrace
from fastapi import FastAPI

with latencytrace.stage("warm-up"):
    pass

app = FastAPI()
"""


def started(agent: TracedProgram, name: str) -> list[ReceivedSpan]:
    def found() -> list[ReceivedSpan]:
        return [span for span in agent.spans() if span.name == name]

    until(lambda: bool(found()))
    return found()


def test_what_a_module_does_while_uvicorn_imports_it_is_marked(
    agent: TracedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_late.py").write_text(IMPORTED)
    monkeypatch.syspath_prepend(tmp_path)
    with serving("imported_late:app"):
        pass
    sys.modules.pop("imported_late")

    (warm_up,) = started(agent, "warm-up")
    assert warm_up.attributes[semconv.STARTUP] is True


def test_a_lifespan_is_a_start_until_it_has_started(agent: TracedProgram) -> None:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with latencytrace.stage("load it"), latencytrace.stage("part of it"):
            pass
        yield
        with latencytrace.stage("save it"):
            pass

    app = FastAPI(lifespan=lifespan)

    @app.get("/")
    async def answer() -> str:
        with latencytrace.stage("rerank"):
            return "hello"

    with serving(app) as address:
        get(address + "/")
        with latencytrace.stage("job"):
            pass

    marked = {
        name: started(agent, name)[0].attributes.get(semconv.STARTUP)
        for name in ("load it", "part of it", "GET /", "rerank", "job", "save it")
    }
    assert marked == {
        "load it": True,
        "part of it": None,  # a child
        "GET /": None,
        "rerank": None,
        "job": None,
        "save it": None,
    }


def test_a_start_that_fails_is_over(agent: TracedProgram) -> None:
    with pytest.raises(AttributeError):
        SyncWorker.__new__(SyncWorker).load_wsgi()  # it has no application
    with latencytrace.stage("job"):
        pass

    assert semconv.STARTUP not in started(agent, "job")[0].attributes
