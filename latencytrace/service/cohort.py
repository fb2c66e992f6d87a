"""The requests that a question is about: one field a filter, and all else follows from it.

The parameters of the API (`web/queries.py`), the flags of reading commands
(`cli/source/filters.py`) and the conditions in SQL (`sql/questions.py`) are read off the fields
of `Filters`: a new filter is one more field, of a column that the table of requests has.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, Literal
from urllib.parse import unquote

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.fields import FieldInfo

from latencytrace.analysis.tail.cohort_attributes import LEFT_OUT
from latencytrace.errors import QuestionError
from latencytrace.model import DurationRange, RequestStatus, TokenRange, semconv
from latencytrace.model.cohorts.breakdown import attribute_text
from latencytrace.model.detail import TraceDetail
from latencytrace.model.texts.units import written_duration_ns

MOST_CONDITIONS = 16
Failed = Literal["failed"]
FAILED: Final[Failed] = "failed"  # as a filter: whatever status but ok
HOUR_NS = 3_600_000_000_000
_EPOCH = datetime.fromtimestamp(0, UTC)
_UNITS_NS = {"s": 10**9, "m": 60 * 10**9, "h": HOUR_NS, "d": 24 * HOUR_NS}
_BACK = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])")
_SPACED_OFFSET = re.compile(r" (?=\d\d:?\d\d$)")  # a `+` that a query string made a space
# What OpenTelemetry calls labels that are kept as columns of their own.
LABEL_NAMES: Final = {
    semconv.SERVICE_NAME: "service",
    semconv.SERVICE_VERSION: "version",
    semconv.SERVICE_INSTANCE_ID: "instance",
    semconv.HTTP_ROUTE: "route",
}
LONGEST_NS = 2**63 - 1  # what columns hold
_RANGE = re.compile(r"(\d{0,18})\.\.(\d{0,18})")
_EXACTLY = re.compile(r"\d{1,18}")


def period_ns(since: str | None, until: str | None, now_ns: int) -> tuple[int, int | None]:
    """The time that `since` and `until` name; without `since` it begins an hour ago.

    Raises:
        QuestionError: One of them cannot be read, or nothing lies between them.
    """
    since_ns = instant_ns(since, now_ns) if since else now_ns - HOUR_NS
    until_ns = instant_ns(until, now_ns) if until else None
    if until_ns is None or since_ns < until_ns:
        return since_ns, until_ns
    if not since:
        raise QuestionError(
            f"until {until!r} lies before since, which is an hour ago unless it is named: "
            "name an earlier since"
        )
    turned = f", as since {until!r} until {since!r}" if until_ns < since_ns else ""
    raise QuestionError(
        f"no time lies between since {since!r} and until {until!r}: name the earlier one as "
        f"since{turned}; durations count back from now"
    )


def instant_ns(text: str, now_ns: int) -> int:
    """Read `since` or `until`: RFC 3339, or a duration back from now such as `15m`.

    Returns:
        Nanoseconds since the Unix epoch.

    Raises:
        QuestionError: The text is neither.
    """
    back = _BACK.fullmatch(text.strip())
    if back is not None:
        return max(now_ns - round(float(back.group(1)) * _UNITS_NS[back.group(2)]), 0)
    try:
        moment = datetime.fromisoformat(_SPACED_OFFSET.sub("+", text.strip(), count=1))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise QuestionError(
            f"{text!r} is not a valid time. Try 15m or 2d, back from now, or with a zone "
            "2026-01-31T15:04:05Z"
        )
    since_epoch = moment - _EPOCH
    whole_s = since_epoch.days * 86_400 + since_epoch.seconds
    return min(max(whole_s * 10**9 + since_epoch.microseconds * 1000, 0), LONGEST_NS)


def status_of(text: str) -> RequestStatus | Failed:
    """The status of this name; `failed` stands for all but ok.

    Raises:
        QuestionError: None has it; the message names those there are.
    """
    if text == FAILED:
        return FAILED
    if text not in set(RequestStatus):
        known = ", ".join([*RequestStatus, FAILED])
        raise QuestionError(f"status {text!r} is not known: use {known}")
    return RequestStatus(text)


def detail_of(text: str) -> TraceDetail:
    """The detail of this name.

    Raises:
        QuestionError: None has it; the message names those there are.
    """
    if text not in set(TraceDetail):
        raise QuestionError(f"detail {text!r} is not known: use {', '.join(TraceDetail)}")
    return TraceDetail(text)


def token_range(text: str) -> TokenRange:
    """`1000..4000`, `1000..`, `..4000` or `512`: both ends included.

    Raises:
        QuestionError: The text is none of these, or no number lies between its ends.
    """
    if _EXACTLY.fullmatch(text.strip()):
        return TokenRange(at_least=int(text), at_most=int(text))
    ends = _RANGE.fullmatch(text.strip())
    if ends is None or not any(ends.groups()):
        raise QuestionError(
            f"{text!r} is not a range of tokens. Try 1000..4000, 1000.., ..4000 or 512"
        )
    at_least, at_most = (int(end) if end else None for end in ends.groups())
    if at_least is not None and at_most is not None and at_least > at_most:
        raise QuestionError(f"{text!r} holds no number of tokens: write the smaller one first")
    return TokenRange(at_least=at_least, at_most=at_most)


def duration_range(text: str) -> DurationRange:
    """`250ms..2s`, `2s..`, `..80ms`: both ends included.

    Raises:
        QuestionError: The text is none of these, or nothing lies between its ends.
    """
    ends = [end.strip() for end in text.split("..")]
    found_ns = [written_duration_ns(end) for end in ends]
    is_read = all(ns is not None or not end for ns, end in zip(found_ns, ends, strict=True))
    if len(ends) != 2 or not any(ends) or not is_read:  # noqa: PLR2004 - the ends
        raise QuestionError(f"{text!r} is not a range of durations. Try 250ms..2s, 2s.. or ..80ms")
    at_least_ns, at_most_ns = found_ns
    if at_least_ns is not None and at_most_ns is not None and at_least_ns > at_most_ns:
        raise QuestionError(f"{text!r} holds no duration: write the shorter one first")
    return DurationRange(at_least_ns=at_least_ns, at_most_ns=at_most_ns)


def attributes_of(text: str) -> tuple[tuple[str, str], ...]:
    """Keys and values of `tenant=acme&tier=gold`; `%26` stands for an `&`, `%25` for a `%`.

    Raises:
        QuestionError: A condition is none or asks for what is not kept, or there are too many.
    """
    found = tuple((key, attribute_text(value)) for key, value in _pairs(text, "where"))
    for key, _ in found:
        if key in LEFT_OUT:
            raise QuestionError(
                f"{key!r} is not kept as an attribute: ask by route, status or tokens"
            )
    return found


def _pairs(text: str, parameter: str) -> tuple[tuple[str, str], ...]:
    conditions = text.split("&")
    if len(conditions) > MOST_CONDITIONS:
        raise QuestionError(f"{len(conditions)} conditions are more than {MOST_CONDITIONS}")
    found = []
    for condition in conditions:
        key, separator, value = condition.partition("=")
        if not (key and separator):
            raise QuestionError(
                f"{condition!r} is no condition: write KEY=VALUE, as {parameter}=tenant=acme"
            )
        found.append((unquote(key), unquote(value)))
    return tuple(found)


def without_of(text: str) -> tuple[tuple[str, str], ...]:
    """Labels and attributes that requests must not have, as `version=2&tenant=acme`.

    Raises:
        QuestionError: A condition is none or asks for what is not kept, or there are too many.
    """
    found = [(group_key(key), value) for key, value in _pairs(text, "without")]
    return tuple((key, value if key in LABELS else attribute_text(value)) for key, value in found)


def group_key(name: str) -> str:
    """The label or the attribute of this name, that requests can be grouped by.

    Raises:
        QuestionError: No request keeps such an attribute.
    """
    key = LABEL_NAMES.get(name, name)
    if not key:
        raise QuestionError("the name of an attribute is missing")
    if key in LEFT_OUT:
        raise QuestionError(f"{key!r} is not kept as an attribute: ask by route, status or tokens")
    return key


def _filter(column: str | None, text: str) -> FieldInfo:
    """Describe a filter: the column that it compares, and what the API and the terminal say."""
    field: FieldInfo = Field(serialization_alias=column, description=text)
    return field


def _read(how: Callable[[str], object]) -> BeforeValidator:
    """Read a text; a value that was read stays."""
    return BeforeValidator(lambda given: how(given) if isinstance(given, str) else given)


def _read_each(how: Callable[[str], object]) -> BeforeValidator:
    """Read the texts of a parameter that an address may have more than once."""

    def read(given: object) -> object:
        texts = [given] if isinstance(given, str) else given
        return how("&".join(texts)) if isinstance(texts, list) else given

    return BeforeValidator(read)


_SO_MANY = "Only with so many: 1000..4000, 1000.., ..4000 or 512."
_Duration = Annotated[
    DurationRange | None, _read(duration_range), WithJsonSchema({"type": "string"})
]
_Tokens = Annotated[TokenRange | None, _read(token_range), WithJsonSchema({"type": "string"})]


class Filters(BaseModel):
    """The labels, tokens and attributes that requests must have; None: any.

    Without a service, only outermost requests are meant.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)  # commands need only the fields

    service: Annotated[str | None, _filter("ServiceName", "Only this service's requests.")] = None
    route: Annotated[str | None, _filter("Route", 'Only this route, as "POST /chat".')] = None
    model: Annotated[str | None, _filter("Model", "Only requests to this model.")] = None
    version: Annotated[
        str | None, _filter("ServiceVersion", "Only this version of the service.")
    ] = None
    instance: Annotated[
        str | None, _filter("ServiceInstance", "Only this instance of the service.")
    ] = None
    status: Annotated[
        RequestStatus | Failed | None,
        _read(status_of),
        _filter(
            "Status", "Only ok, error, timeout, cancelled or rejected ones; failed: all but ok."
        ),
    ] = None
    detail: Annotated[
        TraceDetail | None,
        _read(detail_of),
        _filter("Detail", "Only those traced in this detail, as full, server_span or control."),
    ] = None
    duration: Annotated[
        _Duration, _filter("DurationNs", "Only those that took so long: 250ms..2s, 2s.., ..80ms.")
    ] = None
    first_token: Annotated[
        _Duration,
        _filter("TimeToFirstTokenNs", "Only those whose first token came so late, as 2s..."),
    ] = None
    after: Annotated[
        _Duration,
        _filter("AfterNs", "Only those that went on so long after their answer, as 100ms..."),
    ] = None
    input_tokens: Annotated[_Tokens, _filter("InputTokens", _SO_MANY)] = None
    output_tokens: Annotated[_Tokens, _filter("OutputTokens", _SO_MANY)] = None
    where: Annotated[
        tuple[tuple[str, str], ...],  # all of them, each on any span
        _read_each(attributes_of),
        WithJsonSchema({"type": "array", "items": {"type": "string"}}),
        _filter(None, "Only with this attribute on a span. May be repeated."),
    ] = ()
    without: Annotated[
        tuple[tuple[str, str], ...],  # none of them, labels or attributes
        _read_each(without_of),
        WithJsonSchema({"type": "array", "items": {"type": "string"}}),
        _filter(None, "Only without this: version=2, tenant=acme. May be repeated."),
    ] = ()

    def compared(self) -> Iterator[tuple[str, str | DurationRange | TokenRange]]:
        """Yield the columns that are compared, each with what it must hold."""
        for name, field in type(self).model_fields.items():
            wanted = getattr(self, name)
            if field.serialization_alias is not None and wanted is not None:
                yield field.serialization_alias, wanted


