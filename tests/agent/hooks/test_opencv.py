"""The hook of OpenCV, whose functions are in C."""

from typing import Any

import pytest

from latencytrace.agent.hooks.media import OpencvHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, in_request

cv2 = pytest.importorskip("cv2")
numpy = pytest.importorskip("numpy")

HOOKS = (OpencvHook,)


def test_an_image_is_read_changed_and_written(spans: Spans) -> None:
    image = numpy.zeros((8, 8, 3), dtype="uint8")
    done, encoded = cv2.imencode(".png", image)  # outside of any request
    made: list[Any] = []

    def work() -> None:
        read = cv2.imdecode(encoded, cv2.IMREAD_COLOR)
        small = cv2.resize(read, (4, 4), interpolation=cv2.INTER_AREA)
        made.append(cv2.imencode(".jpg", small))

    in_request(spans, work)

    assert done
    assert made[0][0]
    assert spans.names == ["imdecode", "resize", "imencode", "request"]
    assert spans.stages[:3] == [Stage.PREPROCESS, Stage.PREPROCESS, Stage.POSTPROCESS]


def test_of_a_loop_over_frames_the_first_calls_are_spans(spans: Spans) -> None:
    image = numpy.zeros((2, 2, 3), dtype="uint8")

    in_request(spans, lambda: [cv2.cvtColor(image, cv2.COLOR_BGR2RGB) for _ in range(300)])

    assert len(spans.of(Stage.PREPROCESS)) == 256


def test_an_error_passes_through(spans: Spans) -> None:
    def work() -> None:
        with pytest.raises(cv2.error):
            cv2.resize(None, (0, 0))

    in_request(spans, work)

    assert spans.all[0].attributes[semconv.ERROR_TYPE] == "error"
