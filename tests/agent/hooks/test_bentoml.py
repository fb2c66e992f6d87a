"""`latencytrace run -- bentoml serve`, unchanged, with a batchable API."""

import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from latencytrace.model import Stage, semconv
from latencytrace.model.packed import RuntimeGap, unpack_named
from tests.support.agent.batches import ask_together, members
from tests.support.agent.receiving import Receiver
from tests.support.servers.traced_server import traced_server

PROGRAM = """
import os, time

import bentoml


@bentoml.service(workers=1, traffic={"timeout": 60})
class Doubles:
    @bentoml.api(batchable=True, max_batch_size=4, max_latency_ms=60_000)
    def double(self, x: list[int]) -> list[int]:
        time.sleep(0.02)  # so that others come meanwhile
        if 13 in x:
            raise ValueError("an unlucky number")
        return [2 * number for number in x]

    @bentoml.api
    def halve(self, x: int) -> int:  # one at a time, on a thread
        while not os.path.exists("go"):
            time.sleep(0.001)
        return x // 2
"""
ROUTE = "/double"
REQUESTS = 40
pytestmark = [
    pytest.mark.batchers,
    pytest.mark.timeout(400),
    pytest.mark.skipif(find_spec("bentoml") is None, reason="bentoml is not installed"),
]


def test_requests_are_served_together_in_their_own_traces_and_halves_as_one(
    receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "served.py").write_text(PROGRAM)
    command = (str(Path(sys.executable).parent / "bentoml"), "serve", "served:Doubles")
    quiet = {"BENTOML_HOME": str(tmp_path / "home"), "BENTOML_DO_NOT_TRACK": "True"}

    with traced_server(
        receiver, tmp_path, *command, "--port", "PORT", ready="/readyz", **quiet
    ) as server:
        bodies = [{"x": [number, number + 1]} for number in range(100, 100 + REQUESTS)]
        doubled = ask_together(server, ROUTE, *bodies)
        (failed,) = ask_together(server, ROUTE, {"x": [13]})
        found = members(server, receiver, f"POST {ROUTE}", REQUESTS + 1, Stage.FORWARD)
        (large,) = ask_together(server, ROUTE, {"x": list(range(6))})  # more than one batch holds
        halves = members(server, receiver, f"POST {ROUTE}", REQUESTS + 3, Stage.FORWARD)[-2:]

    assert doubled == [[2 * number, 2 * number + 2] for number in range(100, 100 + REQUESTS)]
    assert (failed, large) == (500, [0, 2, 4, 6, 8, 10])
    assert any(one.step.attributes[semconv.BATCH_SIZE] == 2 for one in found)
    errors = [one.work.attributes.get(semconv.ERROR_TYPE) for one in found]
    assert errors == [None] * REQUESTS + ["ValueError"]
    first, second = halves
    assert first.request == second.request
    assert first.step != second.step
    assert {one.request.attributes[semconv.HTTP_ROUTE] for one in found} == {ROUTE}
    log = (tmp_path / "server.log").read_text()
    assert "service.name=Doubles" in log
    assert "service.name=None" not in log


def test_requests_that_wait_for_the_only_thread_say_so(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(PROGRAM)
    command = (str(Path(sys.executable).parent / "bentoml"), "serve", "served:Doubles")
    quiet = {"BENTOML_HOME": str(tmp_path / "home"), "BENTOML_DO_NOT_TRACK": "True"}

    with traced_server(
        receiver, tmp_path, *command, "--port", "PORT", ready="/readyz", **quiet
    ) as server:
        with ThreadPoolExecutor(1) as beside:
            asked = beside.submit(
                ask_together, server, "/halve", *({"x": 2 * number} for number in range(8))
            )
            for _ in range(20):  # answered by the event loop, which takes the others meanwhile
                assert server.answers("/readyz")
            (tmp_path / "go").touch()
            halves = asked.result()
        requests = server.spans("POST /halve", 8)

    assert halves == list(range(8))
    packed = [str(one.attributes.get(semconv.RUNTIME_GAPS, "")) for one in requests]
    waits = [
        name
        for one in packed
        for name, *_ in unpack_named(one, 0)
        if name == RuntimeGap.THREAD_POOL_WAIT
    ]
    assert waits
