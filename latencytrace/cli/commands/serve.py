"""`latencytrace serve`: receive spans, attribute requests, answer questions."""

import gc
import logging
import os
import signal
import threading
from pathlib import Path
from typing import Annotated, Final

import typer

from latencytrace.cli.pictures.lines import say
from latencytrace.cli.pictures.terminal import LogFormatter
from latencytrace.cli.processes.local_service import EXTRA_HINT, own_command, service_is_installed
from latencytrace.errors import LatencytraceError
from latencytrace.settings import (
    DEFAULT_OTLP_ENDPOINT,
    DEFAULT_URL,
    Address,
    has_password,
    service_settings,
)


def serve(
    data: Annotated[Path | None, typer.Option(help="Folder of the embedded store.")] = None,
    listen: Annotated[
        str | None, typer.Option(help="Address of the API [127.0.0.1:8321].")
    ] = None,
    otlp_http: Annotated[
        str | None,
        typer.Option(help="Address of the receiver [127.0.0.1:4318]."),
    ] = None,
    otlp_grpc: Annotated[
        str | None,
        typer.Option(help="Address of the receiver over gRPC, or off [127.0.0.1:4317]."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|URL",
            help="Storage engine, or clickhouse://HOST:8123/DATABASE; chdb by default.",
        ),
    ] = None,
    keep_spans: Annotated[
        float | None,
        typer.Option(help="Share of ordinary requests whose spans are kept [1.0]."),
    ] = None,
    objectives: Annotated[
        Path | None,
        typer.Option(help="File of objectives; objectives.yaml here by default."),
    ] = None,
    max_weight: Annotated[
        int | None,
        typer.Option(help="Largest weight of a sampled request that is believed [1024]."),
    ] = None,
    root_path: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Path below which a proxy shows the pages, or X-Forwarded-Prefix to trust that.",
        ),
    ] = None,
    insecure: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--insecure", help="Listen off loopback without a token.")
    ] = False,
) -> None:
    """Receive spans over OTLP, attribute every request's time to stages, answer questions.

    Every flag has an environment variable: LATENCYTRACE_DATA, _LISTEN, _OTLP_HTTP,
    _OTLP_GRPC, _STORE, _KEEP_SPANS, _OBJECTIVES, _MAX_WEIGHT, _ROOT_PATH. Stop it with Ctrl-C;
    nothing that was acknowledged is lost.

    Example: latencytrace serve --data ./traces
    """
    if not service_is_installed():
        raise LatencytraceError(f"the service is not installed: {EXTRA_HINT}")
    _forget_the_programs_settings()
    from latencytrace.service.app import serve as run_service
    from latencytrace.service.net.connections import raise_limit
    from latencytrace.service.storage.private_files import private_umask

    log = logging.StreamHandler()
    log.setFormatter(LogFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[log], level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it names every address that it asks
    settings = service_settings(
        folder=data,
        listen=listen,
        otlp_http=otlp_http,
        otlp_grpc=otlp_grpc,
        store=store,
        keep_spans_ratio=keep_spans,
        objectives=objectives,
        max_weight=max_weight,
        root_path=root_path,
    )
    if store is not None and has_password(store):
        logging.getLogger(__name__).warning(
            "the password in --store is visible in this machine's list of processes: "
            "put it into LATENCYTRACE_CLICKHOUSE_PASSWORD, or LATENCYTRACE_STORE"
        )

    name = own_command()

    def ready(api: Address, otlp: Address, grpc: Address | None) -> None:
        say(f"latencytrace takes spans at http://{otlp} and answers at http://{api}")
        if grpc is not None:
            say(f"it takes them over gRPC too, at {grpc}")
        say(f"its data are in {settings.folder}")
        if settings.objectives is not None:
            say(f"it watches the objectives of {settings.objectives}")
        to = _unless_usual("--endpoint", otlp, DEFAULT_OTLP_ENDPOINT)
        at = _unless_usual("--url", api, DEFAULT_URL)
        say(f"next: {name} run{to} -- COMMAND, then {name} breakdown{at}", flush=True)
        gc.freeze()  # no collection need look through what is loaded by now

    gc.set_threshold(*COLLECTED_AFTER)
    with private_umask():
        raise_limit()
        run_service(settings, ready, insecure=insecure, stopping=_end_in_time)
    gc.freeze()  # on a busy machine the last collection would take seconds


# Open traces are many objects, all of them in use: CPython's own 700 has them looked through all
# the time, a microsecond of CPU a span.
COLLECTED_AFTER: Final = (20_000, 10, 10)
KERNELS_GRACE_S: Final = 0.5  # after the service's own


def _end_in_time(grace_s: float) -> None:
    """Have this process end within its grace, even where a thread is deep in its work.

    A thread cannot be stopped, and Python waits for it. What was acknowledged is in the journal,
    and outlives this.
    """

    def end() -> None:
        logging.getLogger(__name__).error(
            "something is still under way %g s after the signal to stop: it is cut short. What "
            "was acknowledged is in the journal, and is read at the next start",
            grace_s,
        )
        os._exit(1)

    timer = threading.Timer(grace_s, end)
    timer.daemon = True
    timer.start()
    # The kernel's own, for a thread that keeps the interpreter keeps it from the timer, too.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, grace_s + KERNELS_GRACE_S)


def _unless_usual(flag: str, address: Address, usual: str) -> str:
    """A flag that names an address, unless programs on this machine know it."""
    return "" if address.url == usual else f" {flag} {address.url}"


def _forget_the_programs_settings() -> None:
    """Forget what other libraries read when they are imported, and is meant for the program.

    prometheus_client would share a folder among processes. Ours is one: there it would lose its
    exemplars, and mix its metrics into those of the program. FastAPI asks for propagators, which
    may not be installed here; the service reads no headers of traces.
    """
    for name in ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir", "OTEL_PROPAGATORS"):
        os.environ.pop(name, None)  # noqa: TID251 - taken away, not read
