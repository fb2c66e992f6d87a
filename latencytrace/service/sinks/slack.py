"""A channel of Slack, or of what takes its incoming webhooks."""

from typing import Self

from latencytrace.service.answers.documents import AlertDocument
from latencytrace.service.net.http_post import checked_address, post_json
from latencytrace.service.sink import Notification, Transition

_HOUR_S = 3600.0
_MOST_CHARACTERS = 2900  # a block takes 3000
_SIGNS = {
    Transition.BEGAN: ":rotating_light:",
    Transition.CONTINUES: ":hourglass:",
    Transition.ENDED: ":white_check_mark:",
}


class SlackSink:
    """Posts a message: the summary, the cause, three requests.

    Args:
        url: Address of the incoming webhook; a secret, since it allows posting.
    """

    repeat_s: float | None = 4 * _HOUR_S
    ends = 1

    def __init__(self, url: str) -> None:
        self._url = url

    @classmethod
    def open(cls, address: str) -> Self:
        return cls(checked_address(address, "slack=https://hooks.slack.com/services/…"))

    def send(self, notice: Notification, now_ns: int) -> None:
        del now_ns
        text = _whole_lines(_message(notice.transition, notice.alert))
        block = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
        headers = {"Idempotency-Key": notice.key}
        post_json(
            self._url, {"text": _escaped(notice.alert["summary"]), "blocks": [block]}, headers
        )


def _message(transition: Transition, alert: AlertDocument) -> str:
    severity = alert["labels"]["severity"]
    lines = [f"{_SIGNS[transition]} *{severity} {transition}*: {_escaped(alert['summary'])}"]
    if transition is not Transition.ENDED:
        lines += map(_escaped, alert["description"])
        lines += [
            f"• <{request['url']}|{request['trace_id'][:8]}> {_escaped(request['summary'])}"
            for request in alert["slowest"]
        ]
    return "\n".join([*lines, f"<{alert['url']}|See this time>"])


def _whole_lines(text: str) -> str:
    """As many lines as a block takes: half a link or half an escape would show as such."""
    if len(text) <= _MOST_CHARACTERS:
        return text
    lines, _, _ = text[: _MOST_CHARACTERS + 1].rpartition("\n")
    return lines or text[:_MOST_CHARACTERS]


def _escaped(text: str) -> str:
    """Slack's three control characters."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
