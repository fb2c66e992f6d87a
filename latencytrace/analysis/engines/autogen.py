"""AutoGen: its runtime hands messages from agent to agent, which explains nothing.

The names of these spans hold ids. Calls of models have no spans of their own.
"""

from latencytrace.analysis.dialects.engine import Engine
from latencytrace.model import Span, Stage

_SCOPE = "autogen "  # and the name of the runtime


def _title(span: Span) -> str:
    """`autogen publish`: what follows is the receiver, with an id."""
    return " ".join(span.name.split(maxsplit=2)[:2])


ENGINE = Engine(
    name="AutoGen",
    scopes=(_SCOPE,),
    stage=lambda _: Stage.UNATTRIBUTED,
    title=_title,
)
