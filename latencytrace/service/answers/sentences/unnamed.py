"""The time of a cohort without a stage of its own: unattributed, or of spans that are `other`."""

from typing import Final

from latencytrace.model import Stage
from latencytrace.service.answers.documents import BreakdownDocument

MOSTLY: Final = 0.5
_UNATTRIBUTED: Final = "time that no span explains (unattributed)"
_OTHER: Final = "time of spans that cannot be placed in a stage (other)"


def unnamed_stages(document: BreakdownDocument) -> tuple[Stage, ...]:
    """The one of both stages that has more than half of the time; both, where only both have."""
    ratios = {row["stage"]: row["share_ratio"] for row in document["stages"]}
    found = {stage: ratios.get(stage, 0.0) for stage in (Stage.UNATTRIBUTED, Stage.OTHER)}
    alone = tuple(stage for stage, ratio in found.items() if ratio > MOSTLY)
    return alone or (tuple(found) if sum(found.values()) > MOSTLY else ())


def unnamed_sentence(stages: tuple[Stage, ...]) -> str:
    """Say what more than half of the time is.

    Args:
        stages: At least one of both.
    """
    texts = {Stage.UNATTRIBUTED: _UNATTRIBUTED, Stage.OTHER: _OTHER}
    return f"More than half is {' or '.join(texts[stage] for stage in stages)}."
