"""The stage that a name of the user's means."""

from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.stage import Stage, stage_named


def named_stage(name: str) -> tuple[Stage, dict[str, AttributeValue]]:
    """Return the stage that a name means, and what keeps a name of the user's own."""
    stage = stage_named(name) or Stage.APPLICATION
    return stage, {semconv.STAGE_NAME: name} if stage is Stage.APPLICATION else {}
