"""Routes of Falcon, Quart and Django; the hooks of their servers time the requests."""

from collections.abc import Callable
from typing import Any

from opentelemetry.trace import get_current_span

from latencytrace.agent.timing.hook import Arguments, Hook, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import Build, after
from latencytrace.agent.toolkit.http.server import is_served, request_served
from latencytrace.model import semconv


def noted_routes(template: Callable[[Arguments, Any], object]) -> Build:
    """Build what notes a route on the current request, once the framework has found it.

    Args:
        template: From the arguments and the result of the call; None: no route matched.
    """

    def note(_: Recorder, arguments: Arguments, result: Any) -> None:
        request = request_served()
        found = template(arguments, result) if request is not None or is_served() else None
        if found is None:
            return
        route = f"/{str(found).removeprefix('/')}"
        if request is not None:
            request.note_route(request.prefix() + route)
            return
        span: Any = get_current_span()  # of another library
        span.set_attribute(semconv.HTTP_ROUTE, route)
        span.update_name(f"{span.attributes.get(semconv.HTTP_REQUEST_METHOD, 'HTTP')} {route}")

    return after("noting a route", note)


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
