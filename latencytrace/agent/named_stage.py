"""The stage that a name of the user's means."""

from latencytrace.model import semconv
from latencytrace.model.span import AttributeValue
from latencytrace.model.stage import Stage

_NAMED = {stage.value: stage for stage in Stage if stage is not Stage.UNATTRIBUTED}


def named_stage(name: str) -> tuple[Stage, dict[str, AttributeValue]]:
    """Return the stage that a name means, and what keeps a name of the user's own."""
    stage = _NAMED.get(name, Stage.APPLICATION)
    return stage, {semconv.STAGE_NAME: name} if stage is Stage.APPLICATION else {}