REPEATED: Final = ("where", "without")  # filters that an address may name more than once
LABELS: Final = {  # that requests are grouped by, and their columns
    name: str(Filters.model_fields[name].serialization_alias)
    for name in ("service", "route", "model", "version", "instance", "status")
}


class Cohort(Filters):
    """The requests that pass these filters and started within this time; None: any."""

    since_ns: int | None = None  # since the Unix epoch, inclusive
    until_ns: int | None = None  # exclusive


class CohortQuery(Filters):
    """A cohort as a question names it: times are texts that count back from now."""

    since: Annotated[
        str | None, _filter(None, "From when: 15m, 2h, or RFC 3339. Default: the last hour.")
    ] = None
    until: Annotated[str | None, _filter(None, "Until when, likewise. Default: now.")] = None

    @model_validator(mode="before")
    @classmethod
    def refuse_empty(cls, given: object) -> object:
        """Refuse an empty parameter, as of a variable that is not set.

        Raises:
            QuestionError: There is one.
        """
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if any(one == "" for one in (value if isinstance(value, list) else [value])):
                raise QuestionError(f"{name} is empty: say which requests, or leave it out")
        return given

    def cohort(self, now_ns: int) -> Cohort:
        """Return the cohort that is meant now.

        Raises:
            QuestionError: A time cannot be read, or nothing lies between the two.
        """
        since_ns, until_ns = period_ns(self.since, self.until, now_ns)
        filters = {name: getattr(self, name) for name in Filters.model_fields}
        return Cohort(**filters, since_ns=since_ns, until_ns=until_ns)
