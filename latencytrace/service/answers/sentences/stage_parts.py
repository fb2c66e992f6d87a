"""Parts of a stage by name: pauses of the process, and the stages that the user named."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from latencytrace.model import Stage
from latencytrace.model.cohorts.breakdown import MOSTLY, Breakdown
from latencytrace.model.texts.escaped import named
from latencytrace.service.answers.documents import SegmentDocument, StageDocument

MOST_NAMED: Final = 5
OTHERS: Final = "others"


def stage_parts(
    segments: Sequence[SegmentDocument],
    stage: Stage,
    start_ns: int = 0,
    end_ns: int | None = None,
) -> list[tuple[str, int]]:
    """The names of a request's segments of a stage, and how long each held it up.

    Args:
        start_ns: From when they count.
        end_ns: Until when; None: to the end.

    Returns:
        The longest first; those beyond a few are one, named others.
    """
    found = Counter[str]()
    for segment in segments:
        until_ns = segment["end_ns"] if end_ns is None else min(segment["end_ns"], end_ns)
        length_ns = until_ns - max(segment["start_ns"], start_ns)
        if segment["stage"] == stage and length_ns > 0:
            found[segment["name"]] += length_ns
    longest = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    rest_ns = sum(length_ns for _, length_ns in longest[MOST_NAMED:])
    return longest[:MOST_NAMED] + ([(OTHERS, rest_ns)] if rest_ns else [])


def others_ns(row: StageDocument) -> int:
    """The mean time of a stage that none of its parts has, but for what is rounded.

    An older service knows of no parts.
    """
    parts = row.get("parts", [])
    rest_ns = row["mean_ns"] - sum(part["mean_ns"] for part in parts)
    return rest_ns if parts and rest_ns > len(parts) else 0


def part_means(found: Breakdown, stage: Stage) -> dict[str, float]:
    rows = (row for row in found.stages if row.stage is stage)
    return {part.name: part.mean_ns for row in rows for part in row.parts}


def moved_part(
    before_ns: Mapping[str, float], after_ns: Mapping[str, float], shift_ns: float
) -> str | None:
    """The part which most of a stage's shift is; None: no single one.

    Args:
        before_ns: The mean time of each part before.
        after_ns: Time by part after the change.
        shift_ns: By how much the stage takes longer; below 0: shorter.
    """
    if not shift_ns:
        return None
    shares = {
        name: (after_ns.get(name, 0.0) - before_ns.get(name, 0.0)) / shift_ns
        for name in (*before_ns, *after_ns)
    }
    name = max(shares, key=shares.__getitem__, default=None)
    return named(name) if name is not None and shares[name] >= MOSTLY else None
