"""The objectives: how much of each budget is left, how fast it burns, and the alerts."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from latencytrace.model.objective import window_text
from latencytrace.model.texts.units import objective_text
from latencytrace.service.answers.documents import (
    BadRequestDocument,
    BurnRateDocument,
    ObjectiveDocument,
)
from latencytrace.service.web.drawing.bars import number
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.rendering import Address

WIDTH = 400
BEYOND = 1.5  # of a threshold: where the scale of burn rates ends, at least


def objectives_pages(parts: Parts) -> APIRouter:
    """Answer at `/objectives`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/objectives")
    def objectives_page(request: Request) -> Response:
        alerts, standing = parts.alerts()["alerts"], parts.objectives()
        found = sorted(standing["objectives"], key=_budget_left)
        files = parts.files(request, [Export("objectives.csv", lambda: [*map(_row, found)])])
        if isinstance(files, Response):
            return files
        context = {
            **files,
            "title": "Objectives",
            "path": request.url.path,
            "objectives": found,
            "maintenance": standing["maintenance"],
            "alerts": alerts,
            "budget": budget,
            "objective_text": objective_text,
            "burn": burn,
            "bad_request": bad_request,
            "cohort_link": cohort_link,
        }
        return parts.renderer.page("objectives.html", context)

    return router


def budget(objective: ObjectiveDocument) -> Markup:
    """The budget that is left, as a bar; what is overdrawn fills it in another colour."""
    left = objective["budget_left_ratio"] or 0.0
    part = f'<rect class="{"left" if left >= 0 else "over"}" height="14" '
    part += f'width="{number(min(abs(left), 1) * WIDTH)}"/>'
    return _meter(part)


def burn(rate: BurnRateDocument, window: str) -> Markup:
    """The burn rate of a window against its threshold."""
    value = (rate["long"] if window == "long" else rate["short"]) or 0.0
    factor = rate["factor"]
    most = max(factor * BEYOND, value)
    bar = f'<rect class="{"over" if value > factor else "left"}" height="14" '
    bar += f'width="{number(value / most * WIDTH)}"/>'
    return _meter(f'{bar}<path class="at" d="M{number(factor / most * WIDTH)} 0v14"/>')


def bad_request(one: BadRequestDocument) -> Address:
    """The page of a request that violated an objective; it names what held it up longest."""
    return Address(f"/requests/{one['trace_id']}?span_id={one['span_id']}")


def cohort_link(objective: ObjectiveDocument) -> dict[str, str]:
    """The filters of the requests that an objective counts."""
    named = {
        "service": objective["service"],
        "route": objective["route"],
        "model": objective["model"],
        "version": objective["version"],
    }
    return {name: value for name, value in named.items() if value is not None}


def _row(objective: ObjectiveDocument) -> Mapping[str, object]:
    """An objective as a row of a table, the rate of each window by its name."""
    rates = {
        f"{rate['severity']}_{window_text(length_ns)}": burned
        for rate in objective["burn_rates"]
        for length_ns, burned in (
            (rate["long_ns"], rate["long"]),
            (rate["short_ns"], rate["short"]),
        )
    }
    plain = {name: value for name, value in objective.items() if name != "burn_rates"}
    return {**plain, "burn_rate": rates}


def _budget_left(objective: ObjectiveDocument) -> float:
    left = objective["budget_left_ratio"]
    return 2.0 if left is None else left


def _meter(part: str) -> Markup:
    return Markup(  # noqa: S704 - numbers
        f'<svg class="meter" viewBox="0 0 {WIDTH} 14" preserveAspectRatio="none" '
        f'aria-hidden="true"><rect class="ground" width="{WIDTH}" height="14"/>{part}</svg>'
    )
