"""`latencytrace run`: any Python program, traced without touching its code.

It works without the extra `cli`, and starts on every start of a program: so it reads its own
options and imports little.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from getopt import GetoptError, getopt
from pathlib import Path

import latencytrace.agent.autostart as autostart_folder
from latencytrace.cli.doctor_checks.other_tracers import other_tracer
from latencytrace.cli.pictures.lines import complain, say
from latencytrace.cli.processes.local_service import (
    EXTRA_HINT,
    answers,
    is_loopback,
    listens,
    service_is_installed,
)
from latencytrace.cli.source.service_address import checked, service_address
from latencytrace.model.texts.secrets import text_shown
from latencytrace.settings import agent_settings, data_folder

ABOUT = "Run a Python program with tracing on, and its child processes too."
HELP = f"""\
Usage: latencytrace run [OPTIONS] [--] COMMAND...

{ABOUT}

If no service answers at the endpoint, one is started for as long as the program runs.

Example: latencytrace run --service rag -- uvicorn app:app --port 8000

Options:
  --service NAME  What to call the program in breakdowns.
  --endpoint URL  Base address of the OTLP receiver.
  --data DIR      Data folder, where a service must be started first."""
NOT_UNDERSTOOD = 2  # what shells answer for wrong options
NOT_FOUND = 127  # and for a command that does not exist
NOT_EXECUTABLE = 126


def run(arguments: Sequence[str]) -> int:
    """Run the program that the arguments name, as `HELP` says.

    Returns:
        Its exit code, unless it takes our place.
    """
    try:
        options, command = getopt(list(arguments), "", ["service=", "endpoint=", "data=", "help"])
    except GetoptError as error:
        return _not_understood(str(error))
    named = dict(options)
    if "--help" in named:
        for line in HELP.splitlines():
            say(line)
        return 0
    if not command:
        return _not_understood("the program to run is missing")
    if shutil.which(command[0]) is None:
        return _cannot_run(command[0])
    return _run_traced(
        command, named.get("--service"), named.get("--endpoint"), named.get("--data")
    )


def _run_traced(
    command: list[str], service: str | None, endpoint: str | None, data: str | None
) -> int:
    settings = agent_settings(endpoint=endpoint)
    if settings.disabled:
        _say("tracing is switched off in the environment: running without it")
        os.execvp(command[0], command)  # noqa: S606 - running it is the point
    environment = traced_environment(service=service, endpoint=endpoint)
    other = other_tracer(command, environment["PYTHONPATH"])
    if other is not None:
        _say(f"{other[0]}. For latencytrace alone: {other[1]}")
    if not _service_is_needed(checked("endpoint", settings.endpoint)):
        os.execvpe(command[0], command, environment)  # noqa: S606 - likewise
    from latencytrace.cli.commands.run_with_service import (  # most runs have one
        run_with_service,
    )

    folder = data_folder() if data is None else Path(data)
    return run_with_service(command, environment, settings, folder)


def traced_environment(
    *,
    service: str | None,
    endpoint: str | None,
    environ: Mapping[str, str] = os.environ,  # noqa: TID251 - handed on, not read
) -> dict[str, str]:
    """The environment in which every Python program starts the agent."""
    environment = dict(environ)
    folder = os.path.join(next(iter(autostart_folder.__path__)), ".")  # noqa: PTH118 - its OF_RUN
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{folder}{os.pathsep}{before}" if before else folder
    if service is not None:
        environment["OTEL_SERVICE_NAME"] = service
    if endpoint is not None:
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
        environment.pop("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", None)  # it would win
    return environment


def _service_is_needed(endpoint: str) -> bool:
    """Decide whether to start a service; tell the user what stands in the way of one."""
    url = service_address(None)
    if listens(endpoint):
        if is_loopback(endpoint) and not answers(f"{url}/healthz"):
            _say(f"spans go to {endpoint}, which is no service that answers at {url}")
        return False
    if not (is_loopback(endpoint) and is_loopback(url)):
        _say(f"nothing listens at {endpoint}: running, but spans are lost until something does")
        return False
    if answers(f"{url}/healthz"):
        _say(
            f"the service at {url} does not receive at {endpoint}: spans are lost; see --endpoint"
        )
        return False
    if not service_is_installed():
        _say(f"no service at {endpoint}, and none to start: spans are lost. Run: {EXTRA_HINT}")
        return False
    return True


def _not_understood(why: str) -> int:
    _say(f"{why}. Try: latencytrace run --help")
    return NOT_UNDERSTOOD


def _cannot_run(name: str) -> int:
    path = Path(name)
    if not path.is_file():
        beside = Path(sys.executable).parent / name
        hint = (
            f"; it is {beside}: activate its environment, or write that"
            if beside.is_file()
            else ""
        )
        _say(f"command not found: {name}{hint}")
        return NOT_FOUND
    _say(f"not an executable program: {name}. Try: latencytrace run -- python {name}")
    return NOT_EXECUTABLE


def _say(line: str) -> None:
    """Tell the user one thing, apart from the program's own output."""
    complain(text_shown(line))
