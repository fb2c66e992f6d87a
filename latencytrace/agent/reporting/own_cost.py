"""Costs of the agent in its program: CPU time in hooks and on its background thread."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import sub
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from latencytrace.agent.budget.detail import Detail
from latencytrace.agent.export.exporter import ExportCounts
from latencytrace.agent.native import read_file
from latencytrace.agent.reporting.prices import Prices
from latencytrace.agent.timing.costs import HookCost, RequestCost, Samples, all_costs

WINDOW_NS = 10_000_000_000  # of a rate
PRICED_FOR_NS = 60_000_000_000  # then the price of a span is measured again
TELLING: Final = 8  # samples, by which calls have a new price
_NONE: Final = Samples(0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCost:
    """CPU time since the agent started, and seconds of it a second of late.

    That of hooks is an estimate: requests, chunks of streams, timed calls and callbacks of event
    loops, each times its price in this process. The background
    thread's is read off its clock.
    """

    hooks_cpu_ns: int = 0
    encoder_cpu_ns: int = 0
    exporter_cpu_ns: int = 0
    reporting_cpu_ns: int = 0  # the rest of the background thread
    dropped_cpu_ns: int = 0  # of hooks, for requests that were not recorded
    hooks_ratio: float = 0.0
    encoder_ratio: float = 0.0
    exporter_ratio: float = 0.0
    reporting_ratio: float = 0.0

    @property
    def cpu_ns(self) -> int:
        """Return the whole."""
        return (
            self.hooks_cpu_ns + self.encoder_cpu_ns + self.exporter_cpu_ns + self.reporting_cpu_ns
        )


class CostMeter:
    """Turns counts into costs; fed by the background thread, read by any.

    Args:
        now_ns: A monotonic clock.
        prices: Measures what hooks cost, given whether requests were served; None: it cannot now.
        thread_ns: CPU time of the background thread; called on it.
        callbacks: Counts callbacks of event loops that were timed.
        costs: Costs of functions that hooks put in place, by their samples.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        detail: Detail,
        prices: Callable[[bool], Prices | None],
        thread_ns: Callable[[], int],
        *,
        callbacks: Callable[[], int] = lambda: 0,
        costs: Callable[[], Iterable[HookCost]] = all_costs,
    ) -> None:
        self._now_ns = now_ns
        self._detail = detail
        self._measure = prices
        self._thread_ns = thread_ns
        self._priced_ns: int | None = None
        self._priced_requests = False
        self._prices = Prices()
        self._hooks_ns = 0
        self._dropped_ns = 0  # of these
        self._callbacks = callbacks
        self._costs = costs
        self._step = detail.step
        self._calls: WeakKeyDictionary[HookCost, int] = WeakKeyDictionary()
        self._samples: WeakKeyDictionary[HookCost, tuple[Samples, Samples]] = WeakKeyDictionary()
        self._counted = (0, 0, 0, 0, 0, 0)
        self._window_ns = now_ns()
        self._before = (0, 0, 0, 0)
        self._cost = OwnCost()

    def read(self) -> OwnCost:
        """Return the cost as of the last update."""
        return self._cost

    def update(self, counts: ExportCounts, queued: int) -> None:
        """Take the counts so far, spans that wait too; now and then look up what hooks cost."""
        now_ns, made = self._now_ns(), counts.sent + counts.dropped + counts.in_flight + queued
        self._add_hooks(now_ns, made)
        encoder_ns, exporter_ns = counts.encode_cpu_ns, counts.export_cpu_ns
        reporting_ns = max(self._thread_ns() - exporter_ns, 0)
        totals = (self._hooks_ns, encoder_ns, exporter_ns - encoder_ns, reporting_ns)
        ratios = self._ratios
        passed_ns = now_ns - self._window_ns
        if passed_ns >= WINDOW_NS:
            spent = zip(totals, self._before, strict=True)
            ratios = tuple(max(now - was, 0) / passed_ns for now, was in spent)
            self._window_ns, self._before = now_ns, totals
        self._cost = OwnCost(
            hooks_cpu_ns=totals[0],
            encoder_cpu_ns=totals[1],
            exporter_cpu_ns=totals[2],
            reporting_cpu_ns=totals[3],
            dropped_cpu_ns=self._dropped_ns,
            hooks_ratio=ratios[0],
            encoder_ratio=ratios[1],
            exporter_ratio=ratios[2],
            reporting_ratio=ratios[3],
        )

    @property
    def _ratios(self) -> tuple[float, ...]:
        cost = self._cost
        return cost.hooks_ratio, cost.encoder_ratio, cost.exporter_ratio, cost.reporting_ratio

    def _add_hooks(self, now_ns: int, made: int) -> None:
        """Add what hooks did since the last time, each at the price of now."""
        detail = self._detail
        spared = detail.least + detail.controls
        # Its own span is a request's.
        spans = max(made - detail.requests - spared, self._counted[0])
        callbacks = self._callbacks()
        counted = (
            spans, detail.requests, detail.chunks, callbacks, spared, detail.dropped,
        )  # fmt: skip
        served = detail.requests + spared + detail.dropped > 0
        due = self._priced_ns is None or now_ns - self._priced_ns >= PRICED_FOR_NS
        due = due or served > self._priced_requests
        calls = self._new_calls()
        if due and (calls or counted != self._counted):  # an idle process pays nothing
            measured = self._measure(served)
            if measured is None:  # it is added once its price is known
                return
            self._prices, self._priced_ns, self._priced_requests = measured, now_ns, served
        for cost, count in calls.items():
            self._calls[cost] = self._calls.get(cost, 0) + count
        prices, colder = self._prices, self._colder()
        each = (
            prices.span_ns, prices.request_ns * colder, prices.chunk_ns, prices.callback_ns,
            prices.least_ns * colder, prices.dropped_ns * colder,
        )  # fmt: skip
        new = [now - was for now, was in zip(counted, self._counted, strict=True)]
        samples = {cost: self._lately(cost) for cost in calls}
        made_by_calls = sum(count * samples[cost].spans_ratio for cost, count in calls.items())
        new[0] = max(new[0] - round(made_by_calls), 0)  # those that the program makes itself
        costs_ns = [round(count * price) for count, price in zip(new, each, strict=True)]
        calls_ns = sum(
            count * (prices.wrapper_ns + (prices.call_ns if ns is None else ns))
            for count, ns in ((count, samples[cost].ns) for cost, count in calls.items())
        )
        followed = sum(
            count * samples[cost].spans_ratio * cost.follows for cost, count in calls.items()
        )
        self._hooks_ns += sum(costs_ns) + round(calls_ns + followed * prices.instruction_ns)
        self._dropped_ns += costs_ns[-1]
        if detail.step != self._step:  # what was done before it has the price of then
            self._step = detail.step
            for cost in self._costs():
                cost.forget()
        self._counted = counted

    def _lately(self, cost: HookCost) -> Samples:
        """Return the newest samples of a function: what it is called for changes."""
        samples, (until, found) = cost.samples, self._samples.get(cost, (_NONE, _NONE))
        later = Samples(*map(sub, samples, until))
        if later.calls >= TELLING:
            found = later
        elif later.calls >= 0 and found.calls:
            return found
        else:  # there were few so far, or the older ones count less now
            found = samples
        self._samples[cost] = samples, found
        return found

    def _new_calls(self) -> dict[HookCost, int]:
        """Return how many calls of each function there were since the last time, if any."""
        new = ((cost, cost.calls - self._calls.get(cost, 0)) for cost in self._costs())
        return {
            cost: count for cost, count in new if count > 0 and not isinstance(cost, RequestCost)
        }

    def _colder(self) -> float:
        """Return how many times as much a request takes among the program's as by itself."""
        sampled = [cost.ns for cost in self._costs() if isinstance(cost, RequestCost) and cost.ns]
        if not sampled or not self._prices.sections_ns:
            return 1.0
        return sum(sampled) / len(sampled) / self._prices.sections_ns


