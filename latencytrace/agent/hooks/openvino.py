"""Inferences with OpenVINO, and the compiling of its models."""

from typing import Final

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import CountWithin, first_of_each_span
from latencytrace.model.stage import Stage

_API: Final = "openvino._ov_api"
_counted: Final = CountWithin()


class OpenvinoHook(Hook):
    """Times inferences, and waits for asynchronous ones, within a request."""

    requires = ("openvino >= 2024.0",)
    patches = (
        *(
            first_of_each_span(
                Patch(_API, target, Stage.FORWARD, name=name, within=True), counted=_counted
            )
            for target, name in (
                ("CompiledModel.__call__", "infer"),
                ("InferRequest.infer", "infer"),
                ("InferRequest.wait", "wait for inference"),
                ("AsyncInferQueue.wait_all", "wait for inference"),
            )
        ),
        *(
            Patch(_API, f"Core.{method}", Stage.LOAD, within=True)
            for method in ("read_model", "compile_model")
        ),
    )
