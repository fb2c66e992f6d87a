"""The service's own log."""

import logging
from typing import Self

from latencytrace.errors import SettingsError
from latencytrace.model.texts.escaped import escaped
from latencytrace.service.sink import Notification, Transition

_log = logging.getLogger(__name__)


class LogSink:
    """Writes an alert's beginning and end to the log, as a warning."""

    repeat_s: float | None = None
    ends = 1

    @classmethod
    def open(cls, address: str) -> Self:
        if address:
            raise SettingsError("it has no address: write `log` alone")
        return cls()

    def send(self, notice: Notification, now_ns: int) -> None:
        del now_ns
        alert = notice.alert
        level = logging.INFO if notice.transition is Transition.ENDED else logging.WARNING
        lines = [alert["summary"], *alert["description"]]
        lines += [f"Slow: {request['url']} {request['summary']}" for request in alert["slowest"]]
        said = "\n  ".join(map(escaped, [*lines, f"See: {alert['url']}"]))
        _log.log(level, "%s %s: %s", alert["labels"]["severity"], notice.transition, said)
