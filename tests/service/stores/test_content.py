"""What the embedded store leaves out as content, and what it must not."""

from dataclasses import replace
from pathlib import Path

import pytest

from latencytrace.model import Attributes, Event, semconv
from latencytrace.service.sql.content import MARK
from latencytrace.service.stores.chdb import ChdbStore
from tests.otlp_messages import TRACE, one_span, otlp

TOLD = {semconv.EXCEPTION_MESSAGE, semconv.EXCEPTION_STACKTRACE}
READ = {
    name: key
    for name, key in vars(semconv).items()
    if name.isupper() and "." in key and key not in TOLD
}
WORDS = [key for name, key in READ.items() if not name.endswith("_TOKENS")]


def kept(folder: Path, attributes: Attributes, *, capture_content: bool = False) -> Attributes:
    """What comes back of a span's attributes."""
    store = ChdbStore.open(folder, capture_content=capture_content)
    try:
        store.insert_otlp(otlp(one_span(attributes=attributes)))
        (span,) = store.arrived([TRACE])[TRACE]
    finally:
        store.close()
    return span.attributes


@pytest.mark.parametrize(
    "sent",
    [
        dict.fromkeys(WORDS, "word"),
        dict.fromkeys(READ.values(), 1),
        dict.fromkeys(READ.values(), 1.5),
        {semconv.GEN_AI_RESPONSE_FINISH_REASONS: ("stop",)},
    ],
    ids=["words", "integers", "fractions", "array"],
)
def test_nothing_that_the_analysis_reads_is_content(tmp_path: Path, sent: Attributes) -> None:
    assert kept(tmp_path, sent) == sent


@pytest.mark.parametrize("value", [("https://a/?q=1",), b"https://a/?q=1"], ids=["array", "bytes"])
def test_an_address_that_is_no_text_is_content(
    tmp_path: Path, value: tuple[str, ...] | bytes
) -> None:
    assert kept(tmp_path, {"url.full": value}) == {"url.full": MARK}


def test_a_fault_is_told_by_its_type_alone(tmp_path: Path) -> None:
    said: Attributes = {
        semconv.EXCEPTION_TYPE: "ValueError",
        semconv.EXCEPTION_MESSAGE: "no such user: Ada",
        semconv.EXCEPTION_STACKTRACE: "in greet('Ada')",
    }
    event = Event(time_ns=1, name=semconv.EXCEPTION_EVENT, attributes=said)
    store = ChdbStore.open(tmp_path)
    store.insert_otlp(otlp(replace(one_span(), events=(event,))))

    (span,) = store.arrived([TRACE])[TRACE]
    store.close()

    assert span.events[0].attributes == {
        **dict.fromkeys(said, MARK),
        semconv.EXCEPTION_TYPE: "ValueError",
    }
    assert span.content_removed == 2


def test_what_is_asked_for_today_is_not_kept_tomorrow(tmp_path: Path) -> None:
    sent: Attributes = {"input.value": "hello"}
    kept(tmp_path / "data", sent, capture_content=True)
    store = ChdbStore.open(tmp_path / "data")
    later = one_span("1" * 32, attributes=sent)
    store.insert_otlp(otlp(later))

    (span,) = store.arrived([later.trace_id])[later.trace_id]
    store.close()

    assert span.attributes == {"input.value": MARK}
