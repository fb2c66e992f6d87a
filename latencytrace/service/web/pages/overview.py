"""The page that one sees first: is anything wrong, where, since when; then a row a route."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from fastapi import APIRouter

from latencytrace.model.semconv import LOAD_GENERATOR
from latencytrace.model.texts.units import change, duration, rate
from latencytrace.service.answers.documents import ObjectiveDocument
from latencytrace.service.answers.overview_documents import (
    MOST_ROUTES,
    ROUTES,
    OverviewDocument,
    RouteDocument,
    overview,
)
from latencytrace.service.web.drawing.heat_map import small_heat_map
from latencytrace.service.web.drawing.releases import Release
from latencytrace.service.web.pages.cohort_bar import TIMES, Asked
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.grouping import FAILING, small_trend
from latencytrace.service.web.pages.incidents import Incident, headline, incidents
from latencytrace.service.web.pages.objectives import anchor
from latencytrace.service.web.pages.pace import Pace
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.releases import releases_of

SLOWER: Final = 1.25  # times the p99 of before
ENOUGH: Final = 100  # requests, for a p99 to be compared
_ALIKE: Final = 0.1  # by which a p99 may differ and still be as before
LONG_LIVED: Final = "long-lived"
_STATES: Final = ("incident", "budget spent", "failing", "slower", "ok", LONG_LIVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A route: how it is, and how it was in as long a time before."""

    route: RouteDocument
    before: RouteDocument | None
    state: str
    objectives: Sequence[ObjectiveDocument]
    times_ns: tuple[int, int]
    column_ns: int
    releases: Sequence[Release]
    load: RouteDocument | None  # the same requests as `latencytrace load` saw them

    @property
    def is_bad(self) -> bool:
        """Tell whether it is a case for red."""
        return self.state in _STATES[:3]

    @property
    def is_failing(self) -> bool:
        """Tell whether so many failed that it is a case for red."""
        return self.failed_ratio >= FAILING

    @property
    def per_s(self) -> str:
        """Requests a second."""
        return rate(self.route["requests"], self.times_ns[1] - self.times_ns[0])

    @property
    def failed_ratio(self) -> float:
        """The share that failed."""
        return self.route["failed"] / self.route["requests"]

    def changed(self, name: str) -> str | None:
        """The change of one of its numbers."""
        before = None if self.before is None else self.before[name]  # type: ignore[literal-required] # a number's
        return change(self.route[name], before)  # type: ignore[literal-required] # likewise

    @property
    def trend(self) -> str:
        """Its p99 over time, with the beginnings of versions."""
        return small_trend(self.route["timeline"], self.times_ns, self.column_ns, self.releases)


def overview_pages(parts: Parts, pace: Pace) -> APIRouter:
    """Answer at `/`."""

    def context(question: Asked) -> Mapping[str, object]:
        filtered = not {name for name, _ in question.given} <= {*TIMES}
        given = "limit" in question.query.model_fields_set
        limit = min(question.query.limit, MOST_ROUTES) if given else ROUTES

        @cache
        def found(limit: int = limit) -> OverviewDocument:
            return overview(parts.service.store, question.cohort, question.now_ns, limit)

        objectives = cache(lambda: parts.objectives()["objectives"])
        wrong = cache(lambda: incidents(parts.alerts()["alerts"], objectives()))
        rows = cache(lambda: rows_of(parts, question, found(), objectives(), wrong()))

        return {
            "overview": found,
            "files": [
                Export("routes.csv", lambda: [*map(route_row, found(MOST_ROUTES)["routes"])])
            ],
            "more": question.link("/", limit=str(MOST_ROUTES)),
            "most": MOST_ROUTES,
            "export": question.link("/api/v1/overview", limit=str(limit) if given else None),
            "incidents": wrong,
            "headline": lambda: headline(wrong(), objectives(), traffic(rows()), question.now_ns),
            "heat": lambda one: small_heat_map(
                one.heat_map(parts.service.store, question.now_ns),
                one.since_ns,
                None if one.what == "silent" else one.threshold_ns,
            ),
            "rows": rows,
            "unseen": lambda: [] if filtered else unseen(objectives(), rows()),
            "anchor": anchor,
            "pace": pace,
        }

    return parts.cohort_pages("/", "overview.html", "Overview", context)


