"""What engines send is divided alike when it has been through the store."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.service.otlp.json import message_from_json
from latencytrace.service.otlp.traces import check_message
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.spans.recorded import FIXTURES, recorded, recorded_requests


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChdbStore]:
    opened = ChdbStore.open(tmp_path_factory.mktemp("engines"))
    yield opened
    opened.close()


SAID = ("hello", "a page", "noon in", "Paris", "a b c d", "a a a", "where did they go", "284")


@pytest.mark.parametrize(
    "fixture", sorted(FIXTURES.glob("*.json")), ids=lambda fixture: str(fixture.stem)
)
def test_the_store_keeps_all_that_the_ledger_is_made_of(store: ChdbStore, fixture: Path) -> None:
    message = message_from_json(fixture.read_bytes())
    expected = recorded_requests(fixture.stem)

    store.insert([check_message(message).columns])

    arrived = store.arrived(sorted({request.trace_id for request in expected}))
    found = [request for spans in arrived.values() for request in requests_of(spans, {})]
    by_span = {(one.trace_id, one.span_id): one for one in found}
    for request in expected:
        kept = by_span[request.trace_id, request.span_id]
        assert kept.ledger == request.ledger
        assert kept.time_to_first_token_ns == request.time_to_first_token_ns
        assert kept.time_per_output_token_ns == request.time_per_output_token_ns
        assert (kept.input_tokens, kept.output_tokens) == (
            request.input_tokens,
            request.output_tokens,
        )
        assert (kept.model, kept.finish_reason) == (request.model, request.finish_reason)


@pytest.mark.parametrize(
    "fixture", sorted(FIXTURES.glob("*.json")), ids=lambda fixture: str(fixture.stem)
)
def test_nothing_that_was_said_is_kept(store: ChdbStore, fixture: Path) -> None:
    message = message_from_json(fixture.read_bytes())

    store.insert([check_message(message).columns])

    arrived = store.arrived(sorted({span.trace_id for span in recorded(fixture.stem)}))
    kept = repr(arrived)
    assert len(arrived) > 0
    assert [
        said for said in SAID if re.search(rf"\b{said}\b", kept)
    ] == []  # of an id it may be a part
