"""OTLP bytes to stored rows: µs of CPU a span, beside parsing them with upb and a Python loop.

    python tests/benchmarks/bench_ingest.py

Requests of 512 spans with 9 attributes each, 40 of them a block. The rounds of all
contestants are interleaved, medians are shown. `content kept`: where nothing that senders
say is taken out (see `docs/pages/privacy.md`).
"""

import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.model import SpanKind
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.otlp_messages import one_span, proto_span

SPANS = 512
REQUESTS = 40
ROUNDS = 9

Costs = dict[str, float]  # µs of CPU a span


def request_bytes(chance: random.Random, count: int = SPANS) -> bytes:
    """A request of traces with 8 to 20 spans each."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for key, value in (("service.name", "rag"), ("service.instance.id", "rag-1")):
        resource.resource.attributes.add(key=key).value.string_value = value
    spans = resource.scope_spans.add().spans
    while len(spans) < count:
        trace_id = chance.randbytes(16).hex()
        parent_id = None
        for _ in range(min(chance.randint(8, 20), count - len(spans))):
            span_id = chance.randbytes(8).hex()
            start_ns = 1_763_690_000_000_000_000 + chance.randrange(10**10)
            span = one_span(
                trace_id,
                span_id,
                parent_id=parent_id,
                name=chance.choice(["POST /chat", "retrieve", "prefill", "decode"]),
                kind=SpanKind.INTERNAL if parent_id else SpanKind.SERVER,
                start_ns=start_ns,
                end_ns=start_ns + chance.randrange(10**8),
                attributes={
                    "http.request.method": "POST",
                    "http.route": "/chat",
                    "http.response.status_code": 200,
                    "url.full": f"http://host/{chance.randrange(1000)}",
                    "gen_ai.request.model": "llama-3-8b",
                    "gen_ai.usage.input_tokens": chance.randrange(4000),
                    "latencytrace.stage": "decode",
                    "cached": False,
                    "score": chance.random(),
                },
            )
            spans.append(proto_span(span))
            parent_id = parent_id or span_id
    return request.SerializeToString()


def python_loop(requests: list[bytes]) -> int:
    """What parsing with upb and a plain loop cost, before anything is stored."""
    rows = []
    for body in requests:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                rows += [
                    (
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.name,
                        span.kind,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        {
                            pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "")
                            for pair in span.attributes
                        },
                    )
                    for span in scope.spans
                ]
    return len(rows)


def checked(requests: list[bytes], *, content: bool) -> None:
    """What a receiver does with each request before it is stored."""
    for body in requests:
        otlp.check(body, None, None, capture_content=content)


def cpu_us(act: Callable[[], object], spans: int) -> float:
    """The CPU time of all threads that a call took, a span."""
    began_s = time.process_time()
    act()
    return (time.process_time() - began_s) / spans * 1e6


def insert_costs(blocks: Mapping[str, tuple[bytes, int]]) -> Costs:
    """What each block of so many spans costs, in a new store."""
    with tempfile.TemporaryDirectory() as folder:
        store = ChdbStore.open(Path(folder))
        costs = {}
        for name, (block, spans) in blocks.items():
            store.insert_otlp(block)
            costs[f"insert_otlp, {name}"] = cpu_us(partial(store.insert_otlp, block), spans)
        store.close()
    return costs


def main() -> None:
    """Run all contestants in turns and write a table."""
    chance = random.Random(1)  # noqa: S311 - the same requests every time
    requests = [request_bytes(chance) for _ in range(REQUESTS)]
    block = b"".join(requests)
    all_spans = SPANS * REQUESTS
    blocks = {
        "20 k spans a block": (block, all_spans),
        "512 spans a block": (requests[0], SPANS),
        "1 span (a call)": (request_bytes(chance, 1), 1),
    }
    taken = defaultdict[str, list[float]](list)
    for _ in range(ROUNDS + 1):
        costs = {
            "upb and a Python loop, nothing stored": cpu_us(
                partial(python_loop, requests), all_spans
            ),
            "check": cpu_us(partial(checked, requests, content=False), all_spans),
            "check, content kept": cpu_us(partial(checked, requests, content=True), all_spans),
            **insert_costs(blocks),
        }
        for name, cost in costs.items():
            taken[name].append(cost)
    for name, values in taken.items():
        sys.stdout.write(f"{name:46} {statistics.median(values[1:]):10.2f} µs of CPU a span\n")
    sys.stdout.write(f"{len(block) / all_spans:.0f} bytes a span\n")


if __name__ == "__main__":
    main()
