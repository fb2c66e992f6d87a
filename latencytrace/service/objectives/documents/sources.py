"""The indicator of an OpenSLO document: metrics by name, or queries that ask them."""

from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import InstanceOf, PlainValidator, model_validator

from latencytrace.model import Measure, RequestStatus, Stage
from latencytrace.model.objective import NO_LIMIT_NS
from latencytrace.service.objectives.documents.indicator import FAILED, Indicator
from latencytrace.service.objectives.documents.selectors import (
    NotServedError,
    Selection,
    asked_metric,
    is_ours,
    less_good,
    ratio,
    selection,
    suggestion,
    timed,
)
from latencytrace.service.objectives.documents.values import (
    RATE,
    Text,
    measure_of,
    refused,
    statuses,
    threshold_ns,
)
from latencytrace.service.objectives.documents.yaml_fields import Field, Part

OURS: Final = "latencytrace"
PROMETHEUS: Final = "prometheus"
_INSTEAD: Final = "write `type: latencytrace` and `spec: {measure: duration, route: …}`"
_RAW: Final = refused("is a ratio computed elsewhere: write good or bad, and total", "total")

References = Mapping[tuple[str, str], Field]  # documents by kind and name


class Source(Part):
    """Where a metric comes from, and which it is."""

    metric_source_ref: Text | None = None
    type: Text | None = None
    spec: InstanceOf[Field]


class Metric(Part):
    """A metric, of some source."""

    metric_source: Source


class Ratio(Part):
    """Two metrics: some of the requests, and all of them."""

    counter: object = None
    good: Metric | None = None
    bad: Metric | None = None
    total: Metric
    raw_type: object = None
    raw: Annotated[None, _RAW] = None

    @model_validator(mode="after")
    def _has_one_part(self) -> Self:
        if (self.good is None) == (self.bad is None):
            raise ValueError("needs either good or bad beside total")
        return self


class IndicatorSpec(Part):
    """The measurement: a threshold's metric, or a ratio."""

    description: object = None
    threshold_metric: Metric | None = None
    ratio_metric: Ratio | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.threshold_metric is None) == (self.ratio_metric is None):
            raise ValueError("needs either a thresholdMetric or a ratioMetric")
        return self


def _measured(field: Field) -> tuple[Measure, Stage | None, bool]:
    if field.text() == RATE:
        return Measure.TIME_PER_OUTPUT_TOKEN, None, True
    return (*measure_of(field), False)


class Measured(Part):
    """The measurement, and of which requests."""

    measure: Annotated[tuple[Measure, Stage | None, bool], PlainValidator(_measured)]
    route: Text | None = None
    model: Text | None = None
    version: Text | None = None


class _Selected(Part):
    """Requests of a ratio: how they end, or how long they take."""

    status: Annotated[frozenset[RequestStatus] | None, PlainValidator(statuses)] = None
    measure: Annotated[tuple[Measure, Stage | None] | None, PlainValidator(measure_of)] = None
    value: Annotated[int | None, PlainValidator(threshold_ns)] = None
    route: Text | None = None
    model: Text | None = None
    version: Text | None = None


class _Queried(Part, extra="allow"):
    query: Text


def indicator_of(spec: IndicatorSpec, service: str, references: References) -> Indicator | None:
    """Read an indicator; None: something in it is wrong, which is noted."""
    if spec.threshold_metric is not None:
        return _of_threshold(spec.threshold_metric.metric_source, service, references)
    assert spec.ratio_metric is not None, "one of the two is there"  # noqa: S101 - for the checker
    return _of_ratio(spec.ratio_metric, service, references)


def _type_of(source: Source, references: References) -> str | None:
    """The source of the metric; None: not ours, which is noted."""
    named, at = source.type, source.found.get("type", source.at)
    if named is None and source.metric_source_ref is not None:
        at = source.found["metricSourceRef"]
        referred = references.get(("DataSource", source.metric_source_ref))
        if referred is None:
            at.wrong(f"names no DataSource {source.metric_source_ref!r}: {_INSTEAD}")
            return None
        named = referred.child("spec", "type")
    if named is None:
        at.wrong(f"has no 'type': {_INSTEAD}")
        return None
    if named.lower() not in {OURS, PROMETHEUS}:
        at.wrong(
            f"is {named!r}, whose metrics are not asked: {_INSTEAD}; queries of our own metrics "
            "are read with `type: Prometheus`"
        )
        return None
    return named.lower()


