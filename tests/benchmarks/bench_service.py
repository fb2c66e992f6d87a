"""What the service costs: spans a second with their ledgers, CPU, memory and lag.

    python tests/benchmarks/bench_service.py [--seconds 30] [--connections 4] [--spans 512]
        [--requests-per-s 0] [--store chdb|clickhouse] [--json]

Senders in processes of their own post traces of 8 to 20 spans with nine attributes each, some
of them cut across two posts, to `latencytrace serve`: as fast as they are answered, or so many
requests a second. Nothing is asked meanwhile. Then every request is counted in the store, where
its ledger says when it was written: the lag is from the answer to its last post until then.

With `--store clickhouse` the service writes over HTTP to the engine in a process of its own, which
stands for the server: the service's CPU is then what a span costs up to the client's socket.
"""

import argparse
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.model import AttributeValue, SpanKind
from tests.support.builders.spans.otlp_messages import one_span, proto_span
from tests.support.clickhouse.front import ClickHouseFront
from tests.support.servers.running_service import PROTOBUF, RunningService

POSTS: Final = 8  # of a group, across which traces are cut
TIME_BYTES: Final = 9  # with its tag
TICKS: Final = os.sysconf("SC_CLK_TCK")
READY_S: Final = 300.0  # how long senders may take to make their posts
DRAINED_S: Final = 600.0  # how long the backlog may take
BASE_NS: Final = 1_763_690_000_000_000_000
STAGES: Final = ("tokenize", "embed", "retrieve", "prefill", "decode", "detokenize")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a sender knows of one group of posts."""

    key: int  # its trace ids are those of the pattern, exclusive-or this
    last_answer_s: float  # of the clock that tells the time of day
    spans: int
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a sender did."""

    seed: int
    sent: list[Sent]
    refused: int  # posts, each of which was sent again
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it."""

    connections: int
    spans_a_post: int
    spans: int
    requests: int
    ledgers: int
    refused_posts: int
    spans_per_s: float  # answered, from the moment when all senders were ready
    ledgers_after_s: float  # until all were there, from the last answer
    cpu_s_a_million_spans: float
    server_cpu_s_a_million_spans: float  # of a ClickHouse server beside it
    senders_cpu_s_a_million_spans: float
    cpu_ms_a_request: float
    peak_mib: float
    disk_bytes_a_span: float  # that is kept, as it lies there at the end
    disk_bytes_a_ledger: float
    lag_p50_s: float
    lag_p99_s: float


class Pattern:
    """Posts as bytes, of which ids and times are changed in place."""

    def __init__(self, seed: int, spans_a_post: int) -> None:
        chance = random.Random(seed)
        spans: list[bytes] = []
        self.requests = 0
        while len(spans) < POSTS * spans_a_post:
            size = chance.randint(8, 20)
            if len(spans) + size > POSTS * spans_a_post:
                size = POSTS * spans_a_post - len(spans)
            spans += _trace(chance, size)
            self.requests += 1
        bodies = [
            _body(spans[at : at + spans_a_post]) for at in range(0, len(spans), spans_a_post)
        ]
        self.spans = len(spans)
        self._bodies = [np.frombuffer(body, np.uint8).copy() for body in bodies]
        self._ids = [_places(body, b"\x0a\x10") for body in bodies]
        self._times = [_places(body, b"\x39", b"\x41") for body in bodies]

    def bodies(self, key: int, shift_ns: int) -> list[bytes]:
        """The posts with other trace ids, at another time."""
        mask = np.frombuffer(key.to_bytes(8, "big"), np.uint8)
        found = []
        for body, ids, times in zip(self._bodies, self._ids, self._times, strict=True):
            post = body.copy()
            post[ids[:, None] + np.arange(8)] ^= mask
            at = times[:, None] + np.arange(8)
            post[at] = (post[at].view("<u8") + np.uint64(shift_ns)).view(np.uint8)
            found.append(post.tobytes())
        return found


def _trace(chance: random.Random, size: int) -> list[bytes]:
    """The spans of a request: a root, and children that follow each other or lie in one."""
    trace_id = chance.randbytes(16).hex()
    root_id = chance.randbytes(8).hex()
    length_ns = chance.randint(20_000_000, 400_000_000)
    start_ns = BASE_NS + chance.randrange(10**8)
    cuts = sorted(chance.sample(range(length_ns), 2 * (size - 1)))
    spans = []
    for number in range(size):
        inner = number > 0
        begin, end = (cuts[2 * number - 2], cuts[2 * number - 1]) if inner else (0, length_ns)
        attributes: dict[str, AttributeValue] = {
            "thread.id": chance.randrange(1 << 20),
            "code.function.name": f"app.step_{number}",
            "server.address": "worker-3.internal",
            "network.protocol.version": "1.1",
            "gen_ai.request.model": "llama-3-8b",
            "gen_ai.usage.input_tokens": chance.randrange(4000),
            "retry": False,
            "score": chance.random(),
        }
        told: dict[str, AttributeValue] = (
            {"latencytrace.stage": STAGES[number % len(STAGES)]}
            if inner
            else {"http.request.method": "POST", "http.route": "/chat"}
        )
        span = one_span(
            trace_id,
            chance.randbytes(8).hex() if inner else root_id,
            parent_id=root_id if inner else None,
            name=STAGES[number % len(STAGES)] if inner else "POST /chat",
            kind=SpanKind.INTERNAL if inner else SpanKind.SERVER,
            start_ns=start_ns + begin,
            end_ns=start_ns + end,
            attributes=attributes | told,
        )
        spans.append(proto_span(span).SerializeToString())
    return [*spans[1:], spans[0]]  # as they end


def _body(spans: list[bytes]) -> bytes:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for key, value in (
        ("service.name", "rag"), ("service.instance.id", "rag-1"), ("host.name", "node-1"),
        ("telemetry.sdk.language", "python"),
    ):  # fmt: skip
        resource.resource.attributes.add(key=key).value.string_value = value
    scope = resource.scope_spans.add()
    scope.scope.name = "app"
    for span in spans:
        scope.spans.add().ParseFromString(span)
    return request.SerializeToString()


def _places(body: bytes, *tags: bytes) -> np.ndarray:
    """Where the values of a span's fields lie: ids after their length, times after their tag.

    They are looked for in the order in which the decoder reads them.

    Args:
        body: A post.
        tags: One, of trace ids; two, of start and end.
    """
    request = ExportTraceServiceRequest.FromString(body)
    spans = request.resource_spans[0].scope_spans[0].spans
    found = []
    at = 0
    for span in spans:
        if len(tags) == 1:
            wanted = [tags[0] + span.trace_id]
        else:
            wanted = [
                tags[0] + span.start_time_unix_nano.to_bytes(8, "little"),
                tags[1] + span.end_time_unix_nano.to_bytes(8, "little"),
            ]
        for value in wanted:
            at = body.index(value, at) + len(value)
            found.append(at - (16 if len(value) > TIME_BYTES else 8))
    return np.array(found)


def send(
    address: str,
    seed: int,
    spans_a_post: int,
    seconds: float,
    groups_per_s: float,
    ready: Barrier,
    told: "Queue[Record]",
) -> None:
    """Send groups of posts until the time is over; a refused post is sent again."""
    pattern = Pattern(seed, spans_a_post)
    chance = random.Random(seed + 1000)
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    sent: list[Sent] = []
    refused = 0
    ready.wait()
    began_s, cpu_began_s = time.monotonic(), time.process_time()
    while (since_s := time.monotonic() - began_s) < seconds:
        if groups_per_s and since_s < len(sent) / groups_per_s:
            time.sleep(len(sent) / groups_per_s - since_s)
        key = chance.getrandbits(64)
        for body in pattern.bodies(key, time.time_ns() - BASE_NS - 500_000_000):
            while True:
                connection.request("POST", "/v1/traces", body, PROTOBUF)
                answer = connection.getresponse()
                answer.read()
                if answer.status == http.client.OK:
                    break
                refused += 1
                time.sleep(float(answer.headers.get("retry-after", 1)))
        sent.append(
            Sent(
                key=key,
                last_answer_s=time.time(),
                spans=pattern.spans,
                requests=pattern.requests,
            )
        )
    cpu_used_s = time.process_time() - cpu_began_s
    told.put(Record(seed=seed, sent=sent, refused=refused, cpu_s=cpu_used_s))


def cpu_s(pid: int) -> float:
    """What a process has used, all of its threads and the processes that it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def peak_mib(pid: int) -> float:
    """The most memory that it has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


WRITTEN: Final = (
    "import chdb, sys; c = chdb.connect(sys.argv[1]); sys.stdout.write(str(c.query("
    "'SELECT substring(TraceId, 1, 16), substring(TraceId, 17), "
    "toUnixTimestamp64Milli(min(Written)) FROM latencytrace.requests "
    "GROUP BY TraceId', 'TSV').data()))"
)

SIZES: Final = (
    "import chdb, sys; c = chdb.connect(sys.argv[1]); "
    "[c.query(f'SELECT count() FROM latencytrace.{t}') for t in ('spans', 'requests')]; "  # loaded
    'sys.stdout.write(str(c.query("'
    "SELECT sumIf(bytes_on_disk, table = 'spans') / sumIf(rows, table = 'spans'), "
    "sumIf(bytes_on_disk, table = 'requests') / sumIf(rows, table = 'requests') "
    "FROM system.parts WHERE active AND database = 'latencytrace'\", 'TSV').data()))"
)


def run(options: argparse.Namespace) -> Outcome:
    """Send, wait until it is quiet, end the service, count."""
    spawned = get_context("spawn")
    told: Queue[Record] = spawned.Queue()
    ready = spawned.Barrier(options.connections + 1)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        data = Path(folder) / "data"
        env, engine, server = {"LATENCYTRACE_SETTLE": "10"}, data / "clickhouse", None
        if options.store == "clickhouse":
            engine = Path(folder) / "engine"
            server = opened.enter_context(ClickHouseFront(engine))
            env["LATENCYTRACE_STORE"] = server.url()
        with RunningService(data, env=env) as service:
            pid = service.process.pid
            requests_a_group = Pattern(0, options.spans).requests
            groups_per_s = options.requests_per_s / requests_a_group / options.connections
            time.sleep(options.warm)
            senders = [
                spawned.Process(
                    target=send,
                    args=(
                        service.otlp, seed, options.spans, options.seconds, groups_per_s, ready,
                        told,
                    ),
                )
                for seed in range(options.connections)
            ]  # fmt: skip
            for sender in senders:
                sender.start()
            ready.wait(READY_S)  # each has made its posts
            began_s = time.time()
            before_s, server_before_s = cpu_s(pid), 0.0 if server is None else cpu_s(server.pid)
            answers = [told.get() for _ in senders]
            for sender in senders:
                sender.join()
            last_s = max(one.last_answer_s for answer in answers for one in answer.sent)
            deadline = time.monotonic() + DRAINED_S
            while service.metric("latencytrace_service_spans_open") and (
                time.monotonic() < deadline
            ):
                time.sleep(1.0)
            drained_s = time.time() - last_s
            used_s = cpu_s(pid) - before_s
            server_s = 0.0 if server is None else cpu_s(server.pid) - server_before_s
            memory = peak_mib(pid)
            service.end()
        if server is not None:
            server.kill()
        rows = subprocess.run(
            [sys.executable, "-c", WRITTEN, str(engine)],
            capture_output=True, check=True, text=True,
        ).stdout.split()  # fmt: skip
        span_bytes, ledger_bytes = (
            float(bytes_a_row)
            for bytes_a_row in subprocess.run(
                [sys.executable, "-c", SIZES, str(engine)],
                stdout=subprocess.PIPE,
                check=True,
                text=True,
            ).stdout.split()
        )
    answered = {
        (answer.seed, one.key): one.last_answer_s for answer in answers for one in answer.sent
    }
    lags = _lags(rows, answered, options.spans)
    spans = sum(one.spans for answer in answers for one in answer.sent)
    requests = sum(one.requests for answer in answers for one in answer.sent)
    cuts = statistics.quantiles(lags, n=100) if len(lags) > 1 else [0.0] * 99
    return Outcome(
        connections=options.connections,
        spans_a_post=options.spans,
        spans=spans,
        requests=requests,
        ledgers=len(lags),
        refused_posts=sum(answer.refused for answer in answers),
        spans_per_s=spans / (last_s - began_s),
        ledgers_after_s=drained_s,
        cpu_s_a_million_spans=used_s / spans * 1e6,
        server_cpu_s_a_million_spans=server_s / spans * 1e6,
        senders_cpu_s_a_million_spans=sum(answer.cpu_s for answer in answers) / spans * 1e6,
        cpu_ms_a_request=used_s / requests * 1e3,
        peak_mib=memory,
        disk_bytes_a_span=span_bytes,
        disk_bytes_a_ledger=ledger_bytes,
        lag_p50_s=cuts[49],
        lag_p99_s=cuts[98],
    )


def _lags(
    rows: list[str], answered: dict[tuple[int, int], float], spans_a_post: int
) -> list[float]:
    """From the last answer of each trace's group until its ledger was written."""
    seeds = {seed for seed, _ in answered}
    halves: dict[str, tuple[int, int]] = {}  # by the last half of an id: its seed, its first half
    for seed in seeds:
        for body in Pattern(seed, spans_a_post).bodies(0, 0):
            request = ExportTraceServiceRequest.FromString(body)
            for span in request.resource_spans[0].scope_spans[0].spans:
                first, last = span.trace_id[:8], span.trace_id[8:].hex()
                halves[last] = (seed, int.from_bytes(first, "big"))
    lags = []
    for high, low, written_ms in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        seed, pattern = halves[low]
        answer_s = answered.get((seed, int(high, 16) ^ pattern))
        if answer_s is not None:  # None: of a group that was not sent whole
            lags.append(int(written_ms) / 1000 - answer_s)
    return lags


def main() -> None:
    """Run it, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--spans", type=int, default=512, help="of a post")
    parser.add_argument("--requests-per-s", type=float, default=0, help="0: as fast as it goes")
    parser.add_argument("--warm", type=float, default=3, help="seconds before the first post")
    parser.add_argument("--store", choices=("chdb", "clickhouse"), default="chdb")
    parser.add_argument("--json", action="store_true", help="print figures only")
    options = parser.parse_args()
    outcome = run(options)
    if options.json:
        sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
        return
    for name, value in asdict(outcome).items():
        shown = f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
        sys.stdout.write(f"{name.replace('_', ' '):28} {shown:>14}\n")


if __name__ == "__main__":
    main()
