"""A LitServe server under `latencytrace run`, unchanged: its requests cross into its workers."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from latencytrace.model import Stage, semconv
from tests.support.agent.receiving import Receiver
from tests.support.servers.traced_server import traced_server

PROGRAM = """
import sys
import litserve


class Api(litserve.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        return request["x"]

    def predict(self, numbers):
        return [2 * number for number in numbers]


if __name__ == "__main__":
    api = Api(max_batch_size=4, batch_timeout=1000)
    litserve.LitServer(api, accelerator="cpu", workers_per_device=1, timeout=2000).run(
        port=int(sys.argv[1]), host="127.0.0.1", generate_client_file=False
    )
"""
REQUESTS = 8
PID = "process.pid"
# Three processes import it one after the other, in 5 s on an idle machine.
pytestmark = pytest.mark.timeout(400)


def test_requests_are_served_together_and_each_has_it_in_its_own_trace(
    receiver: Receiver, tmp_path: Path
) -> None:
    program = tmp_path / "served.py"
    program.write_text(PROGRAM)

    with traced_server(
        receiver, tmp_path, sys.executable, str(program), "PORT", ready="/health"
    ) as server:

        def double(number: int) -> int:
            answer = server.client.post("/predict", json={"x": number})
            doubled: int = answer.json()
            return doubled

        with ThreadPoolExecutor(REQUESTS) as clients:
            answers = list(clients.map(double, range(REQUESTS)))
        requests = server.spans("POST /predict", REQUESTS)
        server.spans("queue", REQUESTS)
        served = server.spans("forward", REQUESTS + REQUESTS // 4)  # with the two batches

    assert answers == [2 * number for number in range(REQUESTS)]
    steps = [span for span in served if span.attributes.get(semconv.SHARED) is True]
    assert [span.attributes[semconv.BATCH_SIZE] for span in steps] == [4, 4]
    for request in requests:
        staged = {span.stage: span for span in server.trace(request)}
        queue, forward = staged[Stage.QUEUE], staged[Stage.FORWARD]
        assert queue.parent_id == forward.parent_id == request.span_id
        assert request.start_ns <= queue.start_ns <= queue.end_ns <= forward.start_ns
        assert forward.end_ns <= request.end_ns
        assert forward.resource[PID] != request.resource[PID]
