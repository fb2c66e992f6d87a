"""Several services on one ClickHouse server, under load and trouble: what became of every request.

The Collector's load-balancing exporter is played by senders that spread posts by trace id. Of some
traces a part goes to another service, as when members of the fleet change.
"""

import csv
import io
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import httpx

from latencytrace.model import Span, Stage
from tests.support.builders.spans.otlp_messages import decoding, one_span, otlp
from tests.support.clickhouse.front import ClickHouseFront
from tests.support.servers.running_service import PROTOBUF, RunningService
from tests.support.waiting import until

MS: Final = 1_000_000
LENGTH_NS: Final = 100 * MS
WORKER: Final = "worker"
PATIENCE_S: Final = 150.0  # of a sender with a post, and of us with the end
SPLIT_EVERY: Final = 10
LEDGERS: Final = "/api/v1/ledgers?format=csv&since=1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A fleet and what it goes through."""

    services: int = 3
    agents: int = 8
    requests: int = 300
    kills: int = 2  # of a service, each at once and started again
    away: int = 1  # times that the server is killed and started again
    away_s: float = 0.0  # for how long at least, each time
    seconds: float = 0.0  # that sending takes at least

    @property
    def pause_s(self) -> float:
        """How long an agent waits after a request."""
        return max(0.05, self.seconds * self.agents / self.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request as it was sent."""

    trace_id: str
    decode_ns: int  # of its ledger
    posts: tuple[tuple[int, bytes], ...]  # each to which service, by its number


@dataclass(slots=True)
class Outcome:
    """The outcome of it."""

    requests: int = 0
    acknowledged: int = 0
    refused: Counter[int] = field(default_factory=Counter)  # attempts, by status; 0: no answer
    split: int = 0  # traces that went to two services
    mended: float = 0.0  # traces that services found split, of those that live
    ended_after_s: float = 0.0  # from the last answer until all ledgers were right


def sent_requests(trouble: Trouble) -> list[Sent]:
    """All requests, in the order in which they are sent."""
    return [_sent(number, trouble.services) for number in range(1, trouble.requests + 1)]


def _sent(number: int, services: int) -> Sent:
    trace_id = f"{number * 0x9E3779B97F4A7C15 % (1 << 64):016x}{number:016x}"
    home = int(trace_id, 16) % services
    start_ns = time.time_ns() - 2000 * MS
    root = one_span(trace_id, "a" * 16, start_ns=start_ns, end_ns=start_ns + LENGTH_NS)
    if number % SPLIT_EVERY:
        decode = decoding(root, "b" * 16, 20, 60)
        return Sent(trace_id=trace_id, decode_ns=40 * MS, posts=((home, otlp(decode, root)),))
    served = one_span(
        trace_id, "c" * 16, parent_id=root.span_id, start_ns=start_ns + 10 * MS,
        end_ns=start_ns + 80 * MS,
    )  # fmt: skip
    worker = _of_worker(decoding(served, "d" * 16, 10, 30), served)
    parts = ((home, otlp(root)), ((home + 1) % services, otlp(*worker)))
    return Sent(trace_id=trace_id, decode_ns=20 * MS, posts=parts)


def _of_worker(*spans: Span) -> list[Span]:
    return [replace(span, service=WORKER, instance=f"{WORKER}-1") for span in spans]


class Fleet:
    """The services, started and ended by number."""

    def __init__(self, folder: Path, front: ClickHouseFront, services: int) -> None:
        self._folder = folder
        self._front = front
        self._opened = ExitStack()
        self.members: list[RunningService | None] = [self._made(one) for one in range(services)]
        for number in range(services):
            self.member(number).wait_until_ready()

    def member(self, number: int) -> RunningService:
        """A service that runs."""
        found = self.members[number]
        assert found is not None
        return found

    def address(self, number: int) -> str | None:
        """Where a service takes spans; None: it is away."""
        found = self.members[number]
        return None if found is None else getattr(found, "otlp", None)

    def kill(self, number: int) -> None:
        """End one at once."""
        killed = self.member(number)
        self.members[number] = None
        killed.end(signal.SIGKILL)

    def start(self, number: int) -> None:
        """Start one on the folder that it had."""
        made = self._made(number)
        made.wait_until_ready()
        self.members[number] = made

    def said(self) -> str:
        """The last lines that they printed."""
        return "\n".join(one.said()[-3000:] for one in self.members if one is not None)

    def close(self) -> None:
        """End them all."""
        self._opened.close()

    def _made(self, number: int) -> RunningService:
        env = {"LATENCYTRACE_STORE": self._front.url("fleet")}
        folder = self._folder / f"service-{number}"
        return self._opened.enter_context(RunningService(folder, env=env, ready=False))


class Agents:
    """Senders that send each post until it is acknowledged."""

    def __init__(self, fleet: Fleet, sent: list[Sent], trouble: Trouble) -> None:
        self._fleet = fleet
        self._pause_s = trouble.pause_s
        self._patience_s = PATIENCE_S + trouble.seconds
        self._left = iter(sent)
        self._lock = threading.Lock()
        self.acknowledged: set[str] = set()  # traces, of which every post was
        self.refused: Counter[int] = Counter()
        self._threads = [
            threading.Thread(target=self._run, daemon=True) for _ in range(trouble.agents)
        ]

    def start(self) -> None:
        """Begin to send."""
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Wait until all is sent."""
        for thread in self._threads:
            thread.join()

    def wait_for(self, count: int) -> None:
        """Wait until so many requests were acknowledged."""
        until(lambda: len(self.acknowledged) >= count, self._fleet.said, self._patience_s)

    def _run(self) -> None:
        with httpx.Client(timeout=20.0, trust_env=False) as client:
            while True:
                with self._lock:
                    one = next(self._left, None)
                if one is None:
                    return
                kept = [self._is_kept(client, *post) for post in one.posts]  # all are sent
                if all(kept):
                    self.acknowledged.add(one.trace_id)
                time.sleep(self._pause_s)

    def _is_kept(self, client: httpx.Client, number: int, body: bytes) -> bool:
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            address = self._fleet.address(number)
            status = 0
            if address is not None:
                try:
                    answer = client.post(f"{address}/v1/traces", content=body, headers=PROTOBUF)
                    status = answer.status_code
                except httpx.HTTPError:
                    pass
            if status == httpx.codes.OK:
                return True
            with self._lock:
                self.refused[status] += 1
            time.sleep(0.1)
        return False


def account_of(trouble: Trouble, folder: Path) -> Outcome:
    """Put a fleet through trouble, and wait until what was acknowledged has its ledger once."""
    outcome = Outcome(requests=trouble.requests)
    with ClickHouseFront(folder / "engine") as front:
        fleet = Fleet(folder, front, trouble.services)
        try:
            sent = sent_requests(trouble)
            agents = Agents(fleet, sent, trouble)
            agents.start()
            _make_trouble(trouble, fleet, front, agents)
            agents.wait()
            last_s = time.monotonic()
            expected = [one for one in sent if one.trace_id in agents.acknowledged]
            wrong = "not asked yet"

            def is_right() -> bool:
                nonlocal wrong
                wrong = faults_of(fleet.member(0), expected)
                return not wrong

            until(is_right, lambda: f"{wrong}\n{fleet.said()}", PATIENCE_S)
            outcome.ended_after_s = time.monotonic() - last_s
            outcome.acknowledged = len(expected)
            outcome.refused = agents.refused
            outcome.split = sum(len(one.posts) > 1 for one in expected)
            outcome.mended = sum(
                fleet.member(number).metric("latencytrace_service_split_traces_total")
                for number in range(trouble.services)
            )
        finally:
            fleet.close()
    return outcome


def _make_trouble(trouble: Trouble, fleet: Fleet, front: ClickHouseFront, agents: Agents) -> None:
    """Kill services and the server in turn while the agents send."""
    events = ["kill"] * trouble.kills
    for time_away in range(trouble.away):
        events.insert(1 + time_away * (1 + trouble.kills // max(trouble.away, 1)), "away")
    for place, event in enumerate(events):
        agents.wait_for(trouble.requests * (place + 1) // (len(events) + 2))
        victim = place % trouble.services
        if event == "kill":
            fleet.kill(victim)
            fleet.start(victim)
            continue
        front.kill()
        time.sleep(trouble.away_s)
        agents.wait_for(min(len(agents.acknowledged) + 5, trouble.requests))  # into journals
        fleet.kill(victim)  # with what only its journal has
        front.start()
        fleet.start(victim)


def faults_of(service: RunningService, expected: list[Sent]) -> str:
    """Faults of the ledgers of acknowledged requests; empty: none."""
    answer = service.get(LEDGERS)
    if not answer.is_success:
        return answer.text
    rows: dict[str, list[Mapping[str, str]]] = {}
    for row in csv.DictReader(io.StringIO(answer.text)):
        rows.setdefault(row["trace_id"], []).append(row)
    wrong: Counter[str] = Counter()
    for one in expected:
        found = rows.get(one.trace_id, [])
        if len(found) != 1:
            wrong[f"{len(found)} rows"] += 1
        elif int(found[0]["duration_ns"]) != LENGTH_NS:
            wrong["another duration"] += 1
        elif int(found[0][f"{Stage.DECODE}_ns"]) != one.decode_ns:
            wrong["another ledger"] += 1
    return ", ".join(f"{count} with {what}" for what, count in wrong.items())
