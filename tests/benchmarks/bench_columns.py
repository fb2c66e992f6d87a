"""Columns beside objects: µs of CPU a span from spans as they are at hand to requests.

    python tests/benchmarks/bench_columns.py

Batches of 500 traces of 8 to 20 spans with the attributes that our agent and OpenTelemetry's
instrumentations send. Rounds of all contestants are interleaved, medians are shown. Making
`Span` objects, or columns, of what arrived is not part of it.
"""

import statistics
import sys
import time
from collections.abc import Callable
from random import Random

from latencytrace.analysis.columns.facts import Facts
from latencytrace.analysis.columns.objects import requests_of as objects_of
from latencytrace.analysis.columns.requests import attributed
from latencytrace.analysis.columns.shapes import Shapes
from latencytrace.analysis.columns.tables import Tables
from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import AttributeValue, Span, SpanKind, Stage, semconv
from latencytrace.model.packed import pack_named
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.sql.request_blocks import block_of_table
from tests.support.builders.spans.span_batches import span_batch
from tests.support.tables.request_rows import block_of

TRACES = 500
ROUNDS = 15
BEGIN_NS = 1_763_690_000_000_000_000
US = 1_000

Attributes = dict[str, AttributeValue]


def _vectors(random: Random) -> Attributes:
    return {
        "db.system.name": "qdrant",
        "db.operation.name": "query_points",
        "db.collection.name": "passages",
        "server.address": "vectors",
        "server.port": 6333,
        "db.response.returned_rows": random.randint(1, 20),
    }


def _embedding(random: Random) -> Attributes:
    return {
        "latencytrace.stage": "embed",
        "gen_ai.operation.name": "embeddings",
        "gen_ai.request.model": "all-MiniLM-L6-v2",
        "gen_ai.usage.input_tokens": random.randint(4, 200),
    }


def _generation(random: Random) -> Attributes:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "llama-3-8b",
        "gen_ai.response.model": "llama-3-8b-instruct",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.id": f"chatcmpl-{random.randrange(1 << 60):x}",
        "gen_ai.usage.input_tokens": random.randint(20, 4_000),
        "gen_ai.usage.output_tokens": random.randint(1, 400),
        "gen_ai.response.time_to_first_chunk": random.random(),
    }


def _call(random: Random) -> Attributes:
    return {
        "http.request.method": "POST",
        "url.full": f"http://reranker:8080/v1/rerank?request={random.randrange(10**6)}",
        "server.address": "reranker",
        "server.port": 8080,
        "http.response.status_code": 200,
        "network.protocol.version": "1.1",
        semconv.NETWORK_PHASES: f"connect:10+9000;wait:9+{random.randrange(10**6)}",
    }


def _stage(stage: Stage) -> Callable[[Random], Attributes]:
    return lambda _: {"latencytrace.stage": stage.value}


WORK: tuple[tuple[str, str, SpanKind, Callable[[Random], Attributes]], ...] = (
    ("embed", "latencytrace", SpanKind.INTERNAL, _embedding),
    ("query_points", "latencytrace", SpanKind.CLIENT, _vectors),
    ("chat llama-3-8b", "opentelemetry.instrumentation.openai_v2", SpanKind.CLIENT, _generation),
    ("POST", "opentelemetry.instrumentation.httpx", SpanKind.CLIENT, _call),
    ("tokenize", "latencytrace", SpanKind.INTERNAL, _stage(Stage.TOKENIZE)),
    ("prompt", "latencytrace", SpanKind.INTERNAL, _stage(Stage.PREPROCESS)),
    ("prefill", "latencytrace", SpanKind.INTERNAL, _stage(Stage.PREFILL)),
    ("decode", "latencytrace", SpanKind.INTERNAL, _stage(Stage.DECODE)),
)


