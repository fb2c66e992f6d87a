"""Certificates that a request loads, as for an HTTP client that is made anew in each."""

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import first_of_each_span
from latencytrace.model.stage import Stage


class SslHook(Hook):
    """Times the slow part of making a TLS context, within a request but outside of a call."""

    patches = tuple(
        first_of_each_span(
            Patch(
                "ssl",
                f"SSLContext.{method}",
                Stage.NETWORK,
                name="load TLS certificates",
                within=True,
            )
        )
        for method in ("load_verify_locations", "load_default_certs")
    )
