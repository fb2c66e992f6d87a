"""The assumptions of a forecast."""

from collections.abc import Iterator, Mapping
from typing import cast

from latencytrace.model.texts.units import count, share
from latencytrace.service.answers.compare_documents import ForecastDocument, WhatifDocument
from latencytrace.service.answers.sentences.weights import recorded_note


def sentence(document: WhatifDocument, premise: str) -> str:
    """The forecast in one sentence.

    Args:
        document: Of at least one request.
        premise: What is supposed, as `retrieve were 50 % faster`.
    """
    forecasts: Mapping[str, object] = document["duration_ns"] or {}
    parts = (f"{level} {changed(cast(ForecastDocument, one))}" for level, one in forecasts.items())
    return f"If {premise}: {', '.join(parts)}."


def changed(forecast: ForecastDocument) -> str:
    """By how much a quantile would change: `12.0 % faster`."""
    ratio = (forecast["then"] - forecast["now"]) / max(forecast["now"], 1)
    text = share(abs(ratio))
    return "no change" if text == share(0) else f"{text} {'slower' if ratio > 0 else 'faster'}"


def notes(document: WhatifDocument) -> Iterator[str]:
    """How many requests were replayed, by what, and how far off such forecasts are."""
    yield from recorded_note(document)
    replayed, by_spans = document["replayed_requests"], document["replayed_spans"]
    having = document["stage_requests"]
    if not having:
        yield (
            f"None of {count(replayed, 'replayed request')} waited for {document['stage']}: "
            "a stage of the breakdown gives something."
        )
        return
    yield f"{having:,} of {count(replayed, 'replayed request')} waited for this stage."
    if by_spans < replayed:
        yield (
            f"Of {replayed - by_spans:,} of them no spans are kept, or too many to replay (over "
            "2,000): what ran beside the stage is not known there, and the gain may be smaller."
        )
    error = document["error_ratio"]
    if error is None:
        yield "Too few requests have the stage for a back-test."
    else:
        yield f"Back-tested error: {share(error)}."
