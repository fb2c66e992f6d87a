"""What a signal's handler raises, such as a time limit, reaches the program whatever runs."""

import signal
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from opentelemetry.trace import Span, Tracer

from latencytrace.agent.guard import FaultCounter, guarded, text_of
from tests.support.agent.hooked import Spans


@pytest.fixture
def faults_are_raised() -> None:
    """Not here: what counts is what production does."""


class Ringing(Mapping[str, object]):
    """Attributes during whose reading a signal comes."""

    def __getitem__(self, key: str) -> object:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        signal.raise_signal(signal.SIGUSR1)
        return iter(())

    def __len__(self) -> int:
        return 1

    def __str__(self) -> str:
        signal.raise_signal(signal.SIGUSR1)
        return ""


class Limit:
    """What ends work that takes too long, by an ordinary exception."""

    def __call__(self, number: int, frame: object) -> None:
        """End it."""
        raise TimeoutError(number, frame)

    end = __call__


def limit(number: int, frame: object) -> None:
    """End it."""
    raise TimeoutError(number, frame)


@pytest.fixture(
    params=[limit, Limit(), Limit().end, partial(Limit())],
    ids=["a function", "an object", "a method", "a partial"],
)
def limited(request: pytest.FixtureRequest) -> Iterator[None]:
    """A program with a time limit."""
    before = signal.signal(signal.SIGUSR1, request.param)
    yield
    signal.signal(signal.SIGUSR1, before)


CALLS: Mapping[str, Callable[[Tracer, Span, Any], object]] = {
    "starting": lambda tracer, _, ringing: tracer.start_span("not made", attributes=ringing),
    "setting one": lambda _, span, ringing: span.set_attribute("a", ringing),
    "setting several": lambda _, span, ringing: span.set_attributes(ringing),
    "adding an event": lambda _, span, ringing: span.add_event("event", ringing),
    "reading a text": lambda _tracer, _span, ringing: text_of(ringing),
}


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_time_limit_that_ends_while_our_code_runs_reaches_the_program(
    call: Callable[[Tracer, Span, Any], object],
) -> None:
    spans = Spans()
    tracer = spans.provider.get_tracer("scope")

    with tracer.start_as_current_span("name") as span, pytest.raises(TimeoutError):
        call(tracer, span, Ringing())

    assert spans.names == ["name"]


@pytest.mark.usefixtures("limited")
def test_a_time_limit_is_no_fault_of_what_we_guard() -> None:
    on_fault = FaultCounter()

    with pytest.raises(TimeoutError), guarded("testing", on_fault):
        signal.raise_signal(signal.SIGUSR1)

    assert on_fault.faults == 0


def test_the_same_error_without_a_signal_is_a_fault_of_ours() -> None:
    on_fault = FaultCounter()

    with guarded("testing", on_fault):
        limit(0, None)

    assert on_fault.faults == 1
