"""The cohort that a page is about: read from its address, shown as a form, put into links."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final, TypeVar
from urllib.parse import quote, unquote, urlencode

from fastapi import Request
from pydantic import BaseModel, ValidationError

from latencytrace.errors import QuestionError
from latencytrace.model.texts.units import count, moment
from latencytrace.service.cohort import (
    LABEL_NAMES,
    LABELS,
    REPEATED,
    Cohort,
    CohortQuery,
    Filters,
    instant_ns,
)
from latencytrace.service.store import Questions
from latencytrace.service.web.pages.rendering import Address
from latencytrace.service.web.queries import CAME, RequestsQuery, refuse_misspelt

FIELDS: Final = tuple(CohortQuery.model_fields)
TIMES: Final = ("since", "until")
SECOND_NS: Final = 10**9
FIRST: Final = "1970-01-01T00:00:00Z"
LONGER: Final = {f"{days}d": days * 86_400 * 10**9 for days in (1, 7, 30)}
_EXACT: Final = {"service", "route", "model", "version", "instance", *REPEATED}
RANGES: Final = ("15m", "1h", "6h", "24h", "7d")
DEFAULT_RANGE: Final = "1h"
WITH_FIELDS: Final = (*TIMES, "service", "route")  # of the form
WHERE: Final = "where"  # the parameter of attributes
HOUR_NS: Final = 3600 * SECOND_NS
ADDED: Final = "add"  # the parameter that holds one more filter
MOST_NAMES: Final = 200  # that a field proposes
MOST_ALIKE: Final = 2  # names that one may have meant
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The parameters of the address of a page, as they were written."""

    given: tuple[tuple[str, str], ...]  # filters and times
    parameters: Mapping[str, str]  # all others, likewise

    @property
    def values(self) -> Mapping[str, str]:
        """The values of the form's fields; moments in whole seconds."""
        found = {name: "&".join(self.all(name)) for name in FIELDS}
        return found | {name: _whole_seconds(name, found[name]) for name in TIMES}

    @property
    def others(self) -> list[tuple[str, str, str]]:
        """The set filters that the form shows as chips: name, label and an empty hint of each."""
        given = dict.fromkeys(name for name, _ in self.given if name not in WITH_FIELDS)
        return [(name, name.replace("_", " ").capitalize(), "") for name in given]

    def all(self, name: str) -> list[str]:
        """All values of a parameter."""
        return [value for key, value in self.given if key == name]

    def again(self, path: str, **changed: str | None) -> Address:
        """An address of the same page with all that it was asked for, but for what is changed."""
        return self.link(path, **{**self.parameters, **changed})

    def chips(self, path: str) -> Iterator[tuple[str, Address]]:
        """The filters without a field of their own, each with the address without it."""
        for name, value in self.given:
            if name in WITH_FIELDS:
                continue
            for condition in value.split("&") if name in REPEATED else [value]:
                key, _, text = condition.partition("=")
                shown = f"{unquote(key)} = {unquote(text)}" if name in REPEATED else value
                said = {"where": "", "without": "not "}.get(name, f"{name.replace('_', ' ')} ")
                yield f"{said}{shown}", self.again(path, **{name: self.less(name, condition)})

    def ranges(self, path: str) -> Iterator[tuple[str, Address, bool]]:
        """The usual times up to now, each with its address, and whether it is the present one."""
        now = None if self.values["until"] else self.values["since"] or DEFAULT_RANGE
        for text in RANGES:
            yield text, self.again(path, since=text, until=None), text == now

    def adding(self, path: str, text: str) -> Address:
        """The address with one more filter, as it was typed.

        Raises:
            QuestionError: The text is no such value.
        """
        key, separator, value = (part.strip() for part in text.partition("="))
        without = key.endswith("!")
        key = key.removesuffix("!").strip()
        if not (key and separator and value):
            raise QuestionError(
                f"{text!r} is no filter: write KEY=VALUE, as tenant=acme, version!=2, "
                "status=failed or duration=2s.."
            )
        changed: dict[str, str | None]
        if without:
            changed = {"without": self.more("without", key, value)}
        elif key in FIELDS and key not in REPEATED:
            changed = {key: value}
        else:
            changed = self._changed(LABEL_NAMES.get(key, key), value)
        return self.again(path, **{ADDED: None}, **changed)

    def having(self, path: str, key: str, value: str) -> Address:
        """An address of the requests that also have a label or an attribute of this value."""
        return self.link(path, **self._changed(key, value))

    def lacking(self, path: str, key: str, value: str) -> Address:
        """An address of the requests without it."""
        return self.link(path, without=self.more("without", key, value))

    def more(self, name: str, key: str, value: str) -> str:
        """A filter that may be repeated, with one more condition."""
        condition = f"{quote(key, safe='')}={quote(value, safe='')}"
        return "&".join([*self.all(name), condition])

    def _changed(self, key: str, value: str) -> dict[str, str | None]:
        return {key: value} if key in LABELS else {"where": self.more("where", key, value)}

    def less(self, name: str, condition: str) -> str | None:
        """The other values of a filter that may be repeated; None: there is none."""
        rest = [one for text in self.all(name) for one in text.split("&") if one != condition]
        return "&".join(rest) if name in REPEATED and rest else None

    def link(self, path: str, **changed: str | None) -> Address:
        """An address with the same cohort, but for what is changed; None: left out."""
        kept = [(name, value) for name, value in self.given if name not in changed]
        added = [(name, value) for name, value in changed.items() if value is not None]
        query = urlencode([*kept, *added])
        return Address(f"{path}?{query}" if query or not path else path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Written):
    """The cohort that the address of a page asks for, and all else that it says."""

    query: RequestsQuery
    cohort: Cohort
    now_ns: int

    def times_ns(self) -> tuple[int, int]:
        """The time of this cohort; without an end it ends now."""
        return self.cohort.since_ns or 0, self.cohort.until_ns or self.now_ns

    def before(self) -> Cohort | None:
        """The same requests of as long a time before; None: there is no such time."""
        since_ns, until_ns = self.times_ns()
        length_ns = until_ns - since_ns
        if since_ns < length_ns:
            return None
        times = {"since_ns": since_ns - length_ns, "until_ns": since_ns}
        return self.cohort.model_copy(update=times)

    def absolute(self) -> Mapping[str, str | None]:
        """The times of this cohort such that they mean the same tomorrow."""
        return dict(zip(TIMES, map(rfc3339, self.times_ns()), strict=True))

    def lasting(self, path: str, **changed: str) -> Address:
        """The address of a page that shows the same tomorrow, but for what is changed."""
        return self.link(path, **{**self.parameters, **self.absolute(), **changed})

    def longer(self) -> str | None:
        """A `since` that takes a longer time than this cohort's; None: longer than any of them."""
        since_ns, until_ns = self.times_ns()
        longer = (text for text, length_ns in LONGER.items() if length_ns > until_ns - since_ns)
        return next(longer, None)

    def period(self) -> str:
        """The time in words."""
        since, until = self.values["since"], self.values["until"]
        begin = moment(self.cohort.since_ns or 0)
        if until:
            return f"from {begin} until {moment(self.cohort.until_ns)}"
        return f"since {begin}" if _is_moment(since) else f"the last {since or '1h'}"


