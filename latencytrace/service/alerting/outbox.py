"""Sends alerts to sinks, at least once each, however long a sink refuses or hangs."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from latencytrace.errors import SinkError
from latencytrace.model import Alert
from latencytrace.service.alerting.document import AlertLinks, alert_document
from latencytrace.service.alerting.queue import SinkQueue
from latencytrace.service.objectives.memory import ObjectiveMemory
from latencytrace.service.sink import Notification, Sink, Transition

_log = logging.getLogger(__name__)

COPY_EVERY_NS = 60 * 10**9  # between the copies of an end
_LOOK_S = 1.0  # for what is due
_LAST_S = 2.0  # that a sink has at the end; what it did not take is sent after the next start

# Raised by a sink that is at fault; one of them must not stop the others.
_FAULTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip


class Outbox:
    """A queue and a thread for each sink; what waits is on disk, too.

    Args:
        sinks: By name.
        now_ns: The evaluator's clock.
        wall_ns: The time of day as others have it, which may be set back.
        chance: A number between 0 and 1.
    """

    def __init__(
        self,
        sinks: Mapping[str, Sink],
        links: AlertLinks,
        memory: ObjectiveMemory,
        now_ns: Callable[[], int],
        wall_ns: Callable[[], int],
        chance: Callable[[], float],
    ) -> None:
        self._sinks = sinks
        self._links = links
        self._memory = memory
        self._now_ns = now_ns
        self._wall_ns = wall_ns
        self._queues = {name: SinkQueue(chance) for name in sinks}
        self._repeated: dict[tuple[str, str], int] = {}  # (sink, alert) → how often by now
        self._changed = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(
                target=self._run, args=(name,), name=f"latencytrace-{name}", daemon=True
            )
            for name in sinks
        ]
        self.sent = dict.fromkeys(sinks, 0)
        self.failed = dict.fromkeys(sinks, 0)
        self._take_up()

    def start(self) -> None:
        """Begin to send."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop; what was not taken by now is sent after the next start."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_LAST_S)

    def notifications(
        self, changed: Iterable[Alert], amended: Iterable[Alert] = ()
    ) -> list[Notification]:
        """Make the notifications of alerts that began or ended, or have another cause."""
        now_ns = self._now_ns()
        made = [
            notification
            for alert in changed
            for name, sink in self._receivers(alert).items()
            for notification in self._of_change(alert, name, sink, now_ns)
        ]
        key = f"amended:{now_ns // 10**9}"
        return made + [
            self._notification(alert, name, Transition.CONTINUES, key, now_ns)
            for alert in amended
            for name in self._receivers(alert)
        ]

    def add(self, notifications: Sequence[Notification]) -> None:
        """Send these, once they are kept."""
        if not notifications:
            return
        obsolete = []
        with self._changed:
            for notification in notifications:
                obsolete += self._queues[notification.sink].add([notification])
            self._changed.notify_all()
        if obsolete:
            self._memory.forget(obsolete)

    def repeat(self, firing: Iterable[Alert]) -> None:
        """Send again what still fires, where a sink wants that; kept nowhere."""
        now_ns = self._now_ns()
        repeats: list[Notification] = []
        known: set[tuple[str, str]] = set()
        for alert in firing:
            for name, sink in self._receivers(alert).items():
                # Send again to stateless receivers; skip what was acknowledged.
                is_for_people = sink.ends == 1
                if sink.repeat_s is None or (alert.acknowledged and is_for_people):
                    continue
                known.add((name, alert.fingerprint))
                turn = int((now_ns - alert.started_ns) / 1e9 // sink.repeat_s)
                # The first turn that is seen was sent by the process before, or is the first.
                if turn > self._repeated.setdefault((name, alert.fingerprint), turn):
                    self._repeated[name, alert.fingerprint] = turn
                    key = f"continues:{turn}"
                    repeats.append(
                        self._notification(alert, name, Transition.CONTINUES, key, now_ns)
                    )
        self._repeated = {which: turn for which, turn in self._repeated.items() if which in known}
        with self._changed:
            new = [one for one in repeats if not self._queues[one.sink].has(one.about)]
        self.add(new)

    def _receivers(self, alert: Alert) -> Mapping[str, Sink]:
        """The sinks that an alert is for: the ones that its objective names, if they are there."""
        named = alert.standing.objective.receivers
        return {name: self._sinks[name] for name in named if name in self._sinks} or self._sinks

    def waiting(self) -> Mapping[str, int]:
        """Count the notifications that wait, by sink."""
        return {name: len(queue) for name, queue in self._queues.items()}

    def dropped(self) -> Mapping[str, int]:
        """Count the notifications that were given up, by sink."""
        return {name: queue.dropped for name, queue in self._queues.items()}

    def step(self, name: str) -> bool:
        """Send the next notification that is due to a sink.

        Returns:
            Whether there was one.
        """
        with self._changed:
            notification = self._queues[name].due(self._now_ns())
        if notification is None:
            return False
        try:
            self._sinks[name].send(notification, self._wall_ns())
        except (SinkError, *_FAULTS) as error:
            self._refused(notification, error)
        else:
            self.sent[name] += 1
            with self._changed:
                self._queues[name].sent(notification)
            self._memory.forget([notification])
        return True

    def _refused(self, notification: Notification, error: BaseException) -> None:
        self.failed[notification.sink] += 1
        after_s = error.retry_after_s if isinstance(error, SinkError) else None
        with self._changed:
            queue = self._queues[notification.sink]
            tried_again = queue.failed(notification, self._now_ns(), after_s)
        said = str(error) if isinstance(error, SinkError) else repr(error)
        if tried_again:
            _log.warning("alert not delivered, tried again: %s: %s", notification.sink, said)
            return
        _log.error("alert given up after a day: %s: %s", notification.sink, said)
        self._memory.forget([notification])

    def _run(self, name: str) -> None:
        while not self._stopping:
            if not self.step(name):
                with self._changed:
                    if not self._stopping:
                        self._changed.wait(_LOOK_S)

    def _of_change(self, alert: Alert, name: str, sink: Sink, now_ns: int) -> list[Notification]:
        if alert.ended_ns is None:
            return [self._notification(alert, name, Transition.BEGAN, "began", now_ns)]
        keys = ["ended", *(f"ended:{copy}" for copy in range(2, sink.ends + 1))]
        return [
            self._notification(alert, name, Transition.ENDED, key, now_ns + place * COPY_EVERY_NS)
            for place, key in enumerate(keys)
        ]

    def _notification(
        self, alert: Alert, name: str, transition: Transition, key: str, due_ns: int
    ) -> Notification:
        return Notification(
            key=f"{alert.fingerprint}:{key}",
            sink=name,
            transition=transition,
            alert=alert_document(alert, self._links),
            due_ns=due_ns,
        )

    def _take_up(self) -> None:
        """Send what an earlier process left, but for sinks that are gone."""
        left = self._memory.notifications()
        gone = [notification for notification in left if notification.sink not in self._sinks]
        if gone:
            _log.warning("%d notifications to sinks that are gone are not sent", len(gone))
            self._memory.forget(gone)
        self.add([notification for notification in left if notification.sink in self._sinks])


_PREFIX = "latencytrace_service_notices"


class NotificationMetrics(Collector):
    """Reads an outbox whenever the metrics are read."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def collect(self) -> Iterator[Metric]:
        counters = (
            ("sent", "Notifications of alerts that a sink took.", self._outbox.sent),
            ("refused", "Tries that a sink did not take; tried again.", self._outbox.failed),
            ("dropped", "Those given up, after a day or beyond 1000.", self._outbox.dropped()),
        )
        for name, text, counts in counters:
            counter = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=("sink",))
            for sink, count in counts.items():
                counter.add_metric([sink], count)
            yield counter
        waiting = GaugeMetricFamily(
            f"{_PREFIX}_waiting", "Notifications not taken by a sink yet.", labels=("sink",)
        )
        for sink, count in self._outbox.waiting().items():
            waiting.add_metric([sink], count)
        yield waiting
