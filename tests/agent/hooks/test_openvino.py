"""The hook of OpenVINO, with a model made on the spot."""

from typing import Any

import pytest

from latencytrace.agent.hooks.runtimes import OpenvinoHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, in_request

openvino = pytest.importorskip("openvino")
opset = pytest.importorskip("openvino.opset13")
numpy = pytest.importorskip("numpy")

HOOKS = (OpenvinoHook,)


def model() -> Any:
    given = opset.parameter([-1, 2], numpy.float32)
    return openvino.Model([opset.relu(given)], [given])


def test_a_compilation_is_loading_and_an_inference_a_forward_pass(spans: Spans) -> None:
    found: list[Any] = []

    def work() -> None:
        compiled = openvino.Core().compile_model(model(), "CPU")
        found.append(compiled(numpy.array([[-1, 2]], dtype="float32"))[0].tolist())

    work()  # outside of any request
    in_request(spans, work)

    assert found == [[[0, 2]], [[0, 2]]]
    assert spans.names == ["compile_model", "infer", "request"]
    assert spans.stages[:2] == [Stage.LOAD, Stage.FORWARD]


def test_an_inference_that_runs_beside_is_timed_where_it_is_waited_for(spans: Spans) -> None:
    compiled = openvino.Core().compile_model(model(), "CPU")
    queue = openvino.AsyncInferQueue(compiled, 1)

    def work() -> None:
        request = compiled.create_infer_request()
        request.start_async({0: numpy.ones((1, 2), dtype="float32")})
        request.wait()
        queue.start_async({0: numpy.ones((1, 2), dtype="float32")})
        queue.wait_all()

    in_request(spans, work)

    assert spans.names == ["wait for inference", "wait for inference", "request"]
    assert set(spans.stages[:2]) == {Stage.FORWARD}
