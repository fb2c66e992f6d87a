"""How the embedded store counts what was removed before it came."""

from dataclasses import replace
from pathlib import Path

from latencytrace.model import Attributes, Event, semconv
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.otlp_messages import TRACE, one_span
from tests.support.builders.otlp_messages import otlp as encoded


def test_what_was_removed_is_marked_and_counted(tmp_path: Path) -> None:
    said: Attributes = {
        semconv.EXCEPTION_TYPE: "ValueError",
        semconv.EXCEPTION_MESSAGE: "no such user: Ada",
        semconv.EXCEPTION_STACKTRACE: "in greet('Ada')",
    }
    event = Event(time_ns=1, name=semconv.EXCEPTION_EVENT, attributes=said)
    span = replace(one_span(attributes={"input.value": "hello"}), events=(event,))
    store = ChdbStore.open(tmp_path)
    store.insert_otlp(otlp.check(encoded(span), None, None).block)

    (kept,) = store.arrived([TRACE])[TRACE]
    store.close()

    assert kept.attributes == {"input.value": semconv.CONTENT_REMOVED}
    assert kept.events[0].attributes == {
        **dict.fromkeys(said, semconv.CONTENT_REMOVED),
        semconv.EXCEPTION_TYPE: "ValueError",
    }
    assert kept.content_removed == 3
