"""An evaluator fed with requests while a fake clock moves on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from latencytrace.model import Alert, Objective, Request, Stage
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.objectives.evaluator import Evaluator, SteadyClock
from latencytrace.service.objectives.memory import ObjectiveMemory
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.made_requests import made_request
from tests.support.fakes.contracts import FakeClock
from tests.support.tables.ledger_tables import tables_of

START_NS = 1_763_690_000 * 10**9
TICK_S = 10
PER_S = 5
GOOD = made_request(stages={Stage.RETRIEVE: SECOND_NS // 10, Stage.DECODE: SECOND_NS})
SLOW = made_request(stages={Stage.RETRIEVE: 2 * SECOND_NS, Stage.DECODE: SECOND_NS})


class Traffic:
    """Requests at a rate, of which a share is bad."""

    def __init__(self, folder: Path, *objectives: Objective) -> None:
        self.folder = folder
        self.objectives = objectives or (made_objective(),)
        self.wall, self.monotonic = FakeClock(START_NS), FakeClock()
        self.heard: list[Alert] = []
        self._sent = self._owed = 0.0
        self.start()

    def start(self) -> None:
        """Begin a service on the folder."""
        clock = SteadyClock(self.wall, self.monotonic)
        self.memory = ObjectiveMemory.open(self.folder, clock())
        self.evaluator = Evaluator(self.objectives, clock, self.memory)

    def restart(self, down_s: float = 0) -> None:
        """End the service as a kill would, and begin the next one."""
        self.memory.close()
        self.move(down_s)
        self.start()

    def move(self, seconds: float) -> None:
        """Let time pass without a request or tick."""
        self.wall.move_s(seconds)
        self.monotonic.move_s(seconds)

    def run(
        self, minutes: float, bad_ratio: float = 0, per_s: float = PER_S, tick_s: float = TICK_S
    ) -> None:
        """Send requests for a while."""
        for _ in range(round(minutes * 60 / tick_s)):
            self._tick(bad_ratio, per_s, tick_s)

    def until_firing(self, bad_ratio: float, per_s: float = PER_S) -> float | None:
        """Minutes of such requests until something begins to fire; None: not in 12 h."""
        before = len(self.heard)
        for ticks in range(1, 12 * 360):
            self._tick(bad_ratio, per_s)
            if len(self.heard) > before:
                return ticks * TICK_S / 60
        return None

    def one(self, request: Request = GOOD, ended_ago_s: float = 0, **more: object) -> None:
        """Send a single request that ended so long ago."""
        end_ns = self.wall() - round(ended_ago_s * 1e9)
        self.count([stamped(request, end_ns, **more)])

    def count(self, requests: Sequence[Request]) -> None:
        """Count requests that have settled."""
        if requests:
            self.evaluator.count(Settled(tables=tables_of(requests), until_ns=self.wall()))

    def tick(self) -> None:
        """Evaluate, and keep it."""
        self.heard += self.evaluator.tick()
        self.evaluator.keep()

    def names(self) -> list[str]:
        """The alerts that began and ended, in order."""
        return [
            f"{alert.kind}/{alert.severity} {'ended' if alert.ended_ns else 'began'}"
            for alert in self.heard
        ]

    def _tick(self, bad_ratio: float, per_s: float, tick_s: float = TICK_S) -> None:
        self.move(tick_s)
        self._owed += per_s * tick_s
        count, self._owed = int(self._owed), self._owed % 1
        self._sent += bad_ratio * count
        bad, self._sent = int(self._sent), self._sent % 1
        if count:
            table = ended_at(self.wall(), bad, count - bad)
            self.evaluator.count(Settled(tables=[table], until_ns=self.wall()))
        self.tick()


def stamped(request: Request, end_ns: int, **more: object) -> Request:
    """The same request with another end."""
    return made_request(
        0,
        request.ledger,
        **{"start_ns": end_ns - request.duration_ns, **more},
    )


_EACH = LedgerTable.of([stamped(SLOW, START_NS), stamped(GOOD, START_NS)])


def ended_at(end_ns: int, slow: int, good: int) -> LedgerTable:
    """So many requests of each, as `tables_of` would make them, each of a trace of its own."""
    table = _EACH.taken(np.repeat([0, 1], [slow, good]))
    return replace(
        table,
        trace_ids=[f"{end_ns:016x}{number + 1:016x}" for number in range(len(table))],
        start_ns=table.start_ns + end_ns - START_NS,
    )
