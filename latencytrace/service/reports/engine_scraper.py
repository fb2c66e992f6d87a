"""Reads the metrics of inference engines again and again, and shows them by one set of names."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from latencytrace.errors import ScrapeError, SettingsError
from latencytrace.service.net.addresses import flaw
from latencytrace.service.net.http_client import exchange
from latencytrace.service.reports.engine_readings import (
    FORMS,
    GROWN,
    EngineModel,
    Reading,
    Readings,
    engine_readings,
)

PREFIX: Final = "latencytrace_engine"
PACE_S: Final = 5.0  # between two readings of an engine
SILENT_NS: Final = 20_000_000_000  # readings that are older are not shown
MAX_MODELS: Final = 50  # of one target
MAX_CHARACTERS: Final = 200
_LABELS: Final = ("engine", "target", "model")

if TYPE_CHECKING:  # slow to import: `http_client` does it in another way
    import httpx

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Target:
    """One engine, and its last readings."""

    url: str
    name: str  # HOST:PORT, as it is shown
    readings: Readings = field(default_factory=dict)
    grown: Readings = field(default_factory=dict)  # since the readings before
    received_ns: int | None = None
    failed: int = 0
    left_out: int = 0
    why_not: str = ""  # of its last failure; empty: it answered


class EngineScraper(Collector):
    """Reads each engine in a thread of its own, so that one that hangs holds up no other.

    Args:
        now_ns: A monotonic clock.
        receive: Takes the text of what is no engine, and says whether it could be used.
        note: Takes what a model on a target reported, and what of it grew.
    """

    def __init__(
        self,
        urls: Sequence[str],
        fetch: Callable[[str], str],
        now_ns: Callable[[], int],
        receive: Callable[[str], bool] = lambda _: False,
        note: Callable[[str, EngineModel, Mapping[Reading, float]], None] = lambda *_: None,
    ) -> None:
        self._targets = [_Target(url=url, name=_name(url, urls)) for url in urls]
        self._fetch = fetch
        self._receive = receive
        self._note = note
        self._now_ns = now_ns
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin to read them."""
        for target in self._targets:
            threading.Thread(
                target=self._run, args=(target,), name="latencytrace-scrape", daemon=True
            ).start()

    def close(self) -> None:
        """Stop; what is being fetched is forgotten."""
        self._stopping.set()

    def step(self) -> None:
        """Read each of them once."""
        for target in self._targets:
            self._read(target)

    def collect(self) -> Iterator[Metric]:
        """Show what is fresh."""
        up = GaugeMetricFamily(
            f"{PREFIX}_up", "1 while an engine's metrics are read.", labels=("target",)
        )
        failed = CounterMetricFamily(
            "latencytrace_service_engine_scrapes_failed",
            "Times that an engine's metrics could not be read.",
            labels=("target",),
        )
        left_out = GaugeMetricFamily(
            "latencytrace_service_engine_models_left_out",
            "Models of engines that are not shown, for there are too many.",
            value=sum(target.left_out for target in self._targets),
        )
        for target in self._targets:
            up.add_metric([target.name], not target.why_not and target.received_ns is not None)
            failed.add_metric([target.name], target.failed)
        yield from (up, failed, left_out)
        for reading, form in FORMS.items():
            kind = CounterMetricFamily if form.is_counter else GaugeMetricFamily
            family = kind(f"{PREFIX}_{reading}", form.text, labels=_LABELS)
            for labels, value in self._values(reading):
                family.add_metric(labels, value)
            yield family

    def _values(self, reading: Reading) -> Iterator[tuple[list[str], float]]:
        latest_ns = self._now_ns() - SILENT_NS
        for target in self._targets:
            if target.received_ns is None or target.received_ns < latest_ns:
                continue
            for (engine, model), read in target.readings.items():
                value = read.get(reading, target.grown.get((engine, model), {}).get(reading))
                if value is not None:
                    yield [engine, target.name, model[:MAX_CHARACTERS]], value

    def _run(self, target: _Target) -> None:
        self._read(target)
        while not self._stopping.wait(PACE_S):
            self._read(target)

    def _read(self, target: _Target) -> None:
        try:
            text = self._fetch(target.url)
            readings = {} if self._receive(text) else engine_readings(text)
        except ScrapeError as error:
            target.failed += 1
            if str(error) != target.why_not:  # once, not every five seconds
                _log.warning("metrics of %s are not read: %s", target.url, error)
            target.why_not = str(error)
            return
        target.left_out = max(0, len(readings) - MAX_MODELS)
        readings = dict(sorted(readings.items())[:MAX_MODELS])
        target.grown = {
            of: _grown(target.readings.get(of, {}), now) for of, now in readings.items()
        }
        target.readings = readings
        target.received_ns = self._now_ns()
        target.why_not = ""
        for of, now in readings.items():
            self._note(target.name, of, {**target.grown[of], **now})


