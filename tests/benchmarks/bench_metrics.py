"""What it costs to count one request: for `/metrics`, and for metrics over OTLP where asked for.

The request has eight stages and both token times, so that each records twelve measurements.
Prints processor time a request, and the ratio of the two; best of five rounds.
"""

import sys
import time
from collections.abc import Callable, Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.metric_attributes import metric_attributes
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.analysis.tokens.latency import token_latency
from latencytrace.model import AttributeValue, Request, Stage, semconv
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.metrics.requests import RequestMetrics
from latencytrace.service.metrics.telemetry import Telemetry
from tests.support.builders.made_requests import made_request
from tests.support.builders.spans.trees import root, span

ROUNDS, REQUESTS, BATCH = 5, 4000, 500
POSTED: dict[str, AttributeValue] = {
    semconv.HTTP_REQUEST_METHOD: "POST",
    semconv.HTTP_ROUTE: "/chat",
    semconv.URL_SCHEME: "http",
    semconv.NETWORK_PROTOCOL_VERSION: "1.1",
    semconv.HTTP_RESPONSE_STATUS_CODE: 200,
    semconv.SERVER_ADDRESS: "gpu-1",
    semconv.SERVER_PORT: 8000,
}
CHAT: dict[str, AttributeValue] = {
    semconv.GEN_AI_OPERATION_NAME: "chat",
    semconv.GEN_AI_PROVIDER_NAME: "vllm",
    semconv.GEN_AI_REQUEST_MODEL: "tiny",
    semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 100,
}


def microseconds(count: Callable[[Sequence[Request]], None], batch: list[Request]) -> float:
    """Processor time of one request."""
    rounds = []
    for _ in range(ROUNDS):
        began_ns = time.thread_time_ns()
        for _ in range(REQUESTS // len(batch)):
            count(batch)
        rounds.append((time.thread_time_ns() - began_ns) / REQUESTS / 1000)
    return min(rounds)


def main() -> None:
    """Count them both ways."""
    spans = [root(attributes=POSTED), span("chat", 10, 90, attributes=CHAT)]
    told = requests_of(spans, {})[0]
    request = made_request(
        stages=dict.fromkeys(list(Stage)[:8], 10_000_000),
        time_to_first_token_ns=50_000_000,
        time_per_output_token_ns=5_000_000,
        metric_attributes=told.metric_attributes,
    )
    batch = [request] * BATCH
    provider = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    counted = Telemetry().counted
    prometheus = microseconds(lambda some: counted.count(LedgerTable.of(some)), batch)
    otlp = microseconds(RequestMetrics(provider.get_meter("bench")).count, batch)
    trace = build_traces(spans)[0]
    tokens = token_latency(trace)

    def tell(requests: Sequence[Request]) -> None:
        for one in requests:
            metric_attributes(trace.root, tokens, one.status)

    sys.stdout.write(
        f"/metrics {prometheus:.1f} us a request, over OTLP {otlp:.1f} us more where asked for: "
        f"{otlp / prometheus:.1f} times; finding their attributes, always: "
        f"{microseconds(tell, batch):.1f} us\n"
    )
    provider.shutdown()


if __name__ == "__main__":
    main()
