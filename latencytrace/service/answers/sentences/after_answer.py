"""Sentence on the work of requests after their answers."""

from collections.abc import Mapping
from typing import Final

from latencytrace.model import Stage
from latencytrace.model.texts.units import count, duration
from latencytrace.service.answers.documents import WorkAfterDocument

MOST_NAMED: Final = 4


def after_answers(found: WorkAfterDocument | None, requests: int) -> str | None:
    """Say of a cohort how many requests went on, for how long and with what.

    Args:
        found: Of its breakdown; None: no request went on, or an older service says nothing.

    Returns:
        `8 of 8 requests went on for 480 ms after their answer: remote_model 467 ms, ...`;
        None: no request did.
    """
    if found is None:
        return None
    after = "on average after their answer" if found["requests"] > 1 else "after its answer"
    return (
        f"{found['requests']:,} of {count(requests, 'request')} went on for "
        f"{duration(found['mean_ns'])} {after}: {_stages(found['stages'])}."
    )


def after_answer(after: Mapping[Stage, int]) -> str | None:
    """Say of a request how long it went on, and with what; None: it did not."""
    if not after:
        return None
    return (
        f"It went on for {duration(sum(after.values()))} after its answer: {_stages(after)}. "
        "No part of the ledger."
    )


def _stages(times_ns: Mapping[Stage, int]) -> str:
    longest = sorted(times_ns.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{stage} {duration(length_ns)}" for stage, length_ns in longest[:MOST_NAMED]]
    rest_ns = sum(length_ns for _, length_ns in longest[MOST_NAMED:])
    return ", ".join([*named, *([f"others {duration(rest_ns)}"] if rest_ns else [])])
