"""`latencytrace run` with MLServer, whose adaptive batching is on, otherwise unchanged."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from latencytrace.model import Stage, semconv
from tests.support.agent.batches import ask_together, members
from tests.support.agent.receiving import Receiver
from tests.support.servers.traced_server import traced_server

MODEL = """
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class Doubles(MLModel):
    async def load(self):
        return True

    async def predict(self, payload):
        numbers = NumpyCodec.decode_input(payload.inputs[0])
        if 13 in numbers:
            raise ValueError("an unlucky number")
        output = NumpyCodec.encode_output("y", 2 * numbers)
        return InferenceResponse(model_name=self.name, outputs=[output])
"""
START = """
import os
import sys

from mlserver.cli import main

os.environ["MLSERVER_HTTP_PORT"] = sys.argv[1]
sys.argv = ["mlserver", "start", "."]
main()
"""
ROUTE = "/v2/models/doubles/infer"
NAME = "POST /v2/models/{model_name}/infer"
pytestmark = [
    pytest.mark.batchers,
    pytest.mark.timeout(400),
    pytest.mark.skipif(find_spec("mlserver") is None, reason="mlserver is not installed"),
]


def asked(number: int) -> object:
    return {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "INT64", "data": [number]}]}


def test_requests_are_served_together_and_each_has_it_in_its_own_trace(
    receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "served.py").write_text(MODEL)
    (tmp_path / "start.py").write_text(START)
    model = {"name": "doubles", "implementation": "served.Doubles"}
    batching = {"max_batch_size": 4, "max_batch_time": 20}
    (tmp_path / "model-settings.json").write_text(json.dumps({**model, **batching}))
    settings = {"host": "127.0.0.1", "grpc_port": 0, "metrics_endpoint": None}
    (tmp_path / "settings.json").write_text(json.dumps({**settings, "parallel_workers": 0}))

    with traced_server(
        receiver, tmp_path, sys.executable, "start.py", "PORT", ready="/v2/health/ready"
    ) as server:
        doubled = ask_together(server, ROUTE, *map(asked, range(8)))
        failed = ask_together(server, ROUTE, *map(asked, range(10, 14)))
        found = members(server, receiver, NAME, 12, Stage.FORWARD)

    outputs = [answer["outputs"][0]["data"] for answer in doubled]  # type: ignore[index] # documents
    assert outputs == [[2 * number] for number in range(8)]
    assert all(isinstance(status, int) for status in failed)
    assert [one.step.attributes[semconv.BATCH_SIZE] for one in found] == [4] * 12
    errors = [one.work.attributes.get(semconv.ERROR_TYPE) for one in found]
    assert errors == [None] * 8 + ["ValueError"] * 4
