"""Whatever valid requests say, their spans are kept, and each request balances.

`ODD_REQUESTS=100000 pytest tests/service/otlp/test_odd_requests.py` goes on for hours.
"""

import os
from collections import defaultdict

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import Span
from latencytrace.service.otlp import traces as otlp
from tests.support.builders.spans.odd_requests import OddRequests
from tests.support.simulation.by_columns import ByColumns, differences

CASES = int(os.environ.get("ODD_REQUESTS", "300"))
NOW_NS = 1_763_690_000 * 10**9


def span_count(request: ExportTraceServiceRequest) -> int:
    return sum(
        len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans
    )


def by_trace(spans: list[Span]) -> dict[str, list[Span]]:
    found = defaultdict(list)
    for span in spans:
        found[span.trace_id].append(span)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_every_span_is_kept_or_counted_and_every_ledger_balances(seed: int) -> None:
    odd = OddRequests(seed, NOW_NS)
    for _ in range(CASES // 3):
        request = odd.request()
        body = odd.encoded(request)
        checked = otlp.check(body, None, None, capture_content=True)
        assert checked.span_count + checked.rejected_spans == span_count(request)
        traces = by_trace(checked.columns.spans())
        for trace_id, spans in traces.items():
            for one in requests_of(spans, {}):
                assert sum(one.ledger.values()) == one.duration_ns, trace_id
                assert one.route.strip()
                assert one.service.strip()


def test_json_says_what_protobuf_does() -> None:
    odd = OddRequests(7, NOW_NS)
    for _ in range(CASES // 6):
        request = odd.request()
        plain = request.SerializeToString()
        as_json = otlp.answer(request, otlp.JSON).body
        one = otlp.check(plain, None, None)
        other = otlp.check(as_json, otlp.JSON, None)
        assert repr(one.columns.spans()) == repr(other.columns.spans())
        assert one.rejected_spans == other.rejected_spans


def test_columns_and_objects_agree_on_them() -> None:
    odd = OddRequests(11, NOW_NS)
    for _ in range(CASES // 6):
        checked = otlp.check(odd.encoded(odd.request()), None, None)
        traces = by_trace(checked.columns.spans())
        found, _ = ByColumns()(traces)
        assert differences(found, traces) == []
