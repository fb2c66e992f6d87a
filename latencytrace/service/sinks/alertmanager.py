"""Prometheus's Alertmanager, by its API version 2."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from latencytrace.errors import SettingsError
from latencytrace.service.answers.documents import AlertDocument
from latencytrace.service.net.http_post import checked_address, post_json
from latencytrace.service.sink import Notification, Transition

_LASTS = timedelta(minutes=4)  # without a further post, as Prometheus has it
_FORM: Final = "alertmanager=http://HOST:9093"
_EVALUATOR: Final = re.compile(r"evaluator=([A-Za-z0-9._-]{1,64})")
_RULES: Final = "prometheus"  # the evaluator of the alerts of Prometheus' rules


class AlertmanagerSink:
    """Posts what fires every minute, as Prometheus does: it forgets alerts at a restart.

    Labels stay the same while an alert fires, or it would notify anew; numbers are
    annotations, which a later post brings up to date without a notification. Services that
    watch the same objectives have a name each, or they would end each other's alerts.

    Args:
        url: Base address of the Alertmanager.
        evaluator: The name of this service there; None: it is alone.
    """

    repeat_s: float | None = 60.0
    ends = 3

    def __init__(self, url: str, evaluator: str | None = None) -> None:
        self._url = f"{url}/api/v2/alerts"
        self._labels = {} if evaluator is None else {"evaluator": evaluator}

    @classmethod
    def open(cls, address: str) -> Self:
        base, _, asked = checked_address(address, _FORM).partition("?")
        named = _EVALUATOR.fullmatch(asked)
        if "#" in address or bool(asked) != bool(named) or address.endswith("?"):
            raise SettingsError(
                f"its address is more than a base address: write {_FORM}, or where other services "
                f"watch the same objectives {_FORM}?evaluator=NAME, of letters, digits, ., _ and -"
            )
        if named is not None and named[1] == _RULES:
            raise SettingsError(
                f"{_RULES} is the evaluator of Prometheus' rules: name this service otherwise"
            )
        return cls(base.rstrip("/"), None if named is None else named[1])

    def send(self, notice: Notification, now_ns: int) -> None:
        alert = notice.alert
        # Without a start it would take the end for one, which lies in the future. Where the
        # clock was set back, moments of before must not lie there, either.
        started = _moment(min(int(alert["started"]), now_ns))
        ends = _moment(now_ns) + _LASTS
        if notice.transition is Transition.ENDED and alert["ended"] is not None:
            ends = max(_moment(min(int(alert["ended"]), now_ns)), started)
        post_json(
            self._url,
            [
                {
                    "labels": {**alert["labels"], **self._labels},
                    "annotations": _annotations(alert),
                    "startsAt": started.isoformat(),
                    "endsAt": ends.isoformat(),
                    "generatorURL": alert["url"],
                }
            ],
        )


def _annotations(alert: AlertDocument) -> dict[str, str]:
    annotations = {
        "summary": alert["summary"],
        "description": "\n".join(alert["description"]),
        "dashboard_url": alert["url"],
        "version": alert["version"] or "",
    }
    if alert["guilty"] is not None:
        annotations["guilty_stage"] = alert["guilty"]["stage"]
        annotations["guilty_share"] = f"{alert['guilty']['share_ratio']:.2f}"
    if alert["failing_call"] is not None:
        annotations["failing_call"] = alert["failing_call"]["name"]
    said = alert.get("acknowledged")  # which an earlier version did not keep
    if said is not None:
        annotations["acknowledged_by"] = said["by"] or "somebody"
    if alert["budget_left_ratio"] is not None:
        annotations["budget_left"] = f"{alert['budget_left_ratio']:.4f}"
    for place, request in enumerate(alert["slowest"], 1):
        annotations[f"trace_{place}"] = f"{request['url']} {request['summary']}"
    return {name: text for name, text in annotations.items() if text}


def _moment(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // 10**9, UTC)
