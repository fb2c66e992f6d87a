"""CrewAI's own telemetry, which its versions before 1.15.15 send where the program's spans go.

Its spans are marks of what was made and used, and one for each task, none of them the current
one: what runs inside a task arrives beside it.
"""

from latencytrace.analysis.dialects.engine import Asked, Engine
from latencytrace.model import Stage

_SCOPE = "crewai.telemetry"

ENGINE = Engine(
    name="CrewAI",
    scopes=(_SCOPE,),
    knows=lambda span: span.scope == _SCOPE,
    stage=lambda _: Stage.UNATTRIBUTED,
    asks=Asked(words=frozenset({_SCOPE})),
    never_current=True,
)
