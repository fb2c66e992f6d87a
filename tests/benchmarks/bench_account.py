"""The work that tracing adds to ordinary routes, counted, beside the agent's own estimate.

    python -m tests.benchmarks.bench_account [--routes /rag]      # a few minutes

The routes of `bench_routes.py`, untraced and with latencytrace without its compiled core. Each
instruction of Python's bytecode takes the agent's clocks the same time (`counted_server.py`), so
neither a neighbour nor a cache changes what a request takes, what the agent's samples and prices
say, and what it makes of them. Posts to the receiver are counted, reports and the search for
prices are not.
"""

import argparse
import http.client
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from multiprocessing import get_context
from typing import NamedTuple

from tests.benchmarks.bench_request import HERE, OURS, UNTRACED, Server, serving
from tests.benchmarks.bench_routes import IDLE, PEER, REQUESTS, ask
from tests.benchmarks.counted_server import AN_INSTRUCTION_NS
from tests.benchmarks.discarding import receive
from tests.benchmarks.fixed_model import model_served

ROUTES = tuple(path for path in REQUESTS if path != IDLE)
WARM_UP, COUNTED = 40, 60  # requests
ENVIRON = {"OTEL_BSP_SCHEDULE_DELAY": "3600000", "LATENCYTRACE_COMPILED": "0"}


class Work(NamedTuple):
    """Instructions of bytecode of a request."""

    done: float  # in all threads
    said: float  # of the agent, by itself


class Account(NamedTuple):
    """The work of one route, in instructions of bytecode a request."""

    untraced: float
    added: float
    said: float

    @property
    def ratio(self) -> float:
        """Return what the agent says, of what is added."""
        return self.said / self.added


def account(server: Server) -> Work:
    """Return what a server has done so far."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request("GET", "/account")
        found = json.loads(connection.getresponse().read())
    return Work(found["done_ns"] / AN_INSTRUCTION_NS, found["said_ns"] / AN_INSTRUCTION_NS)


def work_of(server: Server, path: str) -> Work:
    """Return what a request takes, less what it takes to ask for that."""
    ask(server, path, WARM_UP)
    account(server)
    first, began = account(server), account(server)
    ask(server, path, COUNTED)
    both = zip(account(server), began, first, strict=True)
    return Work(*(((now - was) - (was - at_first)) / COUNTED for now, was, at_first in both))


def accounts(routes: Sequence[str]) -> dict[str, Account]:
    """Return the accounts of some routes."""
    spawn, found = get_context("spawn"), dict[str, dict[str, Work]]()
    with receive(spawn) as receiver, model_served(spawn) as service:
        for name in (UNTRACED, OURS):
            with serving(
                name, receiver, service, None, program=HERE / "counted_server.py",
                also=PEER if PEER.exists() else None, environ=ENVIRON,
            ) as server:  # fmt: skip
                found[name] = {path: work_of(server, path) for path in routes}
    return {
        path: Account(untraced.done, traced.done - untraced.done, traced.said)
        for path in routes
        for untraced, traced in [(found[UNTRACED][path], found[OURS][path])]
    }


def table(found: dict[str, Account]) -> Iterator[str]:
    """Return the lines of the table."""
    yield "| instructions of bytecode | untraced | added | the agent says | of it |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for path, one in found.items():
        cells = f"{one.untraced:,.0f} | {one.added:+,.0f} | {one.said:,.0f} | {one.ratio:.2f}"
        yield f"| `{path}` | {cells} |"


def main() -> None:
    """Count, and print the table."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--routes", nargs="*", choices=ROUTES, default=ROUTES)
    print("\n".join(table(accounts(arguments.parse_args().routes))))


if __name__ == "__main__":
    main()
