"""The two programs of the demo: a service of its own, and the application it watches."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.text import Text

import latencytrace
from latencytrace.cli.pictures.lines import say
from latencytrace.cli.processes.background_program import (
    BackgroundProgram,
    address_of,
    service_program,
)
from latencytrace.cli.processes.local_service import free_port, host_and_port
from latencytrace.errors import LatencytraceError
from latencytrace.model.texts.escaped import escaped
from latencytrace.settings import DEFAULT_OTLP_ENDPOINT, DEFAULT_URL

SERVICE = "rag_chat"
INSTANCE = "demo"  # tells its spans from those of whatever else sends to the usual port
FIRST_START_S = 900.0  # it embeds its passages and makes its model


def start_service(running: ExitStack, data: Path, logs: Path, console: Console) -> tuple[str, str]:
    """Start a service that ends with `running`.

    Returns:
        Its address and that of its OTLP receiver: the usual ones if they are free.
    """
    url, endpoint = (_free(usual) for usual in (DEFAULT_URL, DEFAULT_OTLP_ENDPOINT))
    program = service_program(
        folder=data, listen=address_of(url), endpoint=endpoint, log=logs / "serve.log"
    )
    running.enter_context(program)
    _start(program, f"{url}/readyz", "Starting the service", console)
    usual = (url, endpoint) == (DEFAULT_URL, DEFAULT_OTLP_ENDPOINT)
    why = "" if usual else "; the usual ports are taken"
    console.print(f"The service answers at {url} and receives spans at {endpoint}{why}")
    return url, endpoint


def start_application(
    running: ExitStack, service_url: str, endpoint: str, logs: Path, console: Console, model: str
) -> str:
    """Start the example under `latencytrace run` with one of its models; it ends with `running`.

    Returns:
        Its address.
    """
    folder = example_folder()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    run = [sys.executable, "-m", "latencytrace", "run", "--service", SERVICE]
    uvicorn = [sys.executable, "-m", "uvicorn", "--app-dir", os.fspath(folder), "app:app"]
    program = BackgroundProgram(
        SERVICE,
        [*run, "--endpoint", endpoint, "--", *uvicorn, "--port", str(port)],
        logs / f"{SERVICE}.log",
        environment={
            "LATENCYTRACE_URL": service_url,
            "OTEL_RESOURCE_ATTRIBUTES": f"service.instance.id={INSTANCE}",
            "RAG_CHAT_MODEL": model,
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",  # as its service takes them
            "HF_HUB_OFFLINE": "1",
        },
    )
    running.enter_context(program)
    console.print(
        f"Starting {folder}, which knows nothing of latencytrace, under latencytrace run"
    )
    _start(program, f"{url}/healthz", f"Starting {SERVICE}", console)
    console.print(f"The application answers at {url}")
    return url


def example_folder() -> Path:
    """Find the example: inside the installed package, or next to it in a checkout."""
    package = Path(latencytrace.__file__).parent
    for folder in (package / "_examples" / SERVICE, package.parent / "examples" / SERVICE):
        if (folder / "app.py").is_file():
            return folder
    raise LatencytraceError(f"the example {SERVICE} is not in this installation of latencytrace")


def _free(usual: str) -> str:
    return f"http://127.0.0.1:{free_port(host_and_port(usual)[1])}"


def _start(program: BackgroundProgram, url: str, doing: str, console: Console) -> None:
    """Start a program and wait until it answers, showing what it says meanwhile."""
    program.start()
    with console.status(doing) as status:
        said = ""

        def show_progress() -> None:
            nonlocal said
            line = program.last_line()
            if line == said or not line.startswith(f"{SERVICE}:"):
                return
            said = line
            if console.is_terminal:
                status.update(Text(escaped(line)))
            else:
                say(f"  {line}", flush=True)

        program.wait_until_answers(url, FIRST_START_S, show_progress)
