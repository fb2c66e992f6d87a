"""The hook of `onnxruntime`, with models of one multiplication."""

import asyncio
import gc
import sys
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from latencytrace.agent.hooks.onnxruntime import OnnxruntimeHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text, hooked

ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)


def model_bytes() -> bytes:
    """`y = x * x` over any number of rows of two."""
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 2]) for name in ("x", "y")
    )
    graph = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["y"])], "squares", [x], [y])
    opset = helper.make_opsetid("", 13)
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    return model.SerializeToString()


@pytest.fixture
def session() -> onnxruntime.InferenceSession:
    """Made before the hook is applied."""
    return onnxruntime.InferenceSession(model_bytes())


@pytest.fixture
def spans(session: onnxruntime.InferenceSession) -> Iterator[Spans]:
    assert session.get_inputs()
    with hooked(OnnxruntimeHook) as spans:
        yield spans


def test_a_run_is_one_span_of_a_forward_pass(
    spans: Spans, session: onnxruntime.InferenceSession
) -> None:
    (squares,) = session.run(None, {"x": ROWS})

    assert squares.tolist() == (ROWS * ROWS).tolist()
    assert spans.only.name == "run"
    assert dict(spans.only.attributes) == {
        semconv.STAGE: Stage.FORWARD,
        semconv.GEN_AI_REQUEST_MODEL: "squares",
        semconv.BATCH_SIZE: 3,
    }


def test_a_run_with_values_of_onnxruntimes_own_is_described_alike(
    spans: Spans, session: onnxruntime.InferenceSession
) -> None:
    value = onnxruntime.OrtValue.ortvalue_from_numpy(ROWS)

    session.run_with_ort_values(None, {"x": value})

    assert (spans.only.name, spans.stages) == ("run_with_ort_values", [Stage.FORWARD])
    assert spans.only.attributes[semconv.BATCH_SIZE] == 3


def test_a_bound_run_is_a_forward_pass_between_two_transfers(
    spans: Spans, session: onnxruntime.InferenceSession
) -> None:
    binding = session.io_binding()

    binding.bind_cpu_input("x", ROWS)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    (squares,) = binding.copy_outputs_to_cpu()

    assert squares.tolist() == (ROWS * ROWS).tolist()
    assert spans.names == ["bind_cpu_input", "run_with_iobinding", "copy_outputs_to_cpu"]
    assert spans.stages == [Stage.TRANSFER, Stage.FORWARD, Stage.TRANSFER]


def test_loading_a_model_is_a_span_that_names_it(spans: Spans, tmp_path: Path) -> None:
    path = tmp_path / "classifier.onnx"
    path.write_bytes(model_bytes())

    onnxruntime.InferenceSession(path)

    assert (spans.only.name, spans.stages) == ("load", [Stage.LOAD])
    assert spans.only.attributes[semconv.GEN_AI_REQUEST_MODEL] == "classifier"
    assert str(tmp_path) not in attribute_text(spans)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("mini/onnx/model_quantized.onnx", "mini"),
        ("hub/models--some--mini/snapshots/0123/onnx/model.onnx", "some/mini"),
        ("models/classifier.int8.onnx", "classifier.int8"),
    ],
)
def test_a_model_is_named_by_what_tells_it_from_others(
    spans: Spans, tmp_path: Path, path: str, name: str
) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_bytes(model_bytes())

    session = onnxruntime.InferenceSession(str(file))
    session.run(None, {"x": ROWS})

    assert [span.attributes[semconv.GEN_AI_REQUEST_MODEL] for span in spans.all] == [name] * 2


def test_what_a_run_raises_passes_through(
    spans: Spans, session: onnxruntime.InferenceSession
) -> None:
    with pytest.raises(ValueError, match="are missing from input feed"):
        session.run(None, {"a secret": ROWS})

    assert spans.only.attributes[semconv.ERROR_TYPE] == "ValueError"
    assert spans.only.status.status_code is StatusCode.ERROR
    assert "secret" not in attribute_text(spans)


def test_a_model_that_is_no_model_fails_its_load(spans: Spans) -> None:
    with pytest.raises(Exception, match="protobuf parsing failed"):
        onnxruntime.InferenceSession(b"no model")

    assert spans.stages == [Stage.LOAD]
    assert spans.only.status.status_code is StatusCode.ERROR


def test_a_run_that_embeds_is_part_of_the_embedding(
    spans: Spans, session: onnxruntime.InferenceSession
) -> None:
    embedding = spans.recorder.start("embed", Stage.EMBED)
    embedding.activate()

    session.run(None, {"x": ROWS})

    embedding.deactivate()
    assert spans.all == []


def test_no_array_is_kept(spans: Spans, session: onnxruntime.InferenceSession) -> None:
    rows = ROWS.copy()
    references_before = sys.getrefcount(rows)

    kept = weakref.ref(session.run(None, {"x": rows})[0])

    gc.collect()
    assert kept() is None
    assert sys.getrefcount(rows) == references_before
    assert len(spans.all) == 1


# --- run_async


def run_async(
    session: onnxruntime.InferenceSession, feed: dict[str, object]
) -> tuple[list[list[float]], str, int]:
    """What the callback gets, and the trace that is current in it."""

    async def main() -> tuple[list[list[float]], str, int]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[list[list[float]], str, int]] = loop.create_future()

        def callback(results: Sequence[np.ndarray], user_data: object, error: str) -> None:
            assert user_data == "data"
            listed = results[0].tolist() if results else []
            trace_id = trace.get_current_span().get_span_context().trace_id
            loop.call_soon_threadsafe(answer.set_result, (listed, error, trace_id))

        session.run_async(None, feed, callback, "data")
        return await answer

    return asyncio.run(main())


def test_an_async_run_lasts_until_it_calls_back(
    spans: Spans, session: onnxruntime.InferenceSession
) -> None:
    request = spans.recorder.start("request")
    request.activate()

    results, error, trace_id = run_async(session, {"x": ROWS})

    request.deactivate()
    assert (results, error) == ((ROWS * ROWS).tolist(), "")
    assert (spans.only.name, spans.stages) == ("run_async", [Stage.FORWARD])
    assert spans.only.parent == request.span.get_span_context()
    assert trace_id == request.span.get_span_context().trace_id
    assert spans.only.attributes[semconv.BATCH_SIZE] == 3


def test_an_async_run_that_fails_says_so(
    spans: Spans, session: onnxruntime.InferenceSession
) -> None:
    _, error, _ = run_async(session, {"x": np.zeros((1, 3), np.float32)})

    assert error
    assert spans.only.status.status_code is StatusCode.ERROR


def test_an_async_run_that_never_starts_ends_its_span(
    spans: Spans, session: onnxruntime.InferenceSession
) -> None:
    with pytest.raises(ValueError, match="are missing from input feed"):
        session.run_async(None, {}, lambda *_: None, None)

    assert spans.only.attributes[semconv.ERROR_TYPE] == "ValueError"
