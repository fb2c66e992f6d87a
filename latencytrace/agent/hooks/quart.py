"""Routes of Quart; its server's hook times the requests."""

from typing import Any

from latencytrace.agent.timing.hook import Arguments, Hook, Replacement
from latencytrace.agent.toolkit.http.routes import noted_routes


def _template(arguments: Arguments, _: object) -> object:
    context: Any = arguments["self"]
    rule = context.request_websocket.url_rule
    return None if rule is None else rule.rule


class QuartHook(Hook):
    """Notes the route that is found for a request."""

    requires = ("quart >= 0.19",)
    patches = (
        Replacement(
            "quart.ctx", "_BaseRequestWebsocketContext.match_request", noted_routes(_template)
        ),
    )
