"""Answers for reading commands: of the service, or of the data folder itself."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast
from urllib.parse import quote, urlencode

from latencytrace.cli.pictures.lines import complain
from latencytrace.cli.processes.local_service import (
    EXTRA_HINT,
    is_loopback,
    listens,
    service_is_installed,
)
from latencytrace.cli.source.filters import Filters
from latencytrace.cli.source.service_address import service_address
from latencytrace.errors import LatencytraceError, ServiceUnreachableError, TooLargeError
from latencytrace.model.texts.escaped import escaped
from latencytrace.service.answers.documents import (
    AlertDocument,
    BreakdownDocument,
    ListedRequestDocument,
    ObjectivesDocument,
    RequestDocument,
    RequestsDocument,
    RouteBreakdownsDocument,
    ServiceDocument,
    TraceIdsDocument,
)
from latencytrace.service.answers.gpu_documents import GpusDocument, GpuStageDocument
from latencytrace.service.answers.tail_documents import TailDocument
from latencytrace.service.net.http_client import ask
from latencytrace.settings import data_folder, service_token

if TYPE_CHECKING:  # slow to import, or an extra's
    import httpx

    from latencytrace.service.answers.groups import GroupsDocument
    from latencytrace.service.answers.overview_documents import OverviewDocument
    from latencytrace.service.objectives.report import ReportDocument

HEALTHY_WITHIN_S = 5.0  # a busy machine's service is there, too


class Source(Protocol):
    """Answers a GET of the JSON API, wherever the answer comes from."""

    def document(self, path: str, parameters: Filters) -> object:
        """The API's document for a path below `/api/v1`.

        Raises:
            LatencytraceError: There is none; the message says what to do.
        """
        ...

    def body(self, path: str, parameters: Filters) -> bytes:
        """The same where the answer is no JSON."""
        ...


class Api(Source, Protocol):
    """A source that takes documents too."""

    def send(self, method: str, path: str, document: object) -> object:
        """Send the API a document, and return its answer.

        Raises:
            LatencytraceError: It refuses; the message says why.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSource:
    """A service that runs."""

    url: str
    token: str | None = None
    timeout_s: float = 60.0

    def document(self, path: str, parameters: Filters) -> object:
        return _document(self.body(path, parameters), self.url)

    def body(self, path: str, parameters: Filters) -> bytes:
        query = f"?{urlencode(parameters)}" if parameters else ""
        return self._answer("GET", f"{path}{query}")

    def send(self, method: str, path: str, document: object) -> object:
        return _document(self._answer(method, path, json.dumps(document).encode()), self.url)

    def _answer(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {} if body is None else {"content-type": "application/json"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        try:
            answer = ask(
                method, f"{self.url}/api/v1{path}", self.timeout_s, content=body, headers=headers
            )
        except OSError as error:
            raise ServiceUnreachableError(
                f"the service at {self.url} fell silent: {error}"
            ) from None
        if not answer.is_success:
            large = answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            raise (TooLargeError if large else LatencytraceError)(_problem(answer))
        return answer.content


def service(url: str | None) -> ServiceSource:
    """Find the service that runs at an address, the usual one by default.

    Raises:
        ServiceUnreachableError: None does.
    """
    address = service_address(url)
    running = service_at(address)
    if running is None:
        raise ServiceUnreachableError(f"{nobody_at(address)}: start one with `latencytrace serve`")
    return running


@contextmanager
def source(url: str | None, data: Path | None) -> Iterator[Api]:
    """Find what can answer: the folder named, else the service, else the usual folder.

    Raises:
        ServiceUnreachableError: Nothing can; the message says what to do.
    """
    address = service_address(url)
    running = service_at(address) if data is None else None
    if running is not None:
        yield running
        return
    if data is None and (url is not None or not is_loopback(address)):
        raise ServiceUnreachableError(
            f"{nobody_at(address)}: start one with `latencytrace serve`, "
            "or read its folder with --data"
        )
    with _folder(data or data_folder(), address, named=data is not None) as folder:
        yield folder


def service_at(address: str) -> ServiceSource | None:
    """Find the service that runs at an address; None: none does."""
    try:
        answer = ask("GET", f"{address}/healthz", HEALTHY_WITHIN_S)
    except OSError:
        return None
    if answer.status_code != HTTPStatus.OK:
        return None
    return ServiceSource(url=address, token=service_token())


def nobody_at(address: str) -> str:
    """Say that no service answers at an address, and what does."""
    nobody = f"no service answers at {address}"
    try:
        answer = ask("GET", f"{address}/healthz", HEALTHY_WITHIN_S)
    except OSError as error:
        return f"{nobody} (what listens there: {error})" if listens(address) else nobody
    status = escaped(f"{answer.status_code} {answer.reason_phrase}")
    return f"{nobody} (another program does: GET /healthz got {status})"


@contextmanager
def _folder(folder: Path, address: str, *, named: bool) -> Iterator[Api]:
    missing = f"there are no data in {folder}"
    if folder.exists() and not folder.is_dir():
        missing = f"{folder} is no folder"
    if not folder.is_dir() or next(folder.iterdir(), None) is None:
        raise ServiceUnreachableError(
            missing
            if named
            else f"{nobody_at(address)} and {missing}: "
            "trace a program first, with `latencytrace run -- COMMAND`"
        )
    if not service_is_installed():
        raise ServiceUnreachableError(
            f"{nobody_at(address)}, and reading {folder} directly needs the "
            f"service's parts: {EXTRA_HINT}"
        )
    from latencytrace.cli.source.folder import open_folder

    if not named:
        complain(f"no service runs, reading {folder}")
    with open_folder(folder) as opened:
        yield opened


def breakdown(source: Source, wanted: Filters) -> BreakdownDocument:
    """Time per stage of a cohort."""
    return cast(BreakdownDocument, source.document("/breakdown", wanted))


def breakdowns(source: Source, wanted: Filters, limit: int) -> RouteBreakdownsDocument:
    """Time per stage of each route by itself, those first that took most time in all."""
    asked = {**wanted, "limit": str(limit)}
    return cast(RouteBreakdownsDocument, source.document("/breakdown/routes", asked))


def groups(source: Source, wanted: Filters, by: str, limit: int | None) -> "GroupsDocument":
    """A cohort by a label or an attribute."""
    asked = {**wanted, "by": by} | ({} if limit is None else {"limit": str(limit)})
    return cast("GroupsDocument", source.document("/breakdown/groups", asked))


def tail(source: Source, wanted: Filters, quantile: float) -> TailDocument:
    """The slowest requests of a cohort against its usual ones."""
    return cast(TailDocument, source.document("/tail", {**wanted, "quantile": str(quantile)}))


def requests_document(source: Source, wanted: Filters, order: str, limit: int) -> RequestsDocument:
    asked = {**wanted, "order": order, "limit": str(limit)}
    return cast(RequestsDocument, source.document("/requests", asked))


def requests(
    source: Source, wanted: Filters, order: str, limit: int
) -> list[ListedRequestDocument]:
    """Requests of a cohort, without their spans."""
    return listed(source, wanted, order, limit)["requests"]


def listed(source: Source, wanted: Filters, order: str, limit: int) -> RequestsDocument:
    """The same, and how many there are; an older service does not say."""
    document = requests_document(source, wanted, order, limit)
    return {"requests": document["requests"], "matching": document.get("matching", 0)}


def trace_ids(source: Source, wanted: Filters, beginning: str, limit: int) -> list[str]:
    """The first traces of a cohort with ids that begin so."""
    asked = {**wanted, "beginning": beginning, "limit": str(limit)}
    return cast(TraceIdsDocument, source.document("/traces", asked))["trace_ids"]


def request(source: Source, trace_id: str) -> RequestDocument:
    path = f"/requests/{quote(trace_id, safe='')}"
    return cast(RequestDocument, source.document(path, {}))


def gpus(source: Source) -> GpusDocument:
    return cast(GpusDocument, source.document("/gpu", {}))


def stages_on_gpus(source: Source) -> list[GpuStageDocument]:
    """The work on GPUs; none, where an older service does not know the question."""
    try:
        return gpus(source)["stages"]
    except LatencytraceError:
        return []


def services(source: Source) -> list[ServiceDocument]:
    document = source.document("/services", {})
    return cast("dict[str, list[ServiceDocument]]", document)["services"]


def overview(source: Source, wanted: Filters) -> "OverviewDocument":
    """The routes of a cohort, those first that took most time in all."""
    return cast("OverviewDocument", source.document("/overview", wanted))


def objectives(source: Source) -> ObjectivesDocument:
    """The objectives and how they stand; an older service knows no windows of maintenance."""
    none: dict[str, object] = {"maintenance": []}
    document = cast("dict[str, object]", source.document("/objectives", {}))
    return cast(ObjectivesDocument, none | document)


def objectives_report(source: Source, month: str | None) -> "ReportDocument":
    """How each objective was kept in a month; None: this one."""
    document = source.document("/objectives/report", {} if month is None else {"month": month})
    return cast("ReportDocument", document)


def alerts(source: Source) -> list[AlertDocument]:
    document = source.document("/alerts", {})
    return cast("dict[str, list[AlertDocument]]", document)["alerts"]


def _document(body: bytes, url: str) -> object:
    try:
        document: object = json.loads(body)
    except ValueError:
        raise ServiceUnreachableError(
            f"no service answers at {url}: another program does, and not with JSON"
        ) from None
    return document


def _problem(answer: "httpx.Response") -> str:
    """Read an RFC 9457 problem document."""
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    detail = problem.get("detail") or problem.get("title") if isinstance(problem, dict) else None
    status = f"{answer.url} answered {answer.status_code} {answer.reason_phrase}"
    return escaped(str(detail or status))
