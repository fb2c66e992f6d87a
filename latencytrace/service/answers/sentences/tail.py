"""Traits of requests in words; the tail's cause, or the reason why none is named."""

from typing import Final

from latencytrace.model import Stage, semconv
from latencytrace.model.cohorts.breakdown import MOSTLY
from latencytrace.model.texts.units import duration, part_of, share
from latencytrace.service.answers.tail_documents import NeighboursDocument, TailDocument

_NAMED: Final = frozenset(
    {
        "input_tokens", "cached_input_tokens", "output_tokens", "batch_size", "queue_depth",
        "finish_reason",
    }
)  # fmt: skip


def trait_text(key: str, value: str) -> str:
    """A trait in words: `input tokens over 882`; what a user named, by that name."""
    if key == "cold_start":
        return "a cold start"
    if key == semconv.BATCH_SIZE:
        return f"batch size {value}"
    is_ours = key in _NAMED or key.startswith("engine_")
    return f"{key.replace('_', ' ') if is_ours else key} {value}"


NOTHING = (
    "Nothing sets slow requests apart: no attribute, and no stage that varies more than usual."
)
MOST_NAMED = 3
NAME_IT = 'A stage of your own around that code says more: with latencytrace.stage("NAME"):'
MIXED = "No single cause explains the slow requests: what they have in common is listed below."


def sentence(document: TailDocument) -> str:
    """The cause of the slowest requests, in one sentence."""
    if document["needed_requests"] is not None:
        return (
            f"Not enough requests to name a cause: {document['requests']:,} of at least "
            f"{document['needed_requests']:,}."
        )
    cause = document["cause"]
    if cause:
        return cause["sentence"]
    said = MIXED if document["attributes"] else NOTHING
    grown = max(document["stages"], key=lambda row: row["excess_share_ratio"] or 0, default=None)
    part = grown["excess_share_ratio"] if grown else None
    if grown is None or part is None or part < MOSTLY:
        return said
    where = f"Most of it, {share(part)}, is {grown['stage']}"
    return f"{said} {where}, which varies this much in all requests."


def next_step(document: TailDocument) -> str | None:
    """Advice for a cause that names no stage; None: the cause says enough."""
    cause = document["cause"]
    return NAME_IT if cause and cause["stage"] == Stage.UNATTRIBUTED else None


def beside(found: NeighboursDocument) -> str:
    """Cost of others' work in shared steps to the tail, and the requests that caused it."""
    text = (
        f"Others' work in shared steps: {duration(found['tail_mean_ns'])} of a slow request, "
        f"{duration(found['reference_mean_ns'])} of a typical one"
    )
    if found["low_ns"] <= 0:
        return f"{text}; that may be chance."
    part = found["excess_share_ratio"]
    text += "." if part is None else f", {part_of(part)} of the extra time."
    whose = (
        f"{trait_text(one['key'], one['value'])}: {share(one['cost_share_ratio'])} of it, by "
        f"{share(one['member_share_ratio'])} of the others"
        for one in found["culprits"][:MOST_NAMED]
    )
    named = "; ".join(whose)
    return f"{text} {named}." if named else text
