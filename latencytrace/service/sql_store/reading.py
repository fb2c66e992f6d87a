"""Questions of people to the store, over the connections that are for them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final, TypeVar, cast

import numpy as np
import orjson

from latencytrace.model import Breakdown, DurationRange, Request, Span, Stage
from latencytrace.model.cohorts.overview import (
    LONG_LIVED_NS,
    Groups,
    HeatCell,
    Overview,
    RouteBreakdowns,
    StageColumn,
)
from latencytrace.model.cohorts.request_columns import (
    DurationBand,
    Durations,
    RequestColumns,
    RequestTimes,
)
from latencytrace.service.cohort import Cohort
from latencytrace.service.sql import (
    cohort_columns,
    groups,
    ledger_table,
    overview,
    questions,
    request_rows,
    rollups,
    span_rows,
)
from latencytrace.service.sql.questions import Part, Routes
from latencytrace.service.sql.tables import ARRIVALS, SPANS
from latencytrace.service.sql_store.engine import Readers
from latencytrace.service.sql_store.pending_copies import NotedTraces
from latencytrace.service.sql_store.rollups import Plan, Query, Rollups
from latencytrace.service.store import ALL_DURATIONS, Order, Store, TableFormat

LISTS: Final = "JSONCompactEachRow"  # the engine's formats: a row a line
OBJECTS: Final = "JSONEachRow"
KEYS_AT_ONCE: Final = 2000
ROUTES_AT_ONCE: Final = 1000
MOST_TIMES: Final = 500_000  # requests: of more it is not known how many were at once
LEAST_IN_WINDOW: Final = 8_000  # requests: of fewer, a part lies in most granules
LINKED_WITHIN_NS: Final = 600 * 10**9  # before a step began, its members may have begun
_SIGN: Final = 1 << 63
_Question = tuple[str, questions.Parameters]
T = TypeVar("T")


class SqlQuestions(Store):
    """The part of the store that only reads.

    Args:
        to_keep: Traces whose spans are to be copied.
        rollups: Tell how the requests of a stretch of time are read.
    """

    def __init__(self, readers: Readers, to_keep: NotedTraces, rollups: Rollups) -> None:
        self._readers = readers
        self._to_keep = to_keep
        self._rollups = rollups

    def of_service(self, service: str | None) -> Iterable[Request]:
        question = questions.service_question(request_rows.COLUMNS)
        return request_rows.requests_from(
            self._readers.query(question, OBJECTS, {"service": service})
        )

    def services(self) -> Sequence[str]:
        return firsts(self._readers.query(questions.SERVICES, LISTS))

    def instances(self) -> Sequence[tuple[str, str]]:
        found = rows(self._readers.query(questions.INSTANCES, LISTS))
        return [(cast(str, service), cast(str, instance)) for service, instance in found]

    def routes(self, service: str | None) -> Sequence[str]:
        return firsts(self._readers.query(questions.ROUTES, LISTS, {"service": service}))

    def breakdown(self, cohort: Cohort) -> Breakdown:
        return self._over(cohort, lambda plan: self._each(cohort, plan, None)[()])

    def breakdowns(self, cohort: Cohort, limit: int) -> RouteBreakdowns:
        def answer(plan: Plan) -> RouteBreakdowns:
            routes, count = overview.busiest(self._readers.query, cohort, limit, plan.standing)
            found: dict[Part, Breakdown] = {}
            for first in range(0, len(routes), ROUTES_AT_ONCE):
                found |= self._each(cohort, plan, routes[first : first + ROUTES_AT_ONCE])
            ranked = {route: found[route] for route in routes if route in found}
            return RouteBreakdowns(routes=ranked, route_count=count)

        return self._over(cohort, answer)

    def _each(self, cohort: Cohort, plan: Plan, routes: Routes) -> dict[Part, Breakdown]:
        suffice = rollups.is_by_labels(cohort) and self._rollups.suffice(plan)
        ask = _from_rollups if suffice else _from_requests
        return ask(self._readers.query, cohort, plan, routes)

    def overview(self, cohort: Cohort, column_ns: int, limit: int) -> Overview:
        ask = partial(overview.overview, self._readers.query, cohort, column_ns, limit)
        return self._over(cohort, lambda plan: ask(plan.standing))

    def long_lived_routes(self, cohort: Cohort) -> Sequence[str]:
        long = DurationRange(at_least_ns=LONG_LIVED_NS)
        if not self.count(cohort.model_copy(update={"duration": long})):
            return []  # as in most services, and cheaper to know
        return firsts(self._asked(cohort, partial(overview.long_lived_question, cohort), LISTS))

    def groups(self, cohort: Cohort, by: str, column_ns: int, limit: int) -> Groups:
        ask = partial(groups.groups, self._readers.query, cohort, by, column_ns, limit)
        return self._over(cohort, lambda plan: ask(plan.standing))

    def versions(self, cohort: Cohort, *, inner: bool = False) -> Mapping[tuple[str, str], int]:
        question = partial(groups.versions_question, cohort, inner=inner)
        answer = self._asked(cohort, question, LISTS)
        return {
            (cast(str, service), cast(str, version)): cast(int, first)
            for service, version, first in rows(answer)
        }

    def attribute_keys(self, cohort: Cohort) -> Mapping[str, int]:
        answer = self._asked(cohort, partial(groups.keys_question, cohort), LISTS)
        return {cast(str, key): cast(int, count) for key, count in rows(answer)}

    def heat_map(self, cohort: Cohort, column_ns: int) -> Sequence[HeatCell]:
        ask = partial(overview.heat_map, self._readers.query, cohort, column_ns)
        return self._over(cohort, lambda plan: ask(plan.standing))

    def stages_over_time(self, cohort: Cohort, column_ns: int) -> Sequence[StageColumn]:
        ask = partial(overview.stages_over_time, self._readers.query, cohort, column_ns)
        return self._over(cohort, lambda plan: ask(plan.standing))

    def requests(self, cohort: Cohort, order: Order, limit: int) -> Sequence[Request]:
        ask, limited = self._readers.query, {"limit": limit}

        def answer(plan: Plan) -> bytes:
            question, bound = questions.first_question(cohort, order, plan.standing)
            first = list(map(int, ask(question, "TSV", {**bound, **limited}).split()))
            if not first:
                return b""
            question, bound = questions.requests_question(
                cohort, order, request_rows.COLUMNS, first, plan.standing
            )
            return ask(question, OBJECTS, {**bound, **limited})

        found = request_rows.requests_from(self._over(cohort, answer))
        return sorted(found, key=lambda one: questions.place(one, order))

    def trace_ids(self, cohort: Cohort, beginning: str, limit: int) -> Sequence[str]:
        question = partial(questions.trace_ids_question, cohort, beginning, limit)
        return firsts(self._asked(cohort, question, LISTS))

    def count(self, cohort: Cohort) -> int:
        return int(self._asked(cohort, partial(ledger_table.count_question, cohort), "TSV"))

    def ledgers(self, cohort: Cohort, table_format: TableFormat) -> bytes:
        question = partial(ledger_table.table_question, cohort, table_format)
        return self._asked(cohort, question, ledger_table.ENGINE_FORMATS[table_format])

    def durations(self, cohort: Cohort) -> Durations:
        ask = partial(cohort_columns.durations, self._readers.query, cohort)
        return self._over(cohort, lambda plan: ask(plan.standing))

    def times(self, cohort: Cohort) -> RequestTimes:
        question = partial(cohort_columns.times_question, cohort)
        answer = self._asked(cohort, question, "RowBinary")
        return RequestTimes.of(np.frombuffer(answer, np.int64).reshape(-1, 4))

    def cohort_columns(
        self,
        cohort: Cohort,
        bands: Sequence[DurationBand] = ALL_DURATIONS,
        *,
        attributes: bool = False,
    ) -> RequestColumns:
        question = partial(cohort_columns.columns_question, attributes=attributes)
        ask = partial(_of_bands, self._readers.query, cohort, bands, question)
        answer = self._over(cohort, partial(ask, cohort_columns.FORMAT))
        return cohort_columns.columns_from(answer, attributes=attributes)

    def stage_means(
        self, cohort: Cohort, bands: Sequence[DurationBand]
    ) -> Sequence[Mapping[Stage, float]]:
        ask = partial(_of_bands, self._readers.query, cohort, bands)
        answer = self._over(cohort, partial(ask, cohort_columns.means_question, LISTS))
        return cohort_columns.means_from(answer, len(bands))

    def request(self, trace_id: str, span_id: str | None) -> Request | None:
        lines = self._readers.query(
            questions.request_question(request_rows.COLUMNS, outermost=span_id is None),
            OBJECTS,
            {"trace_id": trace_id} | ({} if span_id is None else {"span_id": span_id}),
        )
        return next(request_rows.requests_from(lines), None)

    def requests_of(self, trace_ids: Collection[str]) -> Sequence[Request]:
        question = questions.written_question(request_rows.COLUMNS)
        lines = self._readers.query(question, OBJECTS, {"trace_ids": trace_ids})
        return list(request_rows.requests_from(lines))

    def kept_spans(self, trace_id: str) -> tuple[Span, ...]:
        return self._spans(span_rows.spans_of, trace_ids=[trace_id])

    def spans_of(self, trace_ids: Collection[str]) -> Mapping[str, tuple[Span, ...]]:
        return by_trace(self._spans(span_rows.spans_of, trace_ids=set(trace_ids)))

    def spans_at(self, places: Collection[tuple[str, str]]) -> tuple[Span, ...]:
        wanted = set(places)
        found = self._spans(
            span_rows.spans_at,
            trace_ids={trace_id for trace_id, _ in wanted},
            span_ids={span_id for _, span_id in wanted},
        )
        return tuple(span for span in found if (span.trace_id, span.span_id) in wanted)

    def spans_of_id(self, span_id: str) -> tuple[Span, ...]:
        return self._spans(span_rows.spans_of_id, span_id=span_id)

    def linking_to(self, span: Span) -> tuple[Span, ...]:
        since, until = _in_column(
            max(span.start_ns - LINKED_WITHIN_NS, 0), max(span.end_ns, span.start_ns)
        )
        found = self._spans(
            span_rows.spans_linking, span_id=span.span_id, since=since, until=until
        )
        return tuple(one for one in found if _links_to(one, span))

    def _asked(
        self, cohort: Cohort, question: Callable[..., _Question], answer_format: str
    ) -> bytes:
        """The answer to a question about a cohort, which is asked how its rows are read."""

        def ask(plan: Plan) -> bytes:
            text, parameters = question(standing=plan.standing)
            return self._readers.query(text, answer_format, parameters)

        return self._over(cohort, ask)

    def _over(self, cohort: Cohort, ask: Callable[[Plan], T]) -> T:
        return self._rollups.over(cohort.since_ns, cohort.until_ns, ask)

    def _spans(self, question: Callable[[str], str], **parameters: object) -> tuple[Span, ...]:
        """The answers of both tables, each span once."""
        lines = [
            self._readers.query(question(table), LISTS, parameters) for table in (SPANS, ARRIVALS)
        ]
        return tuple(span_rows.once(*lines))


def _of_bands(
    ask: Query,
    cohort: Cohort,
    bands: Sequence[DurationBand],
    question: Callable[..., _Question],
    answer_format: str,
    plan: Plan,
) -> bytes:
    """The answer to a question about the requests of a cohort that lie in bands.

    Of shares only a part of the rows is read, where it has its share of each sender.
    """
    part_ratio = max((band.share_ratio for band in bands), default=1.0)
    is_known = plan.standing.unmerged is not None  # also where nothing is rolled up yet
    if is_known and plan.requests <= LEAST_IN_WINDOW * len(plan.passes):
        part_ratio = 1.0
    if part_ratio < 1:
        text, bound = cohort_columns.spread_question(cohort, part_ratio, plan.standing)
        if not cohort_columns.is_spread(ask(text, "TSV", bound), part_ratio):
            part_ratio = 1.0
    text, bound = question(cohort, bands, plan.standing, part_ratio=part_ratio)
    return ask(text, answer_format, bound)


def _from_rollups(ask: Query, cohort: Cohort, plan: Plan, routes: Routes) -> dict[Part, Breakdown]:
    """A breakdown of a cohort, or of each of some routes."""
    at_once: Mapping[Part, int] = {}
    if plan.requests <= MOST_TIMES:
        question, bound = rollups.concurrency_question(cohort, plan.standing, routes)
        at_once = rollups.concurrency_from(ask(question, LISTS, bound))
    standing = plan.standing if plan.exact else None
    question, bound = rollups.breakdown_question(cohort, standing, routes)
    lines = ask(question, LISTS, {**bound, **plan.bound()})
    return rollups.breakdowns_from(lines, at_once, routes)


def _from_requests(
    ask: Query, cohort: Cohort, plan: Plan, routes: Routes
) -> dict[Part, Breakdown]:
    """The same, exactly."""
    of = plan.standing, routes
    question, bound = questions.breakdown_question(cohort, *of)
    found = questions.breakdowns_from(ask(question, OBJECTS, bound))
    if any(one.after is not None for one in found.values()):
        question, bound = questions.after_question(cohort, *of)
        found = questions.with_after(found, ask(question, OBJECTS, bound))
    present = {row.stage for one in found.values() for row in one.stages}
    for named in (one for one in questions.NAMED if present.intersection(one.stages)):
        question, bound = questions.parts_question(cohort, named, *of)
        found = questions.with_parts(found, ask(question, OBJECTS, bound))
    return found


def keys_of(lines: bytes) -> Iterator[list[tuple[object, ...]]]:
    """Keys of requests from an answer in the format `LISTS`, so many as one question can name."""
    keys = list(map(tuple, rows(lines)))
    for first in range(0, len(keys), KEYS_AT_ONCE):
        yield keys[first : first + KEYS_AT_ONCE]


def by_trace(spans: Iterable[Span]) -> dict[str, tuple[Span, ...]]:
    """Spans that come in order of their trace, taken together."""
    return {
        trace_id: tuple(group)
        for trace_id, group in groupby(spans, key=lambda span: span.trace_id)
    }


def rows(lines: bytes) -> list[list[object]]:
    """Rows from an answer in the format `LISTS`."""
    return [cast(list[object], orjson.loads(line)) for line in lines.splitlines()]


def firsts(lines: bytes) -> list[str]:
    """The first column of it."""
    return [cast(str, row[0]) for row in rows(lines)]


def _links_to(one: Span, span: Span) -> bool:
    place = (span.trace_id, span.span_id)
    return any((link.trace_id, link.span_id) == place for link in one.links)


def _in_column(since_ns: int, until_ns: int) -> tuple[int, int]:
    """Bounds as a signed column holds times of 64 bits; all of it where they span its edge."""
    since, until = ((time_ns ^ _SIGN) - _SIGN for time_ns in (since_ns, until_ns))
    return (since, until) if since <= until else (-_SIGN, _SIGN - 1)
