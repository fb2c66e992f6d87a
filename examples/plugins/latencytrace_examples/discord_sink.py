"""A channel of Discord: the example of `docs/pages/write-a-sink.md`."""

from typing import Self

from latencytrace.service.net.http_post import checked_address, post_json
from latencytrace.service.sink import Notification, Transition

MOST_CHARACTERS = 2000  # Discord refuses longer messages


class DiscordSink:
    """Posts a message: the summary, the cause, the slowest requests.

    Args:
        url: Of the webhook; whoever knows it can post.
    """

    repeat_s: float | None = 4 * 3600.0
    ends = 1

    def __init__(self, url: str) -> None:
        self._url = url

    @classmethod
    def open(cls, address: str) -> Self:
        """See `Sink.open`."""
        return cls(checked_address(address, "discord=https://discord.com/api/webhooks/ID/TOKEN"))

    def send(self, notification: Notification, now_ns: int) -> None:
        """See `Sink.send`."""
        del now_ns
        alert = notification.alert
        lines = [
            f"**{alert['labels']['severity']} {notification.transition}**: {alert['summary']}"
        ]
        if notification.transition is not Transition.ENDED:
            lines += alert["description"]
            lines += [f"- <{one['url']}> {one['summary']}" for one in alert["slowest"]]
        text = "\n".join([*lines, f"<{alert['url']}>"])[:MOST_CHARACTERS]
        # Names of routes and services come from senders: none of them calls anybody here.
        document = {"content": text, "allowed_mentions": {"parse": []}}
        post_json(self._url, document, {"Idempotency-Key": notification.key})
