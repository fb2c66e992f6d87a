"""What our own faults do to the program: nothing, and they are said where that can be."""

import logging
from collections.abc import Iterator
from enum import Enum

import pytest

from latencytrace.agent.guard import FaultCounter, logger, text_of


class Raising(logging.Handler):
    """A program's way to log, which fails; as that to a stream that is closed does."""

    def emit(self, record: logging.LogRecord) -> None:
        """Fail."""
        raise ValueError("I/O operation on closed file", record)


@pytest.fixture
def logging_fails() -> Iterator[None]:
    handler = Raising()
    logging.getLogger("latencytrace").addHandler(handler)
    yield
    logging.getLogger("latencytrace").removeHandler(handler)


@pytest.fixture
def faults_are_raised() -> None:
    """Not here: this is a test of the counting."""


@pytest.mark.usefixtures("logging_fails")
def test_a_fault_that_cannot_be_logged_is_counted_and_reaches_nobody() -> None:
    on_fault = FaultCounter()

    on_fault("testing", ValueError("why"))

    assert on_fault.faults == 1


@pytest.mark.usefixtures("logging_fails")
def test_a_message_that_cannot_be_logged_is_lost() -> None:
    logger.warning("nobody hears of %s", "this")


def test_a_message_names_the_place_that_logged_it(caplog: pytest.LogCaptureFixture) -> None:
    logger.warning("here")

    (record,) = caplog.records
    assert (record.name, record.module, record.getMessage()) == (
        "latencytrace",
        "test_guard",
        "here",
    )


def test_the_text_of_a_member_is_what_it_stands_for() -> None:
    class Name(str, Enum):  # noqa: UP042 - what older programs write
        CHAT = "chat"

    assert text_of(Name.CHAT) == "chat"
    assert type(text_of(Name.CHAT)) is str
