"""How many requests were under way in a server's process when one began."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
from fastapi import FastAPI
from flask import Flask

from latencytrace.model import semconv
from tests.support.agent.receiving import TracedProgram
from tests.support.servers.serving import get, serving, serving_wsgi
from tests.support.waiting import PATIENCE_S, until


class Door:
    """Holds requests until so many have come in."""

    def __init__(self, wanted: int) -> None:
        self._inside = threading.Barrier(wanted)

    def pass_through(self) -> str:
        """Wait for the others."""
        self._inside.wait(PATIENCE_S)
        return "through"


def by_fastapi(door: Door) -> FastAPI:
    app = FastAPI()
    app.get("/held")(door.pass_through)
    app.get("/")(lambda: "hello")
    return app


def by_flask(door: Door) -> Flask:
    app = Flask("held")
    app.get("/held")(door.pass_through)
    app.get("/")(lambda: "hello")
    return app


def concurrencies(agent: TracedProgram, name: str, count: int) -> list[object]:
    def found() -> list[object]:
        return [
            one.attributes.get(semconv.CONCURRENCY) for one in agent.spans() if one.name == name
        ]

    until(lambda: len(found()) == count)
    return found()


@pytest.mark.parametrize(
    ("server", "application"),
    [(serving, by_fastapi), (serving_wsgi, by_flask)],
    ids=["ASGI", "WSGI"],
)
def test_a_request_tells_how_many_were_under_way_when_it_began(
    agent: TracedProgram,
    server: Callable[[object], AbstractContextManager[str]],
    application: Callable[[Door], object],
) -> None:
    with server(application(Door(3))) as address:
        with ThreadPoolExecutor(3) as callers:
            for _ in range(3):
                callers.submit(get, f"{address}/held")
        held = concurrencies(agent, "GET /held", 3)  # they have ended
        get(f"{address}/")

    assert sorted(map(str, held)) == ["1", "2", "3"]
    assert concurrencies(agent, "GET /", 1) == [1]
