"""Ray Serve, with a tracing exporter: all spans a server's.

`route_to_replica` waits for a replica that has room, and ends when it has taken the
request; the replica's own span is its child and goes on.
"""

from latencytrace.analysis.dialects.engine import Engine
from latencytrace.model import Span, Stage

_ROUTE = "route_to_replica"


def _stage(span: Span) -> Stage:
    return Stage.QUEUE if span.name.startswith(_ROUTE) else Stage.UNATTRIBUTED


ENGINE = Engine(
    name="Ray Serve",
    scopes=("ray.serve",),
    knows=lambda span: bool(span.scope) or span.name.startswith(_ROUTE),
    stage=_stage,
    hands_over=(_ROUTE,),
)
