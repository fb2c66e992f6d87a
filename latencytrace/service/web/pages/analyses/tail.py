"""Why the slowest requests of a cohort are slow: the cause first, then what shows it."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter
from prometheus_client import CollectorRegistry

from latencytrace.analysis.tail.groups import Selection, needed_requests
from latencytrace.model import Request as FoundRequest
from latencytrace.model.texts.units import target
from latencytrace.service.answers import tail as answers
from latencytrace.service.answers.documents import ListedRequestDocument
from latencytrace.service.answers.findings.agents import pressure_findings
from latencytrace.service.answers.findings.finding import Finding
from latencytrace.service.answers.requests import request_document
from latencytrace.service.answers.sentences.tail import beside, next_step, sentence, trait_text
from latencytrace.service.answers.sentences.weights import recorded_note
from latencytrace.service.answers.tail_documents import (
    SetApartDocument,
    StageExcessDocument,
    TailDocument,
)
from latencytrace.service.cohort import LONGEST_NS, Filters
from latencytrace.service.web.drawing.intervals import Scale
from latencytrace.service.web.pages.cohort_bar import Asked, long_lived, read, rfc3339
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.pace import collected
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.rendering import Address
from latencytrace.service.web.pages.trace import trace_address
from latencytrace.service.web.queries import TailQuery

QUANTILES: Final = ("0.75", "0.9", "0.95", "0.99", "0.999")
LEAST_SHARE: Final = 0.005  # of the excess: stages with less are not shown
SELECTED: Final = ("selected", "selected_since", "selected_until")
TOKENS: Final = ("input_tokens", "output_tokens")
NO_FILTERS: Final = (  # traits that requests cannot be asked for by
    "cached_input_tokens", "batch_size", "queue_depth", "concurrency", "preemptions",
    "finish_reason", "cold_start",
)  # fmt: skip


def tail_pages(parts: Parts, metrics: CollectorRegistry) -> APIRouter:
    """Answer at `/tail`.

    Args:
        parts: What draws it.
        metrics: The service's own metrics, in which agents report.
    """
    of = parts.service

    def context(question: Asked) -> Mapping[str, object]:
        quantile = question.parameters.get("quantile", str(TailQuery().quantile))
        selected = {name: text for name in SELECTED if (text := question.parameters.get(name))}

        @cache
        def own() -> tuple[TailQuery, Selection | None]:
            asked = read(TailQuery, {"quantile": quantile, **selected})
            return asked, asked.selection(question.cohort, question.now_ns)

        @cache
        def found() -> TailDocument:
            asked, selection = own()
            if selection is not None:
                return answers.tail_of_selected(of.store, question.cohort, selection, of.beside)
            return answers.tail(of.store, question.cohort, asked.quantile, of.beside)

        return {
            "check": own,
            "selected": selected,
            "selection": lambda: own()[1],
            "unselected": question.link("/tail"),
            "files": [
                Export("stages.csv", lambda: found()["stages"]),
                Export("attributes.csv", lambda: found()["attributes"]),
            ],
            "tail": found,
            "quantile": quantile,
            "quantiles": [
                (one, slowest_share(one)) for one in dict.fromkeys([*QUANTILES, quantile])
            ],
            "sentence": sentence,
            "next_step": next_step,
            "recorded": recorded_note,
            "beside": beside,
            "trait_text": trait_text,
            "shown": shown,
            "scale_of": scale_of,
            "means": means,
            "enough": lambda document: list(enough(question, document)),
            "beyond": lambda document: beyond(question, own()[1], document),
            "having": lambda document, one: having(
                question, partial(beyond, question, own()[1], document), one
            ),
            "examples": lambda document: list(examples(parts, question, document)),
            "whatif": lambda stage: question.link("/whatif", stage=stage),
            "pressed": partial(pressed, question, metrics),
            "long_lived": lambda: long_lived(of.store, question, "/tail"),
        }

    own = ("quantile", *SELECTED)
    return parts.cohort_pages("/tail", "tail.html", "Why slow", context, own)


def pressed(question: Asked, metrics: CollectorRegistry) -> list[Finding]:
    """The recent waits of the threads of the cohort's service; none if it is of the past."""
    if question.cohort.until_ns is not None:
        return []
    return list(pressure_findings(list(collected(metrics)), question.cohort.service))


def slowest_share(quantile: str) -> str:
    """The share of requests beyond a quantile: `1 %`; what is none, as it was written."""
    try:
        return target(1 - float(quantile))
    except ValueError:
        return quantile


