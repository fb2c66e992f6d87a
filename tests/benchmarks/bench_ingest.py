"""OTLP bytes to stored rows: µs of CPU a span, beside parsing them with upb and a Python loop.

    python tests/benchmarks/bench_ingest.py

Requests of 512 spans with 9 attributes each, and blocks of so many spans as are named. The
rounds of all contestants are interleaved, medians are shown. `content kept`: where nothing
that senders say is taken out (see `docs/pages/privacy.md`).
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

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.model import SpanKind
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.batches import batch_of
from latencytrace.service.otlp.block_builder import span_block_of
from latencytrace.service.otlp.scanner import scanned
from latencytrace.service.otlp.span_block import SpanBlock, joined
from latencytrace.service.sql.native import native
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.spans.otlp_messages import one_span, proto_span

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


def insert_costs(blocks: Mapping[int, SpanBlock]) -> Costs:
    """What blocks of so many spans cost to be written and inserted, in a new store."""
    with tempfile.TemporaryDirectory() as folder:
        store = ChdbStore.open(Path(folder))
        costs = {}
        for spans, block in blocks.items():
            store.insert([block])
            costs[f"native, {spans} spans a block"] = cpu_us(partial(native, block), spans)
            costs[f"native and insert, {spans}"] = cpu_us(partial(store.insert, [block]), spans)
        store.close()
    return costs


def scanned_all(requests: list[bytes], *, content: bool) -> list[SpanBlock]:
    """The columns of each request."""
    return [scanned(body, capture_content=content) for body in requests]


def plainly(requests: list[bytes]) -> list[SpanBlock]:
    """The same by the decoder and Python; content is left."""
    return [span_block_of(ExportTraceServiceRequest.FromString(body)) for body in requests]


def batched(blocks: list[SpanBlock]) -> None:
    """What the analysis is given of whole traces."""
    batch_of([(block, np.arange(block.count)) for block in blocks])


def main() -> None:
    """Run all contestants in turns and write a table."""
    chance = random.Random(1)
    requests = [request_bytes(chance) for _ in range(REQUESTS)]
    all_spans = SPANS * REQUESTS
    columns = scanned_all(requests, content=False)
    blocks = {
        count: joined(scanned_all([request_bytes(chance, min(count, SPANS))], content=False))
        for count in (1, 100, SPANS)
    } | {count * SPANS: joined(columns[:count]) for count in (10, REQUESTS)}
    taken = defaultdict[str, list[float]](list)
    for _ in range(ROUNDS + 1):
        costs = {
            "upb and a Python loop, nothing stored": cpu_us(
                partial(python_loop, requests), all_spans
            ),
            "check": cpu_us(partial(checked, requests, content=False), all_spans),
            "check, content kept": cpu_us(partial(checked, requests, content=True), all_spans),
            "columns": cpu_us(partial(scanned_all, requests, content=False), all_spans),
            "columns, content kept": cpu_us(
                partial(scanned_all, requests, content=True), all_spans
            ),
            "columns by upb and Python, content kept": cpu_us(
                partial(plainly, requests), all_spans
            ),
            "blocks joined": cpu_us(partial(joined, columns), all_spans),
            "batch for the analysis": cpu_us(partial(batched, columns), all_spans),
            **insert_costs(blocks),
        }
        for name, cost in costs.items():
            taken[name].append(cost)
    for name, values in taken.items():
        sys.stdout.write(f"{name:46} {statistics.median(values[1:]):10.2f} µs of CPU a span\n")
    sent = sum(map(len, requests)) / all_spans
    held = blocks[all_spans].nbytes / all_spans
    sys.stdout.write(f"{sent:.0f} bytes a span as protobuf, {held:.0f} as columns\n")


if __name__ == "__main__":
    main()
