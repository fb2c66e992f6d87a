"""The incidents now, one a route, and the sentence that says them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast
from urllib.parse import urlencode

from latencytrace.model import AlertKind, Measure
from latencytrace.model.alert import MOSTLY
from latencytrace.model.texts.units import clock, count, duration
from latencytrace.service.answers.documents import AlertDocument, ObjectiveDocument
from latencytrace.service.answers.overview_documents import HeatMapDocument, heat_map
from latencytrace.service.answers.sentences.tail import trait_text
from latencytrace.service.cohort import Cohort
from latencytrace.service.store import Store
from latencytrace.service.web.pages.cohort_bar import rfc3339, whole_second
from latencytrace.service.web.pages.rendering import Address

BEFORE_NS: Final = 30 * 60 * 10**9  # of an incident that its picture shows, at least
_SEVERITY: Final = ("page", "ticket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """The alerts that fire for one route: a page and a ticket are one incident.

    Args:
        route: Its route; None: all of its requests.
        alerts: At least one, the page first.
        threshold_ns: The longest duration that is good; None: none is set.
        others: The other routes of the service that fell silent, too.
    """

    service: str
    route: str | None
    alerts: Sequence[AlertDocument]
    threshold_ns: int | None
    others: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The route, or the service; of several routes how many."""
        if self.others:
            return f"{1 + len(self.others)} routes of {self.service}"
        return self.route or self.service

    def is_of(self, service: str, route: str) -> bool:
        """Tell whether it is one of a route."""
        return self.service == service and (self.route in {None, route} or route in self.others)

    @property
    def since_ns(self) -> int:
        """Since when requests are bad, as far as it is known."""
        return min(int(one["onset"] or one["started"]) for one in self.alerts)

    @property
    def what(self) -> str:
        """The fault, in a word."""
        first = self.alerts[0]
        if first["labels"]["alertname"] == AlertKind.NO_DATA:
            return "silent"
        return "failing" if (first["failed_ratio"] or 0) >= MOSTLY else "slow"

    @property
    def where(self) -> str | None:
        """The slow stage, or the call that fails; None: it is not known, or nothing comes."""
        first = self.alerts[0]
        if self.what == "silent":
            return None
        if first["failing_call"] is not None:
            return first["failing_call"]["name"]
        guilty = first["guilty"]
        return str(guilty["stage"]) if guilty and guilty["share_ratio"] >= MOSTLY else None

    @property
    def who(self) -> str | None:
        """The trait that separates bad requests from good ones; None: none does."""
        apart = [] if self.what == "silent" else self.alerts[0]["distinctions"]
        return trait_text(apart[0]["trait"], apart[0]["value"]) if apart else None

    @property
    def acknowledged(self) -> str | None:
        """Who looks after it; None: it is not acknowledged."""
        said = [one["acknowledged"] for one in self.alerts if one["acknowledged"]]
        return (said[0]["by"] or "somebody") if said else None

    def sentence(self, now_ns: int) -> str:
        """`POST /chat slow since 09:04 UTC, retrieve, tenant globex`."""
        parts = (f"{self.name} {self.what} since {clock(self.since_ns, now_ns)}",)
        return ", ".join((*parts, *filter(None, (self.where, self.who))))

    @property
    def why(self) -> Address:
        """The page that says why its requests are slow."""
        if self.what != "slow" or self.threshold_ns is None:
            return self._link("/breakdown")
        selected = {
            "selected": f"{self.threshold_ns + 1}ns..",
            "selected_since": rfc3339(self.since_ns),
        }
        return self._link("/tail", **selected)

    @property
    def requests(self) -> Address:
        """Its bad requests."""
        if self.what == "failing":
            return self._link("/requests", status="failed")
        if self.what == "silent" or self.threshold_ns is None:
            return self._link("/requests")
        return self._link("/requests", duration=f"{self.threshold_ns + 1}ns..", order="slowest")

    def heat_map(self, store: Store, now_ns: int) -> HeatMapDocument:
        """Its requests over time: of as long before as it lasts, half an hour at least."""
        lasted_ns = max(now_ns - self.since_ns, BEFORE_NS)
        return heat_map(
            store,
            Cohort(service=self.service, route=self._route, since_ns=self.since_ns - lasted_ns),
            now_ns,
        )

    @property
    def _route(self) -> str | None:
        return None if self.others else self.route

    def _link(self, path: str, **more: str) -> Address:
        named = {"service": self.service, "route": self._route}
        since = {"since": whole_second(self.since_ns - BEFORE_NS)}
        query = {name: value for name, value in (named | since | more).items() if value}
        return Address(f"{path}?{urlencode(query)}")


