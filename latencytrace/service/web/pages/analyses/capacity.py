"""Latency against load: the knee first, then what happens with how many requests at once."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from fastapi import APIRouter

from latencytrace.model.texts.units import figure, per_s, share
from latencytrace.service.answers.load import capacity as answers
from latencytrace.service.answers.load.capacity_documents import (
    CapacityDocument,
    GrowthDocument,
    LevelDocument,
)
from latencytrace.service.answers.load.sentence import (
    limit_text,
    load_texts,
    range_text,
    replicas_text,
)
from latencytrace.service.answers.sentences.weights import recorded_note
from latencytrace.service.web.drawing.intervals import Scale
from latencytrace.service.web.pages.cohort_bar import Asked, read
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.queries import CapacityQuery

LIMITS: Final = {
    "within": ("Within", "2s"),
    "first_token_within": ("First token within", "500ms"),
    "per_token_within": ("Each token within", "50ms"),
}


def capacity_pages(parts: Parts) -> APIRouter:
    """Answer at `/capacity`."""

    def context(question: Asked) -> Mapping[str, object]:
        written = {name: question.parameters.get(name, "") for name in LIMITS}

        def own() -> CapacityQuery:
            query = read(CapacityQuery, {name: text for name, text in written.items() if text})
            query.limits(())
            return query

        @cache
        def found() -> CapacityDocument:
            limits = own().limits(parts.service.objectives())
            return answers.capacity_of(
                parts.service.store, question.cohort, limits, parts.service.now_ns()
            )

        return {
            "check": own,
            "files": [
                Export("levels.csv", lambda: found()["levels"]),
                Export("growth.csv", lambda: (found()["growth"] or {"stages": []})["stages"]),
            ],
            "capacity": found,
            "fields": [(name, *LIMITS[name], written[name]) for name in LIMITS],
            "facts": lambda document: list(facts(document)),
            "is_knee": is_knee,
            "load_texts": load_texts,
            "longest": longest,
            "scale_of": scale_of,
            "per_s": per_s,
            "range_text": range_text,
            "replicas_text": replicas_text,
            "export": lambda: question.link(
                "/api/v1/capacity", **{name: text for name, text in written.items() if text}
            ),
        }

    return parts.cohort_pages("/capacity", "capacity.html", "Capacity", context, tuple(LIMITS))


def facts(document: CapacityDocument) -> Iterator[str]:
    """Yield the facts that the numbers rest on, and what is good."""
    yield from recorded_note(document)
    if document["concurrency"] is not None:
        many = figure(document["concurrency"])
        yield f"{per_s(document['requests_per_second'])}, {many} concurrent"
    goodput = document["goodput"]
    if goodput is not None:
        limits = "; ".join(map(limit_text, goodput["limits"]))
        yield f"goodput {per_s(goodput['per_second'])} ({share(goodput['good_ratio'])})"
        if goodput["best_per_second"] is not None:
            best = per_s(goodput["best_per_second"])
            yield f"best goodput {best}, at {goodput['best_concurrency']} concurrent"
        yield f"good: {limits}"


def is_knee(document: CapacityDocument, level: LevelDocument) -> bool:
    """Tell whether the knee lies at a level."""
    found = document["knee"]
    at_least, at_most = level["concurrency"], level["concurrency_to"]
    return found is not None and at_least <= found["concurrency"] < at_most + 1


def longest(document: CapacityDocument) -> int:
    """Return the duration that the longest bar stands for."""
    return max((level["p95_ns"] or 0 for level in document["levels"]), default=0) or 1


def scale_of(document: GrowthDocument) -> Scale:
    """The scale of all growths and their intervals."""
    ends = ("growth_ns", "low_ns", "high_ns")
    return Scale.of(float(row[end]) for row in document["stages"] for end in ends)  # type: ignore[literal-required] # of these
