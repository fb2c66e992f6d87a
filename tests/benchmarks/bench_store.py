"""A large store: how long the service takes to start on it, and what questions cost.

    python tests/benchmarks/bench_store.py [--requests 100000] [--days 2] [--kept 1.0]
        [--rounds 5] [--folder FOLDER] [--rest 60] [--json]

A store is filled with requests of 8 to 20 spans, those of 20 000 more among the arrivals, as after
a service that died; a folder that is named is filled once and used again. Then the questions are
asked in turn, several times; medians and the least are shown: of wall time, and of the CPU time of
all threads. The service is started on it: the time until its receiver answers, and until it says
that it is ready. Then its pages are loaded, each the first time after a start of its own, and
again: until the last byte. At last it rests for a minute, on that store and on an empty one: its
share of a core and its memory.
"""

import argparse
import itertools
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote
from uuid import uuid4

import httpx
import numpy as np

from latencytrace.analysis.compare.verdict import AT_LEAST
from latencytrace.model import Request, Segment, Span, SpanKind, Stage
from latencytrace.service.answers.compare import comparison
from latencytrace.service.answers.tail import tail
from latencytrace.service.clock import now_ns
from latencytrace.service.cohort import Cohort
from latencytrace.service.otlp.span_block import SpanBlock
from latencytrace.service.sql.tables import REQUESTS, SPANS, stage_column
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.store import Order, TableFormat
from latencytrace.service.stores.chdb.store import ChdbStore
from tests.support.builders.made_requests import made_request
from tests.support.builders.spans.otlp_messages import columns, one_span, otlp
from tests.support.servers.running_service import PROTOBUF, RunningService
from tests.support.tables.ledger_tables import write
from tests.support.waiting import until

CHUNK: Final = 1000  # requests that are written together
FIRST: Final = 20_000  # that are written; the others are copies of them
DAY_NS: Final = 86_400 * 10**9
ROUTES: Final = ("POST /chat", "POST /embed", "GET /search", "POST /rerank")
STAGES: Final = (
    Stage.QUEUE, Stage.TOKENIZE, Stage.EMBED, Stage.RETRIEVE, Stage.RERANK, Stage.PREFILL,
    Stage.DECODE, Stage.DETOKENIZE, Stage.RESPOND, Stage.NETWORK, Stage.RUNTIME,
)  # fmt: skip


