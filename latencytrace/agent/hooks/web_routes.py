"""Routes of Falcon, Quart and Django; the hooks of their servers time the requests."""

from typing import Any

from latencytrace.agent.timing.hook import Arguments, Hook, Replacement
from latencytrace.agent.toolkit.http.routes import noted_routes


class FalconHook(Hook):
    """Notes the route that is found for a request, over WSGI or ASGI."""

    requires = ("falcon >= 3.1",)
    patches = (
        Replacement("falcon.app", "App._get_responder", noted_routes(lambda _, found: found[3])),
    )


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


class DjangoHook(Hook):
    """Notes the route that is found for a request, over WSGI or ASGI."""

    requires = ("django >= 4.2",)
    patches = (
        Replacement(
            "django.core.handlers.base",
            "BaseHandler.resolve_request",
            noted_routes(lambda _, match: match.route),
        ),
    )