def written(request: Request) -> Written:
    """Take the parameters of an address; a blank field is no filter.

    A filter compares exactly what is stored, blanks before and behind it included. Of two, which
    are refused, the last counts in the links of the page that says so.
    """
    every = request.query_params.multi_items()
    given = [
        (name, value if name in _EXACT else value.strip())
        for name, value in every
        if value.strip() and name != CAME
    ]
    last = {name: place for place, (name, _) in enumerate(given)}
    return Written(
        given=tuple(
            (name, value)
            for place, (name, value) in enumerate(given)
            if name in FIELDS and (name in REPEATED or place == last[name])
        ),
        parameters={name: value for name, value in given if name not in FIELDS},
    )


def asked(request: Request, now_ns: int, own: Collection[str] = ()) -> Asked:
    """Read what an address asks for; an empty field is no filter.

    Args:
        now_ns: The time of day.
        own: Parameters of that page alone, which it reads by itself.

    Raises:
        QuestionError: A value cannot be read; the message says what to write.
    """
    now_ns = -(-now_ns // SECOND_NS) * SECOND_NS  # pictures then begin and end at whole seconds
    found = written(request)
    given = {**dict(found.given), **found.parameters}
    refuse_misspelt(given, (*own, *RequestsQuery.model_fields))
    values: dict[str, object] = {name: value for name, value in given.items() if name not in own}
    values |= {name: found.all(name) for name in REPEATED if found.all(name)}
    query = read(RequestsQuery, values)
    return Asked(
        query=query,
        cohort=query.cohort(now_ns),
        now_ns=now_ns,
        given=found.given,
        parameters=found.parameters,
    )


def read(model: type[_Model], values: Mapping[str, object]) -> _Model:
    """Read parameters.

    Raises:
        QuestionError: A value cannot be read; the message says what to write.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        faults = (f"{fault['loc'][-1]}: {fault['msg']}" for fault in error.errors())
        raise QuestionError("; ".join(faults)) from None


def long_lived(store: Questions, question: Asked, path: str) -> list[tuple[str, Address]]:
    """Routes whose connections stay open, each with the page without it; unless one is named."""
    if question.cohort.route is not None:
        return []
    return [
        (route, question.again(path, without=question.more("without", "route", route)))
        for route in store.long_lived_routes(question.cohort)
    ]


def nearest(store: Questions, question: Asked) -> Iterator[tuple[str, Address]]:
    """Names alike that there are, and what leaving a filter out finds, each with its address."""
    services = store.services() if question.cohort.service else ()
    routes = store.routes(question.cohort.service) if question.cohort.route else ()
    for name, known in (("service", services), ("route", routes)):
        for alike in get_close_matches(question.values[name], known, MOST_ALIKE):
            if alike != question.values[name]:
                yield f"did you mean {name} {alike}?", question.link("", **{name: alike})
    yield from _nearest_attributes(store, question)
    filters = (name for name, _ in question.given if name in Filters.model_fields)
    for name in dict.fromkeys(name for name in filters if name != WHERE):
        empty = Filters.model_fields[name].default
        found = store.count(question.cohort.model_copy(update={name: empty}))
        if found:
            text = f"without {name}: {count(found, 'request')}"
            yield text, question.link("", **{name: None})
    if set(question.values) & set(TIMES):
        ever = question.cohort.model_copy(update={"since_ns": None, "until_ns": None})
        found = store.count(ever)
        if found:
            text = f"at any time: {count(found, 'request')}"
            yield text, question.link("", since=FIRST, until=None)


def _nearest_attributes(store: Questions, question: Asked) -> Iterator[tuple[str, Address]]:
    """Attributes and values alike, and what leaving out one condition finds."""
    conditions = [one for text in question.all(WHERE) for one in text.split("&")]
    for condition in conditions:
        key, _, value = (unquote(part) for part in condition.partition("="))
        without = tuple(pair for pair in question.cohort.where if pair != (key, value))
        others = question.cohort.model_copy(update={WHERE: without})
        keys = store.attribute_keys(others)
        values: list[str] = []
        if key in keys and others.since_ns is not None:
            found = store.groups(others, key, HOUR_NS, MOST_NAMES)
            values = [one.value for one in found.groups]
        rest = question.less(WHERE, condition)
        alike = [
            *((one, value) for one in get_close_matches(key, keys, MOST_ALIKE) if one != key),
            *((key, one) for one in get_close_matches(value, values, MOST_ALIKE)),
        ]
        for pair in alike:
            one = "=".join(quote(part, safe="") for part in pair)
            address = question.link("", where="&".join(filter(None, [rest, one])))
            yield f"did you mean {pair[0]} = {pair[1]}?", address
        number = store.count(others)
        if number:
            text = f"without {key} = {value}: {count(number, 'request')}"
            yield text, question.link("", where=rest)


def rfc3339(at_ns: int) -> str:
    """A moment as `since` and `until` name it, to the microsecond."""
    whole_s, rest_ns = divmod(at_ns, SECOND_NS)
    text = datetime.fromtimestamp(whole_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest_ns // 1000:06d}Z" if rest_ns else f"{text}Z"


def whole_second(at_ns: int) -> str:
    """The whole second before a moment, as `since` names it."""
    return rfc3339(max(at_ns, 0) // SECOND_NS * SECOND_NS)


def next_second(at_ns: int) -> str:
    """The whole second after a moment, as `until` names it."""
    return rfc3339(-(-at_ns // SECOND_NS) * SECOND_NS)


def _whole_seconds(name: str, text: str) -> str:
    if "." not in text or not _is_moment(text):
        return text
    try:
        at_ns = instant_ns(text, 0)
    except QuestionError:
        return text  # the page says what is wrong
    return whole_second(at_ns) if name == TIMES[0] else next_second(at_ns)


def _is_moment(text: str) -> bool:
    return "T" in text or "-" in text