class Pattern:
    """Requests with their spans, of which ids and times are changed."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self._requests = [_request(chance, number) for number in range(CHUNK)]
        spans = [span for one in self._requests for span in _spans(chance, one)]
        self._block = columns(otlp(*spans))
        lows = np.array([int(one.trace_id[16:], 16) for one in self._requests], np.uint64)
        order = np.argsort(lows)
        at = order[np.searchsorted(lows[order], self._block.table["trace_low"])]
        self._places = at.astype(np.uint64)  # of each span, its request's

    def requests(self, number: int, start_ns: int, step_ns: int) -> list[Request]:
        """The requests of a chunk."""
        high = _high(number)
        return [
            replace(
                one, trace_id=f"{high:016x}{one.trace_id[16:]}", start_ns=start_ns + at * step_ns
            )
            for at, one in enumerate(self._requests)
        ]

    def block(self, number: int, start_ns: int, step_ns: int) -> SpanBlock:
        """Their spans."""
        table = self._block.table.copy()
        shift = np.uint64(start_ns) + self._places * np.uint64(step_ns)
        table["trace_high"] = _high(number)
        table["start_ns"] += shift
        table["end_ns"] += shift
        return replace(self._block, table=table)


def _high(number: int) -> int:
    return (number + 1) * 0x9E3779B97F4A7C15 % 2**64  # also of negative ones


def _request(chance: random.Random, number: int) -> Request:
    stages = {
        stage: round(chance.lognormvariate(15, 1.2))
        for stage in chance.sample(STAGES, chance.randint(4, 9))
    }
    made = made_request(stages=stages)
    cut = [
        Segment(
            start_ns=one.start_ns, end_ns=one.end_ns, stage=one.stage,
            span_id=f"{chance.getrandbits(64):016x}", name=one.name,
        )
        for one in made.segments
    ]  # fmt: skip
    return replace(
        made,
        trace_id=f"{chance.getrandbits(128):032x}",
        span_id=f"{chance.getrandbits(63) + 1:016x}",
        route=chance.choice(ROUTES),
        segments=tuple(cut),
        input_tokens=chance.randrange(4000),
        output_tokens=chance.randrange(800),
        time_to_first_token_ns=made.duration_ns // 3,
        time_per_output_token_ns=chance.randrange(10**7, 10**8),
        attributes=(("tenant", f"t{chance.randrange(50)}"), ("number", str(number))),
    )


def _spans(chance: random.Random, request: Request) -> Iterator[Span]:
    for number in range(chance.randint(8, 20)):
        begin = 0 if not number else chance.randrange(request.duration_ns)
        end = request.duration_ns if not number else chance.randrange(begin, request.duration_ns)
        yield one_span(
            request.trace_id,
            request.span_id if not number else f"{chance.getrandbits(40) + 1:016x}",
            parent_id=request.span_id if number else None,
            name=f"step {number}" if number else "POST /chat",
            kind=SpanKind.INTERNAL if number else SpanKind.SERVER,
            start_ns=begin,
            end_ns=end,
            attributes={
                "http.route": "/chat",
                "url.full": f"http://host/{chance.randrange(1000)}",
                "gen_ai.request.model": "llama-3-8b",
                "gen_ai.usage.input_tokens": chance.randrange(4000),
                "latencytrace.stage": "decode",
                "score": chance.random(),
            },
        )


def fill(folder: Path, requests: int, days: float, kept: float) -> None:
    """Write so many requests, and the spans of a share of them, as if over so many days.

    The first are written as the service writes them, the others are copied by the engine.
    """
    store = ChdbStore.open(folder)
    copies = max(requests // FIRST, 1)
    length_ns = round(days * DAY_NS / copies)  # of a copy
    began_ns = now_ns() - round(days * DAY_NS)
    step_ns = length_ns // FIRST
    pattern = Pattern(7)
    for number in range(FIRST // CHUNK):
        start_ns = began_ns + number * CHUNK * step_ns
        block = pattern.block(number, start_ns, step_ns)
        store.keep([(block, np.arange(block.count))])
        written = pattern.requests(number, start_ns, step_ns)
        write(store, written, [], age_ns=now_ns() - start_ns - CHUNK * step_ns)
    for copy in range(1, copies):
        bound = {"until": began_ns + length_ns, "by": copy * length_ns, "copy": copy}
        copied = _copy(REQUESTS, "Start", "Written", also=_longer())
        store._assembler.query(copied, "Null", bound)
        if copy < copies * kept:
            store._assembler.query(_copy(SPANS, "Timestamp"), "Null", bound)
    last_ns = began_ns + (copies - 1) * length_ns
    for number in range(FIRST // CHUNK):  # the last are among the arrivals, with other ids
        store.insert([pattern.block(-number - 1, last_ns + number * CHUNK * step_ns, step_ns)])
    store.close()
    store = ChdbStore.open(folder, partial(next, itertools.count(now_ns(), 3600 * 10**9)))
    for _ in range(round(days * 2000)):  # as in days of running; a step rolls up a window or more
        store.roll_up()
    store.close()


def _longer() -> Iterator[str]:
    """What makes the last segment of each copy a little longer, so that few take as long."""
    by, ends = "cityHash64(TraceId, {copy:Int64}) % 1000000", "`Segments.EndNs`"
    yield f"DurationNs + {by} AS DurationNs"
    yield f"arrayPushBack(arrayPopBack({ends}), {ends}[-1] + {by}) AS {ends}"
    for stage in Stage:
        column = stage_column(stage)
        yield f"{column} + if(`Segments.Stage`[-1] = '{stage}', {by}, 0) AS {column}"


def _copy(table: str, *times: str, also: Iterable[str] = ()) -> str:
    """The statement that copies the first rows of a table, with other trace ids and times."""
    moved = (f"{time} + toIntervalNanosecond({{by:Int64}}) AS {time}" for time in times)
    half = "lower(hex(cityHash64(substring(TraceId, 1, 16), {copy:Int64})))"
    return (
        f"INSERT INTO {table} SELECT * REPLACE ({half} || substring(TraceId, 17) AS TraceId, "  # noqa: S608 - our own names
        f"{', '.join((*moved, *also))}) FROM (SELECT * FROM {table} "
        f"WHERE {times[0]} < fromUnixTimestamp64Nano({{until:Int64}}))"
    )


@contextmanager
def folder_of(named: Path | None) -> Iterator[Path]:
    """The folder that is named, or one that is gone in the end."""
    if named is not None:
        yield named
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made) / "data"


def questions(store: ChdbStore, days: float) -> dict[str, Callable[[], object]]:
    """What is asked, by name."""
    now = now_ns()
    whole_ns = round(days * DAY_NS)
    sides = (f"service=rag&since={days}d&until={days / 2}d", f"service=rag&since={days / 2}d")
    everything = Cohort(service="rag", since_ns=0)
    tenth = Cohort(service="rag", since_ns=now - round(days * DAY_NS / 10))
    some = store.requests(tenth, Order.NEWEST, 50)
    one = some[len(some) // 2]
    return {
        "breakdown of all": partial(store.breakdown, everything),
        "breakdown of a tenth": partial(store.breakdown, tenth),
        "breakdown of a route": partial(
            store.breakdown, everything.model_copy(update={"route": ROUTES[0]})
        ),
        "slowest 100 of all": partial(store.requests, everything, Order.SLOWEST, 100),
        "newest 100 of all": partial(store.requests, everything, Order.NEWEST, 100),
        "slowest 100 of a tenth": partial(store.requests, tenth, Order.SLOWEST, 100),
        "tail of all": partial(tail, store, everything, 0.99),
        "overview of all": partial(
            store.overview, Cohort(since_ns=now - whole_ns), whole_ns // 30, 50
        ),
        "heat map of all": partial(
            store.heat_map, Cohort(since_ns=now - whole_ns), whole_ns // 60
        ),
        "comparison of halves": partial(
            comparison, store, Baselines(Path("none")), sides, AT_LEAST, now
        ),
        "count of all": partial(store.count, everything),
        "a request": partial(store.request, one.trace_id, None),
        "spans of a trace": partial(store.kept_spans, one.trace_id),
        "routes": partial(store.routes, "rag"),
        "services": store.services,
        "table of a tenth": partial(store.ledgers, tenth, TableFormat.PARQUET),
    }


def ask(folder: Path, days: float, rounds: int) -> dict[str, tuple[float, float, float, float]]:
    """Wall milliseconds of each question, median and least, and those of CPU likewise."""
    store = ChdbStore.open(folder)
    taken: dict[str, list[tuple[float, float]]] = {}
    asked = questions(store, days)
    for _ in range(rounds):
        for name, question in asked.items():
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            question()
            taken.setdefault(name, []).append(
                (time.perf_counter() - wall_s, time.process_time() - cpu_s)
            )
    store.close()
    return {
        name: (
            statistics.median(wall for wall, _ in found) * 1e3,
            min(wall for wall, _ in found) * 1e3,
            statistics.median(cpu for _, cpu in found) * 1e3,
            min(cpu for _, cpu in found) * 1e3,
        )
        for name, found in taken.items()
    }


def start(folder: Path) -> dict[str, float]:
    """Seconds from the start of `serve` until it answers, is ready, and shows a new ledger."""
    trace_id = uuid4().hex
    post = otlp(one_span(trace_id, kind=SpanKind.SERVER, start_ns=now_ns(), end_ns=now_ns()))
    began_s = time.perf_counter()
    with RunningService(folder, ready=False) as service:
        otlp_url = until(lambda: _otlp(service), service.said)
        until(lambda: _takes(f"{otlp_url}/v1/traces", post), service.said)
        answers_s = time.perf_counter() - began_s
        service.wait_until_ready()
        ready_s = time.perf_counter() - began_s
        service.request(trace_id)
        ledger_s = time.perf_counter() - began_s
        service.end()
    return {"answers": answers_s, "is ready": ready_s, "first ledger": ledger_s}


def pages(folder: Path, days: float, rounds: int) -> dict[str, tuple[float, float]]:
    """Milliseconds until a page is whole: at first after a start, and the least of some more."""
    about = f"service=rag&since={days + 1}d"
    compared = "&".join(f"{side}=route%3D{quote(ROUTES[at])}" for at, side in enumerate("ab"))
    addresses = {
        "/": f"/?since={days + 1}d",
        "/breakdown": f"/breakdown?{about}",
        "/breakdown by tenant": f"/breakdown?{about}&by=tenant",
        "/tail": f"/tail?{about}",
        "/requests": f"/requests?{about}",
        "/compare": f"/compare?{about}&{compared}",
        "/whatif": f"/whatif?{about}&stage=retrieve&amount=50&change=faster",
        "/capacity": f"/capacity?{about}",
    }
    found = {}
    for name, address in addresses.items():
        taken_ms = []
        with RunningService(folder) as service:
            for _ in range(rounds + 1):
                began_s = time.perf_counter()
                service.get(address).raise_for_status()
                taken_ms.append(1e3 * (time.perf_counter() - began_s))
            service.end()
        found[name] = (taken_ms[0], min(taken_ms[1:]))
    return found


def rest(folder: Path, seconds: float) -> dict[str, float]:
    """What a service takes to which nobody comes, after as much time to begin."""
    with RunningService(folder) as service:
        time.sleep(seconds)
        began_s, cpu_s = time.perf_counter(), _running_s(service.process.pid)
        time.sleep(seconds)
        used_s = _running_s(service.process.pid) - cpu_s
        took_s = time.perf_counter() - began_s
        status = Path(f"/proc/{service.process.pid}/status").read_text().splitlines()
        held = dict(line.split(":", 1) for line in status)
        service.end()
    return {
        "% of a core": 100 * used_s / took_s,
        "MB resident": int(held["VmRSS"].split()[0]) / 1024,
        "MB of its own": int(held["RssAnon"].split()[0]) / 1024,
    }


def _running_s(pid: int) -> float:
    """How long the threads of a process have run."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _takes(url: str, post: bytes) -> bool:
    try:
        return httpx.post(url, content=post, headers=PROTOBUF, timeout=100).is_success
    except httpx.TransportError:
        return False