def _root_attributes(random: Random) -> Attributes:
    tokens = random.randint(2, 60)
    gaps_ns = [random.randrange(10**7) for _ in range(tokens)]
    sends = [(at * 10**7, at * 10**7 + random.randrange(10**6)) for at in range(min(tokens, 8))]
    attributes: Attributes = {
        "http.request.method": "POST",
        "http.route": "/chat",
        "http.response.status_code": 200,
        "url.path": "/chat",
        "url.scheme": "http",
        "url.query": f"session={random.randrange(10**9)}",
        "network.protocol.version": "1.1",
        "server.address": "rag",
        "server.port": 8000,
        "client.address": f"10.0.0.{random.randrange(250)}",
        "client.port": random.randrange(1 << 16),
        "user_agent.original": "python-httpx/0.28",
        semconv.CONCURRENCY: random.randint(1, 30),
        semconv.STREAMED_TOKENS: tokens,
        semconv.TOKEN_TIMES: f"{random.randrange(10**8)};{','.join(map(str, gaps_ns))}",
        semconv.INTERVALS: pack_named({"respond": sends}, 0),
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: random.random() / 10,
    }
    if random.random() < 0.5:
        attributes[semconv.RUNTIME_GAPS] = pack_named({"event_loop_lag": sends[:3]}, 0)
    return attributes


def made_trace(random: Random, number: int) -> list[Span]:
    """A request as a service for retrieval and generation sends it."""
    trace_id = f"{random.getrandbits(128):032x}"
    begin_ns = BEGIN_NS + number * 10**6
    length_ns = random.randint(2, 10) * 10**8
    spans: list[Span] = []

    def add(
        name: str, scope: str, kind: SpanKind, start_ns: int, end_ns: int, attributes: Attributes
    ) -> None:
        spans.append(
            Span(
                trace_id=trace_id,
                span_id=f"{random.getrandbits(64):016x}",
                parent_id=spans[len(spans) // 4].span_id if spans else None,
                name=name,
                kind=kind,
                service="rag",
                instance="rag-1",
                host="node-1",
                version="1.4.2",
                scope=scope,
                start_ns=start_ns,
                end_ns=end_ns,
                attributes=attributes,
            )
        )

    root = ("POST /chat", "latencytrace", SpanKind.SERVER)
    add(*root, begin_ns, begin_ns + length_ns, _root_attributes(random))
    for _ in range(random.randint(7, 19)):
        name, scope, kind, attributes = random.choice(WORK)
        parent = spans[len(spans) // 4]
        room_ns = parent.end_ns - parent.start_ns
        start_ns = parent.start_ns + random.randrange(room_ns)
        end_ns = start_ns + random.randrange(1 + (parent.end_ns - start_ns))
        add(name, scope, kind, start_ns, end_ns, attributes(random))
    random.shuffle(spans)
    return spans


def main() -> None:
    random = Random(1)
    made = [made_trace(random, number) for number in range(TRACES)]
    traces = {spans[0].trace_id: spans for spans in made}
    count = sum(map(len, made))
    batch = span_batch(traces, Shapes())
    facts, tables = Facts(), Tables()
    of_tables = Telemetry()
    divided, odd = attributed(batch, facts)
    table = LedgerTable.new(tables.of(divided))
    requests = [request for spans in made for request in requests_of(spans, {})]
    if len(odd) or objects_of(table) != requests:
        raise SystemExit("the two ways differ")
    if block_of_table(table, BEGIN_NS) != block_of(requests, [], BEGIN_NS, {}):
        raise SystemExit("the rows of the two ways differ")
    steps: dict[str, Callable[[], object]] = {
        "spans to columns of ledgers": lambda: attributed(batch, facts),
        "these to a table": lambda: tables.of(divided),
        "this to rows": lambda: block_of_table(table, BEGIN_NS),
        "this to metrics": lambda: of_tables.counted.count(table),
        "this to objects": lambda: objects_of(table),
        "objects to rows": lambda: block_of(requests, [], BEGIN_NS, {}),
        "objects to a table": lambda: LedgerTable.of(requests),
        "spans to objects": lambda: [requests_of(spans, {}) for spans in made],
    }
    taken: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            before = time.thread_time_ns()
            step()
            taken.setdefault(name, []).append((time.thread_time_ns() - before) / US)
    sys.stdout.write(
        f"{TRACES} traces, {count} spans, {len(batch.shapes)} shapes; µs of CPU, medians\n"
    )
    for name, values in taken.items():
        us = statistics.median(values)
        sys.stdout.write(f"  {name:28} {us / count:8.3f} a span {us / TRACES:8.2f} a request\n")


if __name__ == "__main__":
    main()
