"""A service that `latencytrace run` starts for as long as its program runs."""

import shutil
import tempfile
import time
from pathlib import Path

from latencytrace.cli.pictures.lines import complain
from latencytrace.cli.processes.background_program import (
    BackgroundProgram,
    address_of,
    service_program,
)
from latencytrace.cli.processes.foreground import run_in_foreground
from latencytrace.cli.processes.local_service import own_command
from latencytrace.cli.source.service_address import service_address
from latencytrace.errors import ServiceUnreachableError
from latencytrace.model.texts.secrets import text_shown
from latencytrace.settings import AgentSettings, data_folder, service_listens

LAST_SPANS_S = 0.5  # for child processes that outlive the program; it sends its own at its end


def run_with_service(
    command: list[str], environment: dict[str, str], settings: AgentSettings, folder: Path
) -> int:
    """Run a command together with a service of its own.

    Returns:
        The exit code of the command.
    """
    url = service_address(None)
    log = Path(tempfile.mkdtemp(prefix="latencytrace-")) / "serve.log"
    listens = service_listens()
    with service_program(
        folder=folder,
        listen=str(listens) if listens is not None and listens.url == url else address_of(url),
        endpoint=settings.endpoint,
        log=log,
        grpc=settings.grpc,
    ) as background:
        try:
            started = _started(background, url)
        except KeyboardInterrupt:
            shutil.rmtree(log.parent, ignore_errors=True)
            raise
        if started:
            _say(f"collecting into {folder}; look at {url}, or: {own_command()} breakdown")
        code = run_in_foreground(command, environment)
        if started:
            time.sleep(LAST_SPANS_S)
    if started:
        shutil.rmtree(log.parent, ignore_errors=True)
        where = "" if folder == data_folder() else f" --data {folder}"
        _say(f"the service has ended; its data stay: {own_command()} breakdown{where}")
    return code


def _started(background: BackgroundProgram, url: str) -> bool:
    background.start()
    try:
        background.wait_until_answers(f"{url}/readyz")
    except ServiceUnreachableError as error:
        complain(
            "running without a service of its own; spans are lost until one listens: "
            f"{text_shown(str(error))}",
            in_lines=True,
        )
        return False
    return True


def _say(line: str) -> None:
    complain(text_shown(line))
