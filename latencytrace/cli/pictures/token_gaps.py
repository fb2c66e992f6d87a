"""The lines of `latencytrace trace` about the times between tokens."""

from rich.console import RenderableType
from rich.text import Text

from latencytrace.model import FirstTokenOf, Stage
from latencytrace.model.texts.units import count, duration
from latencytrace.service.answers.documents import RequestDocument, StallDocument
from latencytrace.service.answers.sentences.stage_parts import stage_parts

MOST_STALLS = 10
MEANINGS = {
    "respond": "respond: the caller took no more",
    "runtime": "runtime: garbage collection and the like",
    "prefill": "prefill: another prompt was read first",
    "preemption": "preemption: the engine set it aside",
    "unknown": "unknown: nothing that was traced explains it",
}


def first_token(request: RequestDocument) -> list[str]:
    """The time to the first token, and where it was taken; nothing where it is unknown."""
    first_ns, models_ns = (
        request["time_to_first_token_ns"],
        request["model_time_to_first_token_ns"],
    )
    if first_ns is None:
        return []
    named = f"first token {duration(first_ns)}"
    if request["time_to_first_token_of"] == FirstTokenOf.MODEL:
        return [f"{named} (the model's, not the caller's)"]
    return [named if models_ns is None else f"{named} (the model's {duration(models_ns)})"]


def between_tokens(request: RequestDocument) -> list[RenderableType]:
    """Quantiles of the gaps, and each stall with its label; nothing where they are unknown."""
    quantiles = request["inter_token_ns"]
    if quantiles is None:
        return []
    lengths = ", ".join(
        f"{name} {duration(value)}"
        for name, value in (
            ("p50", quantiles["p50"]),
            ("p99", quantiles["p99"]),
            ("longest", quantiles["max"]),
        )
    )
    found = request["stalls"] or []
    lines = [Text(f"between tokens: {lengths}", "dim")]
    if found:
        lines.append(Text(f"{count(len(found), 'stall')}:", "yellow"))
    lines += [
        Text(
            f"  {duration(stall['duration_ns'])} at {duration(stall['start_ns'])}, "
            f"{_meaning(request, stall)}",
            "yellow",
        )
        for stall in found[:MOST_STALLS]
    ]
    if len(found) > MOST_STALLS:
        lines.append(Text(f"  and {len(found) - MOST_STALLS} more", "yellow"))
    return ["", *lines]


def _meaning(request: RequestDocument, stall: StallDocument) -> str:
    """The label of a stall in words; of `runtime`, what most of it was."""
    start_ns = stall["start_ns"]
    end_ns = start_ns + stall["duration_ns"]
    parts = stage_parts(request["segments"], Stage.RUNTIME, start_ns, end_ns)
    if stall["label"] == Stage.RUNTIME and parts:
        return f"{Stage.RUNTIME}: {parts[0][0]}"
    return MEANINGS.get(stall["label"], stall["label"])
