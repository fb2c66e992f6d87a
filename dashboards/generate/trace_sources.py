"""Links to a Tempo or Jaeger beside those to our own pages, for who sends traces there as well."""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, cast
from urllib.parse import quote

from dashboards.generate.dashboard import SERVICE_URL, SLOWEST, Json, link_of_data

_FIELD: Final = r"(\$\{[^}]+\})"  # what Grafana puts in, already encoded for an address
_TRACE: Final = re.compile(re.escape(f"{SERVICE_URL}/requests/") + _FIELD)
_REQUESTS: Final = re.compile(re.escape(SLOWEST) + f"&service={_FIELD}&route={_FIELD}")
_FIELDS: Final = re.compile(_FIELD)
_LIMIT: Final = 20  # traces found
_TRACEQL: Final[Json] = {"queryType": "traceql", "filters": []}  # which its type demands


class TraceKind(StrEnum):
    """Data sources of Grafana's own that show traces."""

    TEMPO = "tempo"
    JAEGER = "jaeger"


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A data source that holds the same traces.

    Args:
        kind: Its type.
        uid: What Grafana knows it by.
    """

    kind: TraceKind
    uid: str

    def linked(self, dashboard: Json) -> Json:
        """The same dashboard; what leads to requests on our pages leads to this source, too."""
        return cast("Json", self._linked(dashboard))

    def _linked(self, part: object) -> object:
        if isinstance(part, dict):
            return {key: self._linked(value) for key, value in part.items()}
        if not isinstance(part, list):
            return part
        found = [self._linked(one) for one in part]
        beside = [
            self._beside(one["url"]) for one in part if isinstance(one, dict) and "url" in one
        ]
        return [*found, *(link for link in beside if link is not None)]

    def _beside(self, url: str) -> Json | None:
        """The link that belongs beside one of ours; None: that one leads to no requests."""
        if trace := _TRACE.fullmatch(url):
            return self._link("The trace", self._of_trace(trace[1]))
        if requests := _REQUESTS.fullmatch(url):
            return self._link("Its traces", self._of_requests(*requests.groups()))
        return None

    def _of_trace(self, trace_id: str) -> Json:
        kind = _TRACEQL if self.kind is TraceKind.TEMPO else {}
        return {**kind, "query": trace_id}

    def _of_requests(self, service: str, route: str) -> Json:
        if self.kind is TraceKind.TEMPO:
            asked = f'{{resource.service.name="{service}" && name="{route}"}}'
            return {**_TRACEQL, "query": asked, "tableType": "traces", "limit": _LIMIT}
        return {"queryType": "search", "service": service, "operation": route, "limit": _LIMIT}

    def _link(self, title: str, query: Json) -> Json:
        source = {"type": self.kind.value, "uid": self.uid}
        pane = {
            "datasource": self.uid,
            "queries": [{"refId": "A", "datasource": source, **query}],
            "range": {"from": "${__from}", "to": "${__to}"},
        }
        panes = _encoded(json.dumps({"latencytrace": pane}, separators=(",", ":")))
        title = f"{title} in {self.kind.capitalize()}"
        return link_of_data(title, f"/explore?schemaVersion=1&panes={panes}")


def _encoded(text: str) -> str:
    """A text for an address, in which Grafana still finds what it puts in."""
    return "".join(
        part if _FIELDS.fullmatch(part) else quote(part, safe="") for part in _FIELDS.split(text)
    )