def _grown(before: Mapping[Reading, float], now: Mapping[Reading, float]) -> dict[Reading, float]:
    """The growth since the readings before; none where the engine was restarted or idle."""
    grown = {}
    for reading, (part, whole) in GROWN.items():
        parts, wholes = (now.get(one, 0.0) - before.get(one, 0.0) for one in (part, whole))
        if whole in before and wholes > 0 and parts >= 0:
            grown[reading] = parts / wholes
    if Reading.PREEMPTIONS in before and Reading.PREEMPTIONS in now:
        grown[Reading.PREEMPTED] = max(now[Reading.PREEMPTIONS] - before[Reading.PREEMPTIONS], 0.0)
    return grown


def _name(url: str, urls: Sequence[str]) -> str:
    """Host and port; with the path where several stand on one port."""
    netloc = urlsplit(url).netloc
    alone = sum(urlsplit(other).netloc == netloc for other in urls) == 1
    return netloc if alone else f"{netloc}{urlsplit(url).path}"


TIMEOUT_S: Final = 5.0  # in all, however slowly it comes
MAX_BYTES: Final = 16 << 20
MAX_ENGINES: Final = 64
_ACCEPT: Final = "text/plain;version=0.0.4"


def checked_engines(addresses: Sequence[str]) -> tuple[str, ...]:
    """Return addresses of engines' metrics, each once; `/metrics` where no path is named.

    Raises:
        SettingsError: One is no address, or there are too many.
    """
    found: dict[str, None] = {}
    for address in addresses:
        wrong = flaw(address)
        if wrong is not None:
            named = "an address" if "@" in address else repr(address)  # or a password is shown
            raise SettingsError(
                f"LATENCYTRACE_SCRAPE: {named} {wrong}: write http://HOST:8000/metrics"
            )
        parts = urlsplit(address)
        if "@" in parts.netloc:
            raise SettingsError(f"LATENCYTRACE_SCRAPE: {parts.hostname} is named with a password")
        found[address if parts.path.strip("/") else f"{address.rstrip('/')}/metrics"] = None
    if len(found) > MAX_ENGINES:
        raise SettingsError(
            f"LATENCYTRACE_SCRAPE names {len(found)} engines, more than {MAX_ENGINES}: let "
            "several services scrape, or Prometheus itself"
        )
    return tuple(found)


def fetch(url: str, timeout_s: float = TIMEOUT_S) -> str:
    """Return the text at an address.

    Raises:
        ScrapeError: There is none; the message says why.
    """
    deadline_s = time.monotonic() + timeout_s
    try:
        with exchange("GET", url, timeout_s, headers={"accept": _ACCEPT}) as answer:
            if not answer.is_success:
                raise ScrapeError(f"it answers {answer.status_code} {answer.reason_phrase}")
            return _read(answer, deadline_s)
    except OSError as error:
        raise ScrapeError(f"it does not answer: {error}") from None


def _read(answer: "httpx.Response", deadline_s: float) -> str:
    body = bytearray()
    for chunk in answer.iter_raw():
        body += chunk
        if len(body) > MAX_BYTES:
            raise ScrapeError(f"its answer is longer than {MAX_BYTES >> 20} MiB")
        if time.monotonic() > deadline_s:
            raise ScrapeError("its answer comes too slowly")
    return body.decode("utf-8", "replace")