def shown(document: TailDocument) -> list[StageExcessDocument]:
    """The stages that matter to the excess; all, where none does."""
    rows = document["stages"]
    return [row for row in rows if abs(row["excess_share_ratio"] or 0) >= LEAST_SHARE] or rows


def scale_of(rows: list[StageExcessDocument]) -> Scale:
    """The scale of all excesses and their intervals."""
    ends = [end for row in rows for end in (row["excess_ns"], row["low_ns"], row["high_ns"])]
    return Scale.of(float(end) for end in ends if end is not None)


def means(document: TailDocument) -> list[tuple[str, int, dict[str, int]]]:
    """The usual and the slow requests: how many, and their mean in each stage."""
    return [
        (
            "typical",
            document["reference_requests"],
            {row["stage"]: row["reference_mean_ns"] for row in document["stages"]},
        ),
        (
            "slow",
            document["tail_requests"],
            {row["stage"]: row["tail_mean_ns"] for row in document["stages"]},
        ),
    ]


def enough(question: Asked, document: TailDocument) -> Iterator[tuple[str, Address]]:
    """Ways to more requests in the tail: a lower quantile for which these do, a longer time."""
    lower = [float(one) for one in QUANTILES if float(one) < document["quantile"]]
    recorded = document["recorded_requests"] or document["requests"]
    suits = [one for one in lower if needed_requests(one) <= recorded]
    if suits:
        text = f"take the slowest {slowest_share(str(max(suits)))}, for which these are enough"
        yield text, question.link("/tail", quantile=str(max(suits)))
    since = question.longer()
    if since is not None:
        longer = question.link(
            "/tail", since=since, until=None, quantile=str(document["quantile"])
        )
        yield f"take the requests of the last {since}", longer


def beyond(
    question: Asked, selection: Selection | None, document: TailDocument, **more: str | None
) -> Address:
    """The requests of the tail.

    Args:
        selection: Requests of the tail; None: all from a duration on.
    """
    if selection is None:
        return question.link("/requests", duration=f"{document['threshold_ns']}ns..", **more)
    times = {
        "since": rfc3339(selection.since_ns),
        "until": rfc3339(min(selection.until_ns, question.now_ns)),
    }
    most = "" if selection.at_most_ns == LONGEST_NS else f"{selection.at_most_ns}ns"
    took = f"{selection.at_least_ns}ns..{most}"
    return question.link("/requests", **times, duration=took, **more)


def having(
    question: Asked, beyond: Callable[..., Address], one: SetApartDocument
) -> Address | None:
    """The requests of the tail that have a trait; None: they cannot be asked for by it.

    Args:
        beyond: The address of the tail's requests, with filters beside its own.
    """
    key, value = one["key"], one["value"]
    changed: dict[str, str | None] = {}
    if key in TOKENS:
        changed[key] = f"{int(value.removeprefix('over ')) + 1}.."
    elif key in Filters.model_fields:
        changed[key] = value
    elif key in NO_FILTERS or key.startswith("engine_"):
        return None
    else:
        condition = f"{quote(key, safe='')}={quote(value, safe='')}"
        changed["where"] = "&".join([*question.all("where"), condition])
    return beyond(**changed)


def examples(
    parts: Parts, question: Asked, document: TailDocument
) -> Iterator[tuple[ListedRequestDocument, Address]]:
    """Requests that show the cause, each opened where it waited longest for it."""
    cause = document["cause"]
    stage = cause["stage"] if cause else None
    if stage is None and document["stages"]:
        stage = document["stages"][0]["stage"]
    found = parts.service.store.requests_of(document["examples"])
    for trace_id in document["examples"]:
        requests = [one for one in found if one.trace_id == trace_id and _is_in(question, one)]
        if not requests:
            continue
        one = max(requests, key=lambda request: request.duration_ns)
        segments = [segment for segment in one.segments if segment.stage is stage]
        longest = max(segments, key=lambda each: each.end_ns - each.start_ns, default=None)
        listed = request_document(one)
        yield listed, trace_address(question, listed, longest.span_id if longest else None)


def _is_in(question: Asked, request: FoundRequest) -> bool:
    """Tell which of a trace's requests the question is about."""
    service, route = question.cohort.service, question.cohort.route
    if service is None:
        return request.outermost
    return request.service == service and route in {None, request.route}
