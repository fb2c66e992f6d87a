"""Where the time of a cohort went: stages by mean and around quantiles, and over time."""

from collections.abc import Mapping
from functools import cache, partial

from fastapi import APIRouter

from latencytrace.model import Stage
from latencytrace.model.texts.units import change
from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.breakdown_parts import (
    AroundDocument,
    AroundsDocument,
    StageColumnDocument,
    StagesOverTimeDocument,
    arounds,
    stages_over_time,
)
from latencytrace.service.answers.documents import BreakdownDocument, StageDocument
from latencytrace.service.answers.overview_documents import HeatMapDocument, heat_map
from latencytrace.service.answers.sentences.after_answer import after_answers
from latencytrace.service.answers.sentences.stage_parts import others_ns
from latencytrace.service.answers.sentences.unnamed import unnamed_sentence, unnamed_stages
from latencytrace.service.store import Store
from latencytrace.service.web.drawing.heat_map import heat_map as drawn_heat_map
from latencytrace.service.web.drawing.stages_over_time import stages_over_time as drawn_stages
from latencytrace.service.web.pages.cohort_bar import Asked, long_lived, rfc3339
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.grouping import BY, group_files, grouping
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.releases import releases
from latencytrace.service.web.pages.rendering import Address

LEAST_COMPARED = 0.01  # of the request, from which on the change of a stage is named
MOST_COLUMNS = 20  # of the table behind the heat map, the slowest first


def breakdown_pages(parts: Parts) -> APIRouter:
    """Answer at `/breakdown`."""

    def context(question: Asked) -> Mapping[str, object]:
        of = parts.service.store, question.cohort
        breakdown = cache(partial(answers.breakdown, *of))
        before = cache(partial(breakdown_before, parts.service.store, question))
        over_time = cache(partial(stages_over_time, *of, question.now_ns))
        around_quantiles = cache(partial(arounds, *of))
        durations = cache(partial(heat_map, *of, question.now_ns))
        began = cache(partial(releases, parts.service.store, question))
        return {
            "files": [
                Export("stages.csv", lambda: [*map(stage_row, breakdown()["stages"])]),
                Export("quantiles.csv", lambda: around_quantiles()["quantiles"]),
                Export("timeline.csv", lambda: over_time()["columns"]),
                Export("durations.csv", lambda: durations()["cells"]),
                Export("timeline.svg", lambda: drawn_stages(over_time())),
                Export("durations.svg", lambda: drawn_heat_map(durations())),
                *group_files(parts.service.store, question),
            ],
            **grouping(parts.service.store, question, "/breakdown"),
            "breakdown": breakdown,
            "changed": lambda *names: changed(breakdown(), before(), *names),
            "stage_changed": lambda stage: stage_changed(breakdown(), before(), stage),
            "heat_map": durations,
            "drawn": lambda found: drawn_heat_map(found, began()),
            "releases": began,
            "arounds": around_quantiles,
            "near": partial(near, question),
            "long_lived": lambda: long_lived(parts.service.store, question, "/breakdown"),
            "stages_over_time": over_time,
            "stacked": lambda found: drawn_stages(found, began()),
            "columns": partial(latest_columns, question),
            "cells": partial(slowest_cells, question),
            "requests": question.link("/requests"),
            "tail": question.link("/tail"),
            "after_answers": after_answers,
            "unnamed_stages": unnamed_stages,
            "unnamed_sentence": unnamed_sentence,
            "others_ns": others_ns,
        }

    return parts.cohort_pages("/breakdown", "breakdown.html", "Breakdown", context, (BY,))


def breakdown_before(store: Store, question: Asked) -> BreakdownDocument | None:
    """The breakdown of as long a time before; None: there is no such time."""
    cohort = question.before()
    return None if cohort is None else answers.breakdown(store, cohort)


def changed(now: BreakdownDocument, before: BreakdownDocument | None, *names: str) -> str | None:
    """The change of a number, named as in the document: `duration_ns`, `p99`."""
    pair: list[object] = [now, before]
    for name in names:
        pair = [one[name] if isinstance(one, dict) else None for one in pair]
    value, was = (one if isinstance(one, int | float) else None for one in pair)
    return None if value is None else change(value, was)


def stage_changed(
    now: BreakdownDocument, before: BreakdownDocument | None, stage: Stage
) -> str | None:
    """The change of the mean of a stage; None: one so short varies by itself."""
    means = [
        {row["stage"]: row["mean_ns"] for row in document["stages"]} if document else {}
        for document in (now, before)
    ]
    if means[0][stage] < LEAST_COMPARED * sum(means[0].values()):
        return None
    return change(means[0][stage], means[1].get(stage))


def stage_row(stage: StageDocument) -> Mapping[str, object]:
    """A stage as a row of a table: without its parts."""
    return {name: value for name, value in stage.items() if name != "parts"}


def near(question: Asked, document: AroundsDocument) -> list[tuple[str, AroundDocument, Address]]:
    """The requests around each quantile: its name, they, and where they are listed."""
    return [
        (
            f"p{100 * one['quantile']:g}",
            one,
            question.link(
                "/requests",
                **question.absolute(),
                duration=f"{one['at_least_ns']}ns..{one['at_most_ns']}ns",
            ),
        )
        for one in document["quantiles"]
    ]


def latest_columns(
    question: Asked, document: StagesOverTimeDocument
) -> list[tuple[StageColumnDocument, Address]]:
    """The last columns of the stages over time, the latest first, and a breakdown of each."""
    return [
        (
            column,
            question.link(
                "/breakdown",
                since=rfc3339(int(column["since"])),
                until=rfc3339(int(column["until"])),
            ),
        )
        for column in document["columns"][: -MOST_COLUMNS - 1 : -1]
    ]


def slowest_cells(
    question: Asked, document: HeatMapDocument
) -> list[tuple[str, int, int, int, Address]]:
    """The cells of the slowest requests: since, durations, how many, and where they are listed."""
    ranked = sorted(document["cells"], key=lambda cell: (-cell["row"], -cell["column"]))
    return [
        (
            cell["since"],
            cell["at_least_ns"],
            cell["at_most_ns"],
            cell["requests"],
            question.link(
                "/requests",
                since=rfc3339(int(cell["since"])),
                until=rfc3339(int(cell["until"])),
                duration=f"{cell['at_least_ns']}ns..{cell['at_most_ns']}ns",
            ),
        )
        for cell in ranked[:MOST_COLUMNS]
    ]
