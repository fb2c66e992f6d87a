"""Deliveries: how long is waited before the next try, and what was left out."""

import logging

import pytest

from latencytrace.agent.export.delivery import Delivery, SendResult
from latencytrace.agent.export.transport import PartialSuccess, Response

BUSY = Response(503, "busy", None)
TAKEN = Response(200, "OK", None)


class Answers:
    """A receiver that answers as it is told to."""

    url = "http://receiver"

    def __init__(self, *answers: Response) -> None:
        self._answers = list(answers)

    def send(self, body: bytes, timeout_s: float | None = None) -> Response:
        """Answer."""
        return self._answers.pop(0)

    def close(self) -> None:
        """Close nothing."""


def pauses(*answers: Response, drawn: float) -> list[float]:
    """How long a delivery pauses before each further try."""
    waited: list[float] = []

    def pause(seconds: float) -> bool:
        waited.append(seconds)
        return True

    delivery = Delivery(Answers(*answers, TAKEN), pause, 10, lambda: drawn)
    assert delivery.deliver(b"body", patient=True) is SendResult.SENT
    return waited


@pytest.mark.parametrize(("drawn", "first_s"), [(0.0, 0.4), (0.5, 0.5), (1.0, 0.6)])
def test_a_back_off_doubles_and_is_spread_by_what_is_drawn(drawn: float, first_s: float) -> None:
    assert pauses(*[BUSY] * 3, drawn=drawn) == pytest.approx([first_s, 2 * first_s, 4 * first_s])


@pytest.mark.parametrize("drawn", [0.0, 1.0])
def test_no_pause_is_longer_than_half_a_minute(drawn: float) -> None:
    assert max(pauses(*[BUSY] * 12, drawn=drawn)) <= 30


def test_a_time_that_a_receiver_names_is_kept_as_it_is_within_half_a_minute() -> None:
    named = [BUSY._replace(retry_after_s=seconds) for seconds in (3.5, 100_000.0)]

    assert pauses(*named, drawn=1.0) == [3.5, 30]


def test_spans_that_a_receiver_left_out_are_told_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    partly = TAKEN._replace(partial=PartialSuccess(2, "too old"))
    delivery = Delivery(Answers(partly, partly, TAKEN), lambda _: False, 10)

    with caplog.at_level(logging.WARNING, "latencytrace"):
        results = [delivery.deliver(b"body", patient=False) for _ in range(3)]

    assert results == [SendResult.PARTLY, SendResult.PARTLY, SendResult.SENT]
    assert delivery.rejected == 0
    assert [record.getMessage() for record in caplog.records] == [
        "latencytrace: http://receiver took spans, and left 2 of a post out: too old (logged once)"
    ]


def test_a_warning_of_a_receiver_that_took_all_is_said() -> None:
    warned = TAKEN._replace(partial=PartialSuccess(0, "use another port"))
    delivery = Delivery(Answers(warned), lambda _: False, 10)

    assert delivery.deliver(b"body", patient=False) is SendResult.SENT
