"""Any program that takes JSON by POST."""

from typing import Self

from latencytrace.service.net.http_post import checked_address, post_json
from latencytrace.service.sink import Notification

_HOUR_S = 3600.0


class WebhookSink:
    """Posts `{"version": 1, "transition": …, "alert": …}` with an `Idempotency-Key`."""

    repeat_s: float | None = 4 * _HOUR_S
    ends = 1

    def __init__(self, url: str) -> None:
        self._url = url

    @classmethod
    def open(cls, address: str) -> Self:
        return cls(checked_address(address, "webhook=https://HOST/PATH"))

    def send(self, notice: Notification, now_ns: int) -> None:
        del now_ns
        document = {"version": 1, "transition": notice.transition, "alert": notice.alert}
        post_json(self._url, document, {"Idempotency-Key": notice.key})
