"""Reasons why a question found no request, as far as the service can tell."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from urllib.parse import unquote

from latencytrace.cli.pictures.terminal import say_document
from latencytrace.cli.source import reading
from latencytrace.cli.source.filters import Filters
from latencytrace.errors import NotFoundError
from latencytrace.model.texts.units import moment
from latencytrace.service.cohort import REPEATED

TIMES = ("since", "until")
NAMES = ("service", "route")
FIRST = "1970-01-01T00:00:00Z"
MOST_NAMES = 20
MOST_REQUESTS = 1000  # the newest, for the versions that there are
HOW_TO_HAVE_ONE = "a program has one with OTEL_RESOURCE_ATTRIBUTES=service.version=1.2."
NO_VERSION = f"None has a version: {HOW_TO_HAVE_ONE}"
NOTHING_YET = (
    "No request is there yet. Is the program traced (`latencytrace run -- COMMAND`, or any "
    "OpenTelemetry SDK), and has it been asked anything? A request shows within three seconds of "
    "its end. `latencytrace doctor` says whether spans without a request have arrived."
)


def why_none(source: reading.Source, wanted: Filters) -> str:
    """Explain why no request answers a question.

    Unknown names come first, then a time without any request, then the filters that
    no request of that time passes.
    """
    listed = _nobodys(source, wanted)
    if listed is not None:
        return listed
    times = {name: value for name, value in wanted.items() if name in TIMES}
    if not _any(source, times):
        return _none_then(source, wanted)
    filters = [item for item in wanted.items() if item[0] not in TIMES]
    each = list(_one_by_one(filters))
    nobodys = [flag for flag, alone in each if not _any(source, {**times, **alone})]
    if nobodys:
        missing = f"No request {period(wanted)} has {' or '.join(nobodys)}"
        called = _service_called(source, wanted)
        if called is not None:
            return f"{missing}, but those that others called do: add --service {called}."
        is_version = "version" in wanted and _flag("version", wanted["version"]) in nobodys
        return f"{missing}. {_versions(source, wanted)}" if is_version else f"{missing}."
    flags = ", ".join(flag for flag, _ in each)
    return f"Requests {period(wanted)} have each of {flags}, but none has all of them."


def nothing(source: reading.Source, wanted: Filters) -> str:
    """Explain why no request answers a question about known names.

    Raises:
        NotFoundError: One of them is unknown; the message lists the known ones.
    """
    require_known(source, wanted)
    return why_none(source, wanted)


def require_known(source: reading.Source, wanted: Filters) -> None:
    """Fail where no request was found because a name that was asked for is unknown.

    Raises:
        NotFoundError: The message lists the known names.
    """
    listed = _nobodys(source, wanted)
    if listed is not None:
        raise NotFoundError(listed)


def require_version(source: reading.Source, wanted: Filters) -> None:
    """Fail where no request of the service, however old, has the version asked for.

    Raises:
        NotFoundError: The message says which versions there are.
    """
    ever = {"since": FIRST, **{name: wanted[name] for name in ("service",) if name in wanted}}
    if "version" not in wanted or not _any(source, ever):
        return
    asked = {**ever, "version": wanted["version"]}
    if not _any(source, asked) and _service_called(source, asked) is None:
        flag = _flag("version", wanted["version"])
        raise NotFoundError(f"No request of any time has {flag}. {_versions(source, ever)}")


def say_found(source: reading.Source, wanted: Filters, document: Mapping[str, object]) -> None:
    """Print a document with its `requests`.

    Raises:
        NotFoundError: It has none, as a name that was asked for is unknown.
    """
    say_document(document)
    if not document["requests"]:
        require_known(source, wanted)


def unknown(source: reading.Source, wanted: Filters) -> str | None:
    """Say which name is unknown, and which there are; None: all are known."""
    listed = reading.services(source)
    named, route = wanted.get("service"), wanted.get("route")
    known = {service["service"] for service in listed}
    if named is not None and named not in known:
        return f"No service is called {named!r}. There are: {_names(known)}."
    routes = {
        known_route
        for service in listed
        if named in {None, service["service"]}
        for known_route in service["routes"]
    }
    if route is not None and route not in routes:
        return f"No route is called {route!r}. There are: {_names(routes)}."
    return None


def _nobodys(source: reading.Source, wanted: Filters) -> str | None:
    """As `unknown`, but routes that no list has, as of health checks, are known by requests."""
    listed = unknown(source, wanted)
    names = {name: wanted[name] for name in NAMES if name in wanted}
    return None if listed is None or _any(source, {"since": FIRST, **names}) else listed


def period(wanted: Filters) -> str:
    """The time that was asked for, in words."""
    if "since" not in wanted:
        return "in the last hour"
    return "with " + " ".join(_flag(name, wanted[name]) for name in TIMES if name in wanted)


def _none_then(source: reading.Source, wanted: Filters) -> str:
    newest = reading.requests(source, {"since": FIRST}, "newest", 1)
    if not newest:
        return NOTHING_YET
    started = datetime.fromtimestamp(int(newest[0]["start"]) // 10**9, UTC)
    return (
        f"No request {period(wanted)}. The newest one started at "
        f"{moment(newest[0]['start'])}: --since {started:%Y-%m-%dT%H:%M:%SZ} shows it."
    )


def _one_by_one(filters: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Filters]]:
    """Each filter as it was written, and as a question of its own."""
    for name, value in filters:
        for part in value.split("&") if name in REPEATED else [value]:
            yield _flag(name, unquote(part) if name in REPEATED else part), {name: part}


def _versions(source: reading.Source, wanted: Filters) -> str:
    """The versions that there are, of the service and the route that were asked for."""
    names = {name: wanted[name] for name in (*TIMES, *NAMES) if name in wanted}
    times = {name: wanted[name] for name in TIMES if name in wanted}
    newest = reading.requests(source, names, "newest", MOST_REQUESTS)
    newest = newest or reading.requests(source, times, "newest", MOST_REQUESTS)
    versions = {version for request in newest if (version := request["version"])}
    if len(newest) < MOST_REQUESTS:  # they are all
        return f"Versions: {_names(versions)}." if versions else NO_VERSION
    among = f"the newest {MOST_REQUESTS:,}"
    if versions:
        return f"Versions of {among}: {_names(versions)}."
    return f"None of {among} has a version: {HOW_TO_HAVE_ONE}"


def _service_called(source: reading.Source, wanted: Filters) -> str | None:
    """A service with requests of other services that pass; None: there is none."""
    if "service" in wanted:
        return None
    names = sorted(service["service"] for service in reading.services(source))[:MOST_NAMES]
    return next((one for one in names if _any(source, {**wanted, "service": one})), None)


def _any(source: reading.Source, wanted: Filters) -> bool:
    return bool(reading.requests(source, wanted, "newest", 1))


def _flag(name: str, value: str) -> str:
    written = f'"{value}"' if " " in value or not value else value
    return f"--{name.replace('_', '-')} {written}"


def _names(known: Iterable[str]) -> str:
    names = sorted(known)
    more = [f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
    return ", ".join([*names[:MOST_NAMES], *more]) or "none yet"
