"""Routes of Falcon; its server's hook times the requests."""

from latencytrace.agent.timing.hook import Hook, Replacement
from latencytrace.agent.toolkit.http.routes import noted_routes


class FalconHook(Hook):
    """Notes the route that is found for a request, over WSGI or ASGI."""

    requires = ("falcon >= 3.1",)
    patches = (
        Replacement("falcon.app", "App._get_responder", noted_routes(lambda _, found: found[3])),
    )
