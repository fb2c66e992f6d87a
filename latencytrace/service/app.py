"""The service's composition root: settings in, two listening applications out."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable
from importlib.metadata import version

import uvicorn
from fastapi import FastAPI

from latencytrace.errors import PluginError, SettingsError
from latencytrace.plugins import STORES, load_plugin
from latencytrace.service.clock import now_ns
from latencytrace.service.edge import Edge, is_loopback
from latencytrace.service.pipeline import Pipeline
from latencytrace.service.problems import answer_with_problems
from latencytrace.service.receiver import receiver
from latencytrace.service.store import Store
from latencytrace.service.telemetry import Telemetry
from latencytrace.service.views.breakdown import breakdown_router
from latencytrace.service.views.health import health_router
from latencytrace.service.views.requests import requests_router
from latencytrace.service.views.services import services_router
from latencytrace.settings import Address, ServiceSettings

_log = logging.getLogger(__name__)

GRACE_S = 5  # how long answers under way may take at the end


def api(store: Store, pipeline: Pipeline, telemetry: Telemetry) -> FastAPI:
    """The JSON API with its health checks and metrics."""
    app = FastAPI(
        title="latencytrace",
        version=version("latencytrace"),
        description="Where did the milliseconds go? Durations are integer nanoseconds.",
        docs_url=None,  # its page would fetch its parts from elsewhere
        redoc_url=None,
    )
    answer_with_problems(app)

    def unready() -> str | None:
        return None if pipeline.running else "spans are not being divided"

    app.include_router(services_router(store), prefix="/api/v1")
    app.include_router(breakdown_router(store, now_ns), prefix="/api/v1")
    app.include_router(requests_router(store, now_ns, pipeline.is_open), prefix="/api/v1")
    app.include_router(health_router(telemetry, unready))
    return app


def open_store(settings: ServiceSettings) -> Store:
    """Open the store that the settings name.

    Raises:
        PluginError: No such engine is installed.
        StoreInUseError: Another process owns the folder.
    """
    engine = load_plugin(STORES, settings.store)
    opened = getattr(engine, "open", None)
    if opened is None:
        raise PluginError(f"store {settings.store!r} cannot be opened")
    store: Store = opened(settings.folder)
    return store


def serve(
    settings: ServiceSettings, ready: Callable[[Address, Address], None], *, insecure: bool
) -> None:
    """Run the service until it is told to stop by SIGINT or SIGTERM.

    Args:
        settings: What it is told.
        ready: Called with the addresses of the API and of the OTLP receiver.
        insecure: Listen off loopback without asking for a token.

    Raises:
        SettingsError: An address cannot be used; the message says what to do.
        StoreInUseError: Another process owns the data folder.
    """
    _refuse_open_doors(settings, insecure=insecure)
    with contextlib.ExitStack() as sockets:
        api_socket = sockets.enter_context(_listening(settings.listen, "--listen"))
        otlp_socket = sockets.enter_context(_listening(settings.otlp_http, "--otlp-http"))
        store = open_store(settings)
        try:
            telemetry = Telemetry()
            pipeline = Pipeline(store, telemetry, now_ns, settings.keep_spans_ratio)
            pipeline.start()
            ready(_address(api_socket), _address(otlp_socket))
            token = None if insecure else settings.token
            try:
                asyncio.run(
                    _listen(
                        (
                            Edge(api(store, pipeline, telemetry), settings.listen.host, token),
                            api_socket,
                        ),
                        (
                            Edge(
                                receiver(pipeline.committer, telemetry),
                                settings.otlp_http.host,
                                token,
                            ),
                            otlp_socket,
                        ),
                    )
                )
            finally:
                pipeline.close()
        finally:
            store.close()


async def _listen(*applications: tuple[Edge, socket.socket]) -> None:
    """Serve each application on its socket until a signal comes."""
    servers = [
        (
            uvicorn.Server(
                uvicorn.Config(
                    application,
                    log_level="warning",
                    lifespan="off",
                    timeout_graceful_shutdown=GRACE_S,
                )
            ),
            listening,
        )
        for application, listening in applications
    ]

    def stop() -> None:
        for server, _ in servers:
            server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    # `_serve`: `serve` would install handlers of its own, one server's over the other's.
    await asyncio.gather(*(server._serve([listening]) for server, listening in servers))  # noqa: SLF001


def _listening(address: Address, flag: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address.host, address.port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise SettingsError(
            f"cannot listen on {address}: {error.strerror}. If a latencytrace runs there, use it; "
            f"else choose another address with {flag} HOST:PORT"
        ) from None
    return listening


def _address(listening: socket.socket) -> Address:
    host, port = listening.getsockname()[:2]
    return Address(host=host, port=port)


def _refuse_open_doors(settings: ServiceSettings, *, insecure: bool) -> None:
    for address in (settings.listen, settings.otlp_http):
        if not (insecure or settings.token or is_loopback(address.host)):
            raise SettingsError(
                f"{address} can be reached from other machines: set LATENCYTRACE_TOKEN, which "
                "senders and readers must then show, or accept anybody with --insecure"
            )