def incidents(
    alerts: Iterable[AlertDocument], objectives: Iterable[ObjectiveDocument]
) -> list[Incident]:
    """Return what is wrong now, the oldest page first."""
    thresholds = {
        (one["name"], one["route"]): one["threshold_ns"]
        for one in objectives
        if one["measure"] == Measure.DURATION
    }
    by_route: dict[tuple[str, str | None], list[AlertDocument]] = {}
    ranked = sorted(
        alerts, key=lambda one: (_SEVERITY.index(one["labels"]["severity"]), int(one["started"]))
    )
    for one in ranked:
        labels = one["labels"]
        by_route.setdefault((labels["service"], labels.get("route")), []).append(one)
    found = [
        Incident(
            service=service,
            route=route,
            alerts=of_route,
            threshold_ns=thresholds.get((of_route[0]["labels"]["slo"], route)),
        )
        for (service, route), of_route in by_route.items()
    ]
    return list(_silent_together(found))


def _silent_together(found: Sequence[Incident]) -> Iterator[Incident]:
    """The same, but the routes of one service that fell silent are one incident."""
    silent: dict[str, list[Incident]] = {}
    for one in found:
        if one.what == "silent" and one.route:
            silent.setdefault(one.service, []).append(one)
    for one in found:
        together = silent.get(one.service, [])
        if one not in together or len(together) == 1:
            yield one
        elif one is together[0]:
            alerts = [alert for each in together for alert in each.alerts]
            others = [str(each.route) for each in together[1:]]
            yield replace(one, alerts=alerts, others=others)


def headline(
    found: Sequence[Incident],
    objectives: Sequence[ObjectiveDocument],
    traffic: Mapping[str, object],
    now_ns: int,
) -> str:
    """The one sentence: is anything wrong, where, since when; or that nothing is.

    Args:
        traffic: Of the route that took most time: its `name`, `p99_ns` and `change`; the
            names of the routes that are `slower`, and `per_s` of all. Empty: no request came.
    """
    if found:
        said = found[0].sentence(now_ns)
        more = f"; {'; '.join(one.sentence(now_ns) for one in found[1:3])}" if found[1:] else ""
        rest = f" and {len(found) - 3} more" if len(found) > 3 else ""  # noqa: PLR2004 - three are said
        return f"{count(len(found), 'incident')}: {said}{more}{rest}"
    state = _standing(objectives)
    if not traffic:
        return f"{state}; no requests"
    slower = cast("Sequence[str]", traffic["slower"])
    if slower:
        more = f" and {len(slower) - 1} more" if slower[1:] else ""
        state += f"; slower than before: {slower[0]}{more}"
    return (
        f"{state}; {traffic['per_s']} req/s; {traffic['name']} p99 "
        f"{duration(float(str(traffic['p99_ns'])))}{traffic['change']}"
    )


def _standing(objectives: Sequence[ObjectiveDocument]) -> str:
    """Say how the objectives stand where no alert fires."""
    left = [(one["name"], one["budget_left_ratio"]) for one in objectives]
    known = [(name, ratio) for name, ratio in left if ratio is not None]
    spent = sorted({name for name, ratio in known if ratio <= 0})
    unknown = len(left) - len(known)
    if not left:
        return "No incident; no objective is set"
    if spent:
        return f"No incident now; budget spent: {', '.join(spent)}"
    if not known:
        return f"No incident; no data for {count(unknown, 'objective')}"
    if len(left) == 1:
        return "The objective is met"
    if unknown:
        return f"{len(known)} of {count(len(left), 'objective')} met, {unknown} without data"
    return f"All {len(left)} objectives met"