# Pressure as Linux tells it (PSI): how much of the last minute some thread waited for a resource.
#
# Of the process's own control group, where there is one that tells, else of the machine.

RESOURCES: Final = ("cpu", "memory", "io")
_CONTROL_GROUPS: Final = Path("sys/fs/cgroup")
_MINUTE: Final = "avg60="


def pressure(root: Path = Path("/")) -> Mapping[str, float]:
    """Return shares of time by resource; those that Linux does not tell are absent.

    Args:
        root: Where `/proc` and `/sys` are.
    """
    folder = _control_group(root)
    found: dict[str, float] = {}
    for resource in RESOURCES:
        ratio = None if folder is None else _ratio(folder / f"{resource}.pressure")
        if ratio is None:
            ratio = _ratio(root / "proc/pressure" / resource)
        if ratio is not None:
            found[resource] = ratio
    return found


def _control_group(root: Path) -> Path | None:
    """The folder of the process's own control group, of version 2."""
    try:
        lines = read_file(root / "proc/self/cgroup").decode().splitlines()
    except (OSError, ValueError):
        return None
    named = next((line[3:] for line in lines if line.startswith("0::/")), None)
    return None if named is None else root / _CONTROL_GROUPS / named.lstrip("/")


def _ratio(file: Path) -> float | None:
    """The share in the line `some avg10=0.00 avg60=98.88 avg300=99.15 total=1`."""
    try:
        first = read_file(file).decode("ascii").partition("\n")[0].split()
        if first[0] != "some":
            return None
        return float(next(one for one in first if one.startswith(_MINUTE))[len(_MINUTE) :]) / 100
    except (OSError, ValueError, IndexError, StopIteration):
        return None