def _of_threshold(source: Source, service: str, references: References) -> Indicator | None:
    named = _type_of(source, references)
    if named == OURS:
        found = Measured.read(source.spec)
        if found is None:
            return None
        what, stage, is_rate = found.measure
        return Indicator(
            measure=what,
            stage=stage,
            service=None,
            route=found.route,
            model=found.model,
            version=found.version,
            limit_ns=None,
            is_rate=is_rate,
        )
    if named is None:
        return None
    queried = _Queried.read(source.spec)
    if queried is None:
        return None
    at = queried.found["query"]
    try:
        return timed(selection(queried.query))
    except NotServedError as error:
        at.wrong(
            f"{error}"
            if is_ours(queried.query)
            else f"asks {asked_metric(queried.query)}, which "
            f"latencytrace does not count: {_INSTEAD} for {service}"
        )
        return None


def _of_ratio(parts: Ratio, service: str, references: References) -> Indicator | None:
    name = "good" if parts.good is not None else "bad"
    part = parts.good or parts.bad
    assert part is not None, "one of the two is there"  # noqa: S101 - for the checker
    types = [_type_of(one.metric_source, references) for one in (part, parts.total)]
    if None in types:
        return None
    if types[0] != types[1]:
        parts.at.wrong("has two sources: ask both metrics of one")
        return None
    if types[0] == OURS:
        return _of_statuses(part.metric_source.spec, parts.total.metric_source.spec, name)
    queried = [_Queried.read(one.metric_source.spec) for one in (part, parts.total)]
    if queried[0] is None or queried[1] is None:
        return None
    return ratio_of_queries(
        {name: queried[0].found["query"], "total": queried[1].found["query"]}, service
    )


def ratio_of_queries(queries: Mapping[str, Field], service: str | None) -> Indicator | None:
    """Read a ratio of two queries.

    Args:
        queries: `good` or `bad`, and `total`.
        service: Service of the document, for what to write instead.
    """
    [(name, part_at)] = [item for item in queries.items() if item[0] != "total"]
    part = queried(part_at, service, name)
    total = queried(queries["total"], service, "total")
    if part is None or total is None:
        return None
    meant = "good" if name == "bad" and less_good(part_at.text()) is not None else name
    good, bad = (part, None) if meant == "good" else (None, part)
    try:
        return ratio(good, bad, total)
    except NotServedError as error:
        part_at.wrong(str(error))
        return None


def queried(field: Field, service: str | None, part: str) -> Selection | None:
    """Read a query; where it asks metrics of others, note what to write.

    Args:
        part: `good`, `bad`, `total` or `histogram`; of bad requests that are all less the good
            ones, the good ones are read.
    """
    try:
        query = field.text()
    except ValueError as error:
        field.wrong(str(error))
        return None
    instead = suggestion(service, query, part=part)
    if not is_ours(query):
        field.wrong(
            f"asks {asked_metric(query)}, which latencytrace does not count: write {instead}"
        )
        return None
    try:
        return selection((less_good(query) if part == "bad" else None) or query)
    except NotServedError as error:
        field.wrong(f"{error}: write {instead}")
        return None


def _of_statuses(part_at: Field, total_at: Field, name: str) -> Indicator | None:
    part, total = _Selected.read(part_at), _Selected.read(total_at)
    if part is None or total is None:
        return None
    if (part.route, part.model, part.version) != (total.route, total.model, total.version):
        part_at.wrong(
            "counts requests that total leaves out: write the same route, model, version"
        )
        return None
    for field in ("status", "measure", "value"):
        if field in total.found:
            total.found[field].wrong("is for good or bad: total counts all, delete it here")
            return None
    what, limit_ns = part.measure, part.value
    if part.status is None and name == "good" and what is not None and limit_ns is not None:
        pass
    elif part.status is not None and what is None and limit_ns is None:
        wanted = {RequestStatus.OK} if name == "good" else FAILED
        if part.status - {RequestStatus.CANCELLED} != wanted:
            part.found["status"].wrong(
                "tells apart how requests fail, which an objective does not: write "
                f"status: {'ok' if name == 'good' else '[error, timeout, rejected]'}"
            )
            return None
        what, limit_ns = (Measure.DURATION, None), NO_LIMIT_NS
    else:
        part_at.wrong("says not what is good: write `status: ok`, or measure and value in good")
        return None
    return Indicator(
        measure=what[0],
        stage=what[1],
        service=None,
        route=part.route,
        model=part.model,
        version=part.version,
        limit_ns=limit_ns,
    )
