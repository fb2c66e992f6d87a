"""Modular MAX: a span a request with its tokens, and one for each of its two phases.

The prefill begins when the scheduler takes the request in, so it holds the queue.
"""

from latencytrace.analysis.dialects.engine import Engine
from latencytrace.model import Stage

_STAGES = {
    "max.request": Stage.UNATTRIBUTED,
    "max.phase.prefill": Stage.PREFILL,
    "max.phase.decode": Stage.DECODE,
    "max.batch": Stage.FORWARD,  # a pass that serves many requests, in a trace of its own
}

ENGINE = Engine(
    name="Modular MAX",
    scopes=("max.serve",),
    knows=lambda span: bool(span.scope) or span.name in _STAGES,
    stages=_STAGES,
)
