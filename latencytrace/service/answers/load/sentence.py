"""Sentence on how much a service keeps up with."""

from latencytrace.model.texts.units import count, duration, grouped, objective_text, per_s, share
from latencytrace.service.answers.load.capacity_documents import (
    CapacityDocument,
    GrowthDocument,
    LimitDocument,
    ReplicasDocument,
)

MORE = 1.25  # times what is served at the knee, as a batcher does that is pressed harder


def sentence(document: CapacityDocument) -> str:
    """Say where the knee is and what queues first, or why neither is known."""
    if document["needed_requests"] is not None:
        return (
            f"Not enough requests to tell latency against load: {document['requests']:,} of at "
            f"least {document['needed_requests']:,}."
        )
    return f"{_knee(document)}{_first(document)}"


def _knee(document: CapacityDocument) -> str:
    found = document["knee"]
    if found is None and len(document["levels"]) == 1 and document["recorded_requests"]:
        return "Too small a share of the requests was recorded to tell how many were at once."
    if found is None:
        most = document["levels"][-1]["concurrency"] if document["levels"] else 0
        return f"No saturation found up to {count(most, 'concurrent request')}."
    served = per_s(found["served_per_second"])
    knee = f"Knee: {grouped(found['concurrency'])} concurrent requests, {served}."
    beyond = [one for one in document["levels"] if one["concurrency"] > found["concurrency"]]
    most_per_s = max((one["served_per_second"] for one in beyond), default=0.0)
    if most_per_s < MORE * found["served_per_second"]:
        return f"{knee} Beyond it hardly more are served, and each takes longer."
    return f"{knee} Beyond it more are served, up to {per_s(most_per_s)}, but each takes longer."


def _first(document: CapacityDocument) -> str:
    found = document["growth"]
    if found is None or found["first_stage"] is None:
        return ""
    at = count(found["first_concurrency"] or 0, "concurrent request")
    first = f" {found['first_stage']} grows first, from {at} on"
    stage = next((one for one in found["stages"] if one["stage"] == found["first_stage"]), None)
    if stage is None or stage["growth_ns"] <= 0:  # it grew in between, and is gone where most are
        return f"{first}."
    whole_ns = sum(max(one["growth_ns"], 0) for one in found["stages"])
    few, many = load_texts(found)
    return (
        f"{first}: {duration(stage['calm_mean_ns'])} at {few}, "
        f"{duration(stage['crowded_mean_ns'])} at {many}, "
        f"{share(stage['growth_ns'] / whole_ns)} of the extra time."
    )


def load_texts(found: GrowthDocument) -> tuple[str, str]:
    """The loads that are compared: `4 or fewer` concurrent requests, and `6 or more`."""
    return f"{found['calm_to']:,} or fewer", f"{found['crowded_from']:,} or more"


def replicas_text(found: ReplicasDocument | None) -> str:
    """Say how many replicas a rate asks for; empty: no knee is proven."""
    if found is None:
        return ""
    low, high = found["low"], found["high"]
    interval = "" if low == high else f" ({low} to {high})"
    return (
        f"{per_s(found['requests_per_second'])} ask for {count(found['count'], 'replica')}"
        f"{interval}, each with {per_s(found['each_per_second'])} at its knee."
    )


def limit_text(limit: LimitDocument) -> str:
    """A limit and the route it is for: `duration within 2.00 s (POST /chat)`."""
    whom = [limit[name] for name in ("route", "model", "version")]
    text = objective_text(limit["measure"], limit["at_most_ns"])
    named = ", ".join(filter(None, whom))
    return f"{text} ({named})" if named else text


def range_text(low: int, high: int) -> str:
    """Numbers from one to another: `8`, `9 … 12`."""
    return f"{low:,}" if low == high else f"{low:,} … {high:,}"
