"""Routes of Django; its server's hook times the requests."""

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.http.routes import noted_routes


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