def rows_of(
    parts: Parts,
    question: Asked,
    found: OverviewDocument,
    objectives: Sequence[ObjectiveDocument],
    wrong: Sequence[Incident],
) -> list[Row]:
    """The routes of an overview, the worst first, beside as long a time before."""
    earlier = question.before()
    former = (
        []
        if earlier is None
        else overview(parts.service.store, earlier, question.now_ns, MOST_ROUTES)["routes"]
    )
    before = {(one["service"], one["route"]): one for one in former}
    loads, routes = measured(found["routes"])
    rows = []
    for route in routes:
        of = {"service": route["service"], "route": route["route"]}
        began = {version: int(at) for version, at in route["versions"].items()}
        of_route = [
            one
            for one in objectives
            if one["service"] == route["service"] and one["route"] in {None, route["route"]}
        ]
        was = before.get((route["service"], route["route"]))
        rows.append(
            Row(
                route=route,
                before=was,
                state=state_of(route, was, of_route, wrong),
                objectives=of_route,
                times_ns=question.times_ns(),
                column_ns=found["column_ns"],
                releases=releases_of(question, question.times_ns(), began, of),
                load=loads.pop(route["route"], None),  # of the outermost, which took most time
            )
        )
    return sorted(rows, key=lambda row: _STATES.index(row.state))  # else as they were


def unseen(
    objectives: Sequence[ObjectiveDocument], rows: Sequence[Row]
) -> Sequence[ObjectiveDocument]:
    """The objectives that stand in no row: no request of theirs came, or is shown."""
    seen = {anchor(one) for row in rows for one in row.objectives}
    return [one for one in objectives if anchor(one) not in seen]


def measured(
    routes: Sequence[RouteDocument],
) -> tuple[dict[str, RouteDocument], Sequence[RouteDocument]]:
    """The routes as a load generator saw them, by name; and all routes without these twins."""
    names = {one["route"] for one in routes if one["service"] != LOAD_GENERATOR}
    loads = {
        one["route"]: one
        for one in routes
        if one["service"] == LOAD_GENERATOR and one["route"] in names
    }
    twins = list(map(id, loads.values()))
    return loads, [one for one in routes if id(one) not in twins]


def state_of(
    route: RouteDocument,
    before: RouteDocument | None,
    objectives: Sequence[ObjectiveDocument],
    wrong: Sequence[Incident],
) -> str:
    """How a route is, in a word or two."""
    if any(one.is_of(route["service"], route["route"]) for one in wrong):
        return "incident"
    if route["long_lived"] and not objectives:
        return LONG_LIVED
    left = [one["budget_left_ratio"] for one in objectives]
    if any(one is not None and one <= 0 for one in left):
        return "budget spent"
    if route["failed"] >= FAILING * route["requests"]:
        return "failing"
    compared = before is not None and min(route["requests"], before["requests"]) >= ENOUGH
    if compared and before is not None and route["p99_ns"] >= SLOWER * before["p99_ns"]:
        return "slower"
    return "ok"


def traffic(rows: Sequence[Row]) -> Mapping[str, object]:
    """The requests of the headline: those of the route that took most time."""
    answering = [row for row in rows if row.state != LONG_LIVED] or rows
    if not answering:
        return {}
    most = max(
        answering, key=lambda row: sum(row.route["mean_ns"].values()) * row.route["requests"]
    )
    was = most.before["p99_ns"] if most.before is not None else None
    said = ""
    if was and most.before is not None and most.before["requests"] >= ENOUGH:
        alike = abs(most.route["p99_ns"] / was - 1) <= _ALIKE
        said = ", as before" if alike else f" ({duration(was)} before)"
    outermost = sum(row.route["outermost_requests"] for row in answering)
    of_service = sum(row.route["requests"] for row in answering)  # that another one calls
    return {
        "per_s": rate(outermost or of_service, most.times_ns[1] - most.times_ns[0]),
        "name": most.route["route"],
        "p99_ns": most.route["p99_ns"],
        "change": said,
        "slower": slower(rows),
    }


def slower(rows: Sequence[Row]) -> list[str]:
    """The routes that are slower than before: those of callers first, the worst of them."""

    def rank(row: Row) -> tuple[bool, float]:
        was = row.before["p99_ns"] if row.before is not None else row.route["p99_ns"]
        return not row.route["outermost_requests"], -row.route["p99_ns"] / max(was, 1)

    found = sorted((row for row in rows if row.state == "slower"), key=rank)
    return [row.route["route"] for row in found]


def route_row(route: RouteDocument) -> Mapping[str, object]:
    """A route as a row of a table: without what it took over time."""
    return {name: value for name, value in route.items() if name not in {"timeline", "versions"}}
