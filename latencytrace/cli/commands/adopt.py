"""`latencytrace adopt`: finish what a service left that will not come back."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from latencytrace.cli.pictures.lines import say
from latencytrace.cli.processes.local_service import require_service
from latencytrace.errors import LatencytraceError, SettingsError
from latencytrace.model.texts.units import count
from latencytrace.settings import service_settings

_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)  # as the file `writer` has it
_SILENT_S: Final = 60.0  # a service that wrote ledgers since then may be alive


def adopt(
    service: Annotated[
        str,
        typer.Argument(metavar="FOLDER|ID", help="Its data folder; or, if that is lost, its id."),
    ],
    *,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="The server that it wrote to.")
    ] = None,
) -> None:
    """Store and attribute what a dead service left: its journal, and spans without a ledger.

    Its folder is a volume that is mounted here, and no service uses it. Where that is lost, so is
    its journal; its id (column `Writer`) is enough for what it had stored. To do it again does
    nothing more. Metrics do not count these requests: the service that counted them is gone.

    Example: latencytrace adopt /mnt/data-2 --store clickhouse://traces@db:8123/latencytrace
    """
    require_service("to adopt")
    from latencytrace.service.app import take_over
    from latencytrace.service.storage.private_files import private_umask

    with private_umask(), _folder(service, store) as folder:
        settings = service_settings(folder=folder, store=store)
        if "://" not in settings.store:
            raise SettingsError(
                "a store that is embedded is its folder's alone: start a service on that folder. "
                "Of one on a server, name its address, --store"
            )
        adopted = take_over(settings)
    say(
        f"{count(adopted.spans, 'span')} of its journal stored, "
        f"{count(adopted.requests, 'ledger')} written"
    )


@contextmanager
def _folder(service: str, store: str | None) -> Iterator[Path]:
    """The folder of a service; if it is lost, an empty one with the service's id."""
    if not _ID.fullmatch(service):
        folder = Path(service)
        if not (folder / "writer").is_file():
            raise LatencytraceError(
                f"{folder} is no data folder of a service on a server: it has no file `writer`"
            )
        yield folder
        return
    from latencytrace.service.clock import now_ns
    from latencytrace.service.storage.private_files import write_private
    from latencytrace.service.store import open_store

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_private(folder / "lock", b"")  # by which it is a data folder
        write_private(folder / "writer", f"{service}\n".encode())
        settings = service_settings(folder=folder, store=store)
        with closing(open_store(settings.store, folder)) as opened:
            silent_s = (now_ns() - opened.last_written_ns()) / 1e9
        if silent_s < _SILENT_S:
            raise LatencytraceError(
                f"{service} has written ledgers {silent_s:.0f} s ago: is it alive? Once it is "
                f"not, try again after {_SILENT_S:.0f} s"
            )
        yield folder