def _otlp(service: RunningService) -> str | None:
    said = service.said()
    return said.partition("takes spans at ")[2].partition(" ")[0] or None


def main() -> None:
    """Fill, ask, start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--days", type=float, default=2.0)
    parser.add_argument("--kept", type=float, default=1.0, help="share whose spans are kept")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument(
        "--rest", type=float, default=60.0, help="seconds of rest that are measured"
    )
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    with folder_of(told.folder) as folder:
        if not folder.exists():
            fill(folder, told.requests, told.days, told.kept)
        answers = ask(folder, told.days, told.rounds)
        starts = [start(folder) for _ in range(3)]
        loaded = pages(folder, told.days, told.rounds)
        resting = {"the store": rest(folder, told.rest)}
    with folder_of(None) as empty:
        resting["an empty one"] = rest(empty, told.rest)
    starting = {name: statistics.median(one[name] for one in starts) for name in starts[0]}
    if told.json:
        print(
            json.dumps(
                {"questions_ms": answers, "start_s": starting, "pages_ms": loaded, "rest": resting}
            )
        )
        return
    for name, (wall_ms, least_ms, cpu_ms, least_cpu_ms) in answers.items():
        wall = f"{wall_ms:>9.1f} ms, least {least_ms:>7.1f} ms"
        print(f"{name:<26} {wall}; {cpu_ms:>9.1f} ms of CPU, least {least_cpu_ms:>7.1f} ms")
    for name, seconds in starting.items():
        print(f"start: {name:<19} {seconds:>9.2f} s")
    for name, (first_ms, again_ms) in loaded.items():
        print(f"page {name:<21} {first_ms:>9.0f} ms at first, {again_ms:>7.0f} ms again")
    for name, found in resting.items():
        shown = ", ".join(f"{value:.2f} {unit}" for unit, value in found.items())
        print(f"at rest on {name}: {shown}")


if __name__ == "__main__":
    main()
