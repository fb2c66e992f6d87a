"""A Ray Serve application under `latencytrace run`, unchanged: proxy, replica and batches."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from latencytrace.model import Stage, semconv
from tests.support.agent.batches import ask_together, members
from tests.support.agent.receiving import Receiver
from tests.support.servers.traced_server import traced_server

PROGRAM = """
import signal
import sys

import ray
from ray import serve


@serve.deployment(max_ongoing_requests=64)
class Doubles:
    @serve.batch(max_batch_size=4, batch_wait_timeout_s=1000)
    async def together(self, numbers):
        if 13 in numbers:
            raise ValueError("an unlucky number")
        return [2 * number for number in numbers]

    @serve.batch(max_batch_size=2, batch_wait_timeout_s=1000)
    async def chunks(self, numbers):
        for _ in range(2):
            yield [str(number) for number in numbers]

    async def __call__(self, request):
        asked = await request.json()
        if "stream" in asked:
            return "".join([chunk async for chunk in self.chunks(asked["stream"])])
        return await self.together(asked["x"])


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000)
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Doubles.bind(), route_prefix="/double")
    signal.sigwait([signal.SIGINT, signal.SIGTERM])
    serve.shutdown()
    ray.shutdown()
"""
ROUTE = "/double"
pytestmark = [
    pytest.mark.batchers,
    pytest.mark.timeout(400),
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
]


def test_requests_cross_to_their_replica_and_are_served_together_in_their_own_traces(
    receiver: Receiver, tmp_path: Path
) -> None:
    program = tmp_path / "served.py"
    program.write_text(PROGRAM)

    with traced_server(
        receiver, tmp_path, sys.executable, str(program), "PORT", ready="/-/healthz"
    ) as server:
        server.wait_until(lambda: ROUTE in server.client.get("/-/routes").text)
        doubled = ask_together(server, ROUTE, *({"x": number} for number in range(8)))
        failed = ask_together(server, ROUTE, *({"x": number} for number in range(10, 14)))
        streamed = ask_together(server, ROUTE, {"stream": 1}, {"stream": 2})
        found = members(server, receiver, f"POST {ROUTE}", 14, Stage.FORWARD)

    assert (doubled, failed) == ([2 * number for number in range(8)], [500] * 4)
    assert streamed == [11, 22]  # chunks read as one number
    assert [one.step.attributes[semconv.BATCH_SIZE] for one in found] == [4] * 12 + [2] * 2
    errors = [one.work.attributes.get(semconv.ERROR_TYPE) for one in found]
    assert errors == [None] * 8 + ["ValueError"] * 4 + [None] * 2
    for one in found:
        trace = {span.name: span for span in server.trace(one.request)}
        way, replica = trace["route_to_replica"], trace["replica Doubles"]
        assert way.stage == Stage.QUEUE
        assert way.parent_id == replica.parent_id == one.request.span_id
        assert way.end_ns == replica.start_ns
        assert one.work.parent_id == replica.span_id
        assert one.request.resource["process.pid"] != replica.resource["process.pid"]
