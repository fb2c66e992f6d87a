"""The service's composition root: settings in, two listening applications out."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from socket import gethostname, socket

from fastapi import FastAPI

from latencytrace.errors import SettingsError, StoreError
from latencytrace.extensions.loading import FIX, OF_THE_SERVICE, missing
from latencytrace.model import Objective, Request
from latencytrace.service.alerting.document import AlertLinks
from latencytrace.service.alerting.over_time import objectives_over_time
from latencytrace.service.answers.findings.overhead import latest_overhead
from latencytrace.service.answers.gpu_answers import gpus, timelines
from latencytrace.service.clock import now_ns
from latencytrace.service.ingest.grpc import GrpcReceiver
from latencytrace.service.ingest.http import receiver
from latencytrace.service.ingest.intake import Intake
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.ledgers.column_attribution import ColumnAttribution
from latencytrace.service.ledgers.context import PipelineContext
from latencytrace.service.ledgers.pipeline import Pipeline
from latencytrace.service.metrics.cohorts import ControlGroup
from latencytrace.service.metrics.counted_requests import STAGE_BUCKETS
from latencytrace.service.metrics.endpoint import MetricsEndpoint, metrics_endpoint
from latencytrace.service.metrics.settling import Settled
from latencytrace.service.metrics.storage import StorageMetrics
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.net import connections
from latencytrace.service.net.edge import Application, Edge, is_loopback
from latencytrace.service.net.listeners import Listener, Servers, listening, on_hangup
from latencytrace.service.objectives.counts import ObjectiveIndex
from latencytrace.service.objectives.evaluator import Evaluator
from latencytrace.service.objectives.file import read_objectives
from latencytrace.service.profiles.folder import NAME as PROFILES
from latencytrace.service.profiles.folder import ProfileFolder
from latencytrace.service.profiles.orders import Profiles
from latencytrace.service.reports.device_works import DeviceWorks
from latencytrace.service.reports.engine_history import EngineHistory
from latencytrace.service.reports.engine_scraper import EngineScraper, checked_engines, fetch
from latencytrace.service.reports.gpu_samplers import MetricReports
from latencytrace.service.storage.baselines import NAME as BASELINES
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.storage.retention import Limits, Retention
from latencytrace.service.store import Store, open_store
from latencytrace.service.watch import ObjectivesReload, Watch, watching
from latencytrace.service.web.application import API, application
from latencytrace.service.web.below_path import BelowPath
from latencytrace.service.web.context import ServiceContext
from latencytrace.service.web.login import LoginPage
from latencytrace.service.web.pages.assets import Assets
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.rendering import Renderer
from latencytrace.service.web.pages.routes import add_pages
from latencytrace.service.web.views.health import health_router, receivers_router
from latencytrace.service.web.views.maintenance import maintenance_router
from latencytrace.service.web.views.objectives import (
    alerts_document,
    objectives_document,
    objectives_router,
    watched_objectives,
)
from latencytrace.service.web.views.profiles import profiles_router
from latencytrace.settings import Address, ServiceSettings

_log = logging.getLogger(__name__)
_NO_TRACE = "0" * 32
_NOT_COMPILED = (
    "each span takes this service some ten times as long as it need, for nothing is compiled: %s"
)


def _control_group(store: Store, reports: MetricReports) -> ControlGroup:
    return ControlGroup(
        partial(latest_overhead, store, now_ns),
        lambda: reports.agents.have_control_group,
        time.monotonic_ns,
    )


def serve(
    settings: ServiceSettings,
    ready: Callable[[Address, Address, Address | None], None],
    *,
    insecure: bool,
    stopping: Callable[[float], None] = lambda _: None,
) -> None:
    """Run the service until SIGINT or SIGTERM stops it.

    Args:
        ready: Called with the addresses of the API, of the receiver over HTTP and of the one
            over gRPC, if it is on.
        insecure: Listen off loopback without asking for a token.
        stopping: Called when it is to stop, with the seconds that it has left.

    Raises:
        SettingsError: An address cannot be used; the message says what to do.
        ObjectivesError: The file of objectives is wrong.
        StoreInUseError: Another process owns the data folder.
    """
    _check_doors(settings, insecure=insecure)
    reload, index = _watched(settings)
    addresses = checked_engines(settings.scrape)
    folder = settings.folder
    with ExitStack() as opened:
        api_socket = opened.enter_context(_listening(settings.listen, "--listen"))
        otlp_socket = opened.enter_context(_listening(settings.otlp_http, "--otlp-http"))
        grpc_socket = None
        if settings.otlp_grpc is not None:
            grpc_socket = opened.enter_context(_listening(settings.otlp_grpc, "--otlp-grpc"))
        grpc_address = _address(grpc_socket) if grpc_socket is not None else None
        endpoint = _metrics_endpoint(settings, (_address(otlp_socket), grpc_address))
        store = opened.enter_context(closing(open_store(settings.store, folder)))
        telemetry = _telemetry(settings, reload.objectives)
        reports = MetricReports.of(time.monotonic_ns, gpu_estimates=settings.gpu_estimates)
        engines, history = _engines(addresses, reports)
        works = DeviceWorks()
        telemetry.registry.register(reports)
        telemetry.registry.register(engines)
        telemetry.registry.register(_control_group(store, reports))
        profiles = Profiles(
            ProfileFolder(folder / PROFILES),
            time.monotonic_ns,
            now_ns,
            on_alert=settings.profile_on_alert,
        )
        links = _links(settings, _address(api_socket), profiles)
        evaluator, watch = watching(
            folder, reload, settings.sinks, store, links, telemetry, profiles.alerted
        )
        record = opened.enter_context(_recording(endpoint, telemetry, _address(api_socket)))

        def on_settled(settled: Settled) -> None:
            watch.count(settled)
            record(settled.each())

        pipeline = Pipeline(
            store,
            telemetry,
            time.monotonic_ns,
            replace(
                _context(settings),
                objectives=index,
                settle_s=settings.settle_s,
                counted_until_ns=evaluator.counted_until_ns,
                on_settled=on_settled,
                on_spans=works.add,
                tidy=_retention(settings, store, telemetry).step,
            ),
            Journal(folder / "journal"),
        )
        token = None if insecure else settings.token
        intake = _intake(settings, pipeline, telemetry)
        grpc = [] if grpc_socket is None else [GrpcReceiver(intake, reports, grpc_socket, token)]
        stop = partial(_stop, store, partial(stopping, settings.stop_within_s))
        servers = Servers(*grpc, stopping=stop, closed=telemetry.connection_closed)
        unready = partial(_unready, store, pipeline, watch, servers)
        context = ServiceContext(
            store=store, baselines=Baselines(folder / BASELINES), now_ns=now_ns,
            open_because=pipeline.open_because, profiles_of=profiles.of_trace,
            objectives=partial(watched_objectives, evaluator),
            gpus=partial(gpus, reports.gpus, works),
            gpu_timelines=partial(timelines, reports.gpus, works), beside=history.beside,
            logs_url=settings.logs_url,
        )  # fmt: skip
        answering = api(context, telemetry, unready, _address(otlp_socket))
        renderer = _with_pages(answering, context, profiles, evaluator, links, telemetry, unready)
        with _running(watch), _running(pipeline), _running(engines), on_hangup(reload.ask):
            ready(_address(api_socket), _address(otlp_socket), grpc_address)
            servers.run(
                Listener(
                    application=_below(
                        settings.root_path,
                        Edge(
                            answering,
                            settings.listen.host,
                            token,
                            public_url=settings.public_url,
                            wants_json=True,
                            login=_login(renderer, token, settings.public_url),
                        ),
                    ),
                    socket=api_socket,
                ),
                Listener(
                    application=Edge(
                        receiver(intake, reports, profiles), settings.otlp_http.host, token
                    ),
                    socket=otlp_socket,
                ),
            )


def api(
    context: ServiceContext,
    telemetry: Telemetry,
    unready: Callable[[], str | None],
    otlp_http: Address,
) -> FastAPI:
    """The JSON API with its health checks and metrics."""
    app = application(context)
    app.include_router(receivers_router(otlp_http.host, otlp_http.port), prefix=API)
    app.include_router(health_router(telemetry, unready))
    return app


def _engines(
    addresses: Sequence[str], reports: MetricReports
) -> tuple[EngineScraper, EngineHistory]:
    """The engines that are scraped, and what they reported."""
    history = EngineHistory(now_ns)
    receive = reports.gpus.receive
    return EngineScraper(addresses, fetch, time.monotonic_ns, receive, history.note), history


def _intake(settings: ServiceSettings, pipeline: Pipeline, telemetry: Telemetry) -> Intake:
    if missing(OF_THE_SERVICE):
        _log.warning(_NOT_COMPILED, FIX)
    return Intake(
        pipeline.keep,
        telemetry,
        require_room=pipeline.require_room,
        capture_content=settings.capture_content,
    )


def _links(settings: ServiceSettings, listened: Address, profiles: Profiles) -> AlertLinks:
    return AlertLinks(
        service=settings.public_url or f"http://{listened}",
        dashboard=settings.dashboard_url,
        is_profile=profiles.is_known,
    )


def _with_pages(
    app: FastAPI,
    context: ServiceContext,
    profiles: Profiles,
    evaluator: Evaluator,
    links: AlertLinks,
    telemetry: Telemetry,
    unready: Callable[[], str | None],
) -> Renderer:
    """Add objectives, profiles and the pages to the API, and return what draws these."""
    app.include_router(objectives_router(evaluator, links), prefix=API)
    app.include_router(maintenance_router(evaluator, links, now_ns), prefix=API)
    app.include_router(profiles_router(profiles, links.of_profile), prefix=API)
    assets = Assets()
    renderer = Renderer(assets)
    parts = Parts(
        service=context,
        renderer=renderer,
        objectives=partial(objectives_document, evaluator),
        objectives_over_time=partial(objectives_over_time, evaluator),
        alerts=partial(alerts_document, evaluator, links),
        past_alerts=evaluator.past_alerts,
    )
    add_pages(app, parts, assets, telemetry.registry, unready)
    return renderer


def _stop(store: Store, stopping: Callable[[], None]) -> None:
    store.hurry()
    stopping()


def _below(root_path: str | None, edge: Edge) -> Application:
    return edge if root_path is None else BelowPath(edge, root_path)


def _login(renderer: Renderer, token: str | None, public_url: str | None) -> LoginPage | None:
    return None if token is None else LoginPage(renderer, token, now_ns, public_url=public_url)


def _unready(store: Store, pipeline: Pipeline, watch: Watch, servers: Servers) -> str | None:
    """The reason why spans are not received, stored and attributed; None: they are."""
    if not servers.are_started:
        return "the receivers of spans have not started yet"
    short = connections.shortage()
    if short is not None:
        return short
    if pipeline.fault is not None:
        return pipeline.fault
    if not watch.is_running:
        return "objectives are not being watched: see the log, and start the service again"
    try:
        store.request(_NO_TRACE, None)
    except StoreError as error:
        return f"the store does not answer: {error}"
    return None


def _context(settings: ServiceSettings) -> PipelineContext:
    return PipelineContext(
        columns=ColumnAttribution(settings.max_weight, settings.longest_ns),
        keep_spans_ratio=settings.keep_spans_ratio,
    )


@contextmanager
def taking_in(settings: ServiceSettings) -> Iterator[tuple[Store, Pipeline]]:
    """A store and its pipeline without a service around them, as an import needs them.

    Raises:
        StoreInUseError: Another process owns the data folder.
    """
    with closing(open_store(settings.store, settings.folder)) as store:
        pipeline = Pipeline(store, Telemetry(), time.monotonic_ns, _context(settings))
        with _running(pipeline):
            yield store, pipeline


@dataclass(slots=True)
class Adopted:
    """Spans and requests that a service that died left, and that were taken over."""

    spans: int = 0  # of its journal, that the store has now
    requests: int = 0  # ledgers written for it

    def count(self, settled: Settled) -> None:
        """Count requests that were written."""
        self.requests += len(settled)


def take_over(settings: ServiceSettings) -> Adopted:
    """Do what a service that died would do at its next start, and end.

    Its journal is stored, and what it stored and did not attribute is. To do so again is nothing.

    Raises:
        StoreInUseError: The service runs.
        StoreError: The store fails; what was not done is done the next time. Or a file of the
            journal is damaged.
    """
    adopted = Adopted()
    folder = settings.folder / "journal"
    aside = set(folder.glob("*.damaged"))
    with closing(open_store(settings.store, settings.folder)) as store:
        # Twice: what the journal has of traces that other services know as well is read from the
        # store with what these stored, and so are those whose root never came here.
        for _ in range(2):
            telemetry = Telemetry()
            context = replace(_context(settings), on_settled=adopted.count)
            pipeline = Pipeline(store, telemetry, time.monotonic_ns, context, Journal(folder))
            with _running(pipeline):
                pass
            if pipeline.left_fault is not None:
                raise pipeline.left_fault
            if left := sorted(folder.glob("*.spans")):
                raise StoreError(f"{left[0]} is not stored as a whole: see what is logged of it")
            adopted.spans += round(
                telemetry.registry.get_sample_value("latencytrace_service_spans_received_total")
                or 0
            )
    if damaged := sorted({*folder.glob("*.damaged")} - aside):
        raise StoreError(f"{damaged[0]} keeps what cannot be read of it: all else is stored")
    return adopted


@contextmanager
def _running(part: Pipeline | Watch | EngineScraper) -> Iterator[None]:
    part.start()
    try:
        yield
    finally:
        part.close()


def _metrics_endpoint(
    settings: ServiceSettings, own: Iterable[Address | None]
) -> MetricsEndpoint | None:
    """Return where metrics are sent, if anywhere; never to a receiver of our own."""
    if settings.metrics_endpoint is None:
        return None
    receivers = [(address.host, address.port) for address in own if address is not None]
    return metrics_endpoint(settings.metrics_endpoint, settings.metrics_protocol, receivers)


def _recording(
    endpoint: MetricsEndpoint | None, telemetry: Telemetry, api_address: Address
) -> AbstractContextManager[Callable[[Iterable[Request]], None]]:
    """Return what records requests, and send its metrics while the block runs."""
    if endpoint is None:
        return nullcontext(lambda _: None)
    # The SDK's metrics, which most services do without, take a while to import.
    from latencytrace.service.metrics.sender import sending_metrics  # noqa: PLC0415

    return sending_metrics(
        endpoint,
        instance=f"latencytrace@{gethostname()}:{api_address.port}",
        failed=telemetry.metrics_unsent.inc,
    )


def _retention(settings: ServiceSettings, store: Store, telemetry: Telemetry) -> Retention:
    """The task that drops ledgers and spans kept for long enough, with its metrics."""
    limits = Limits(
        requests_ns=_whole(settings.keep_requests_s, 1e9),
        spans_ns=_whole(settings.keep_spans_s, 1e9),
        max_bytes=_whole(settings.max_disk_bytes),
    )
    retention = Retention(store, limits, now_ns, time.monotonic_ns)
    telemetry.registry.register(StorageMetrics(retention))
    return retention


def _whole(value: float | None, unit: float = 1) -> int | None:
    return None if value is None else round(value * unit)


def _listening(address: Address, flag: str) -> AbstractContextManager[socket]:
    return listening(address.host, address.port, flag)


def _watched(settings: ServiceSettings) -> tuple[ObjectivesReload, ObjectiveIndex]:
    """Read the objectives, to be read again, and an index of them that follows."""
    found = None if settings.objectives is None else read_objectives(settings.objectives)
    for note in () if found is None else found.notes:
        _log.info("%s", note)
    reload = ObjectivesReload(settings.objectives, found)
    index = ObjectiveIndex(reload.objectives)
    reload.changed.append(index.replace)
    return reload, index


def _telemetry(settings: ServiceSettings, objectives: Sequence[Objective]) -> Telemetry:
    return Telemetry(
        objectives=objectives,
        stage_buckets=settings.stage_buckets or STAGE_BUCKETS,
        max_routes=settings.metrics_routes,
    )


def _address(listened: socket) -> Address:
    host, port = listened.getsockname()[:2]
    return Address(host=host, port=port)


def _check_doors(settings: ServiceSettings, *, insecure: bool) -> None:
    """Refuse to listen beyond this machine without a token, and say where none is asked for."""
    for address in (settings.listen, settings.otlp_http, settings.otlp_grpc):
        if address is not None and not (insecure or settings.token or is_loopback(address.host)):
            raise SettingsError(
                f"{address} can be reached from other machines: set LATENCYTRACE_TOKEN, which "
                "senders and readers must then show, or accept anybody with --insecure"
            )
    if settings.token and not insecure and is_loopback(settings.listen.host):
        _log.warning(
            "LATENCYTRACE_TOKEN is set, but on loopback, at %s, no request needs it: a proxy "
            "that lets others in has to ask them itself",
            settings.listen,
        )
