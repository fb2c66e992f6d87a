"""`latencytrace migrate`: an embedded store moved to a ClickHouse server."""

from pathlib import Path
from typing import Annotated

import typer

from latencytrace.cli.pictures.lines import say
from latencytrace.cli.processes.local_service import require_service
from latencytrace.model.texts.secrets import shown
from latencytrace.model.texts.units import count
from latencytrace.settings import data_folder, service_settings


def migrate(
    to: Annotated[
        str, typer.Argument(metavar="URL", help="clickhouse://USER@HOST:8123/DATABASE.")
    ],
    *,
    data: Annotated[
        Path | None, typer.Option(help="The data folder; that of `serve` by default.")
    ] = None,
) -> None:
    """Copy the embedded store of a data folder to a ClickHouse server.

    Stop the service first. What is there already is left alone, so that a copy that was cut
    short goes on where it ended; at the end rows are counted on both sides, by table and day.
    The folder keeps its copy.

    Example: latencytrace migrate clickhouse://traces@clickhouse.internal:8123/latencytrace
    """
    require_service("a move")
    from latencytrace.cli.copying.archive import tables_line
    from latencytrace.cli.copying.migrate import migrate_to
    from latencytrace.service.storage.private_files import private_umask

    folder = data or data_folder()
    with private_umask():
        done = migrate_to(service_settings(folder=folder, store=to).store, folder)
    if done.before:
        say(f"{folder} was moved to {shown(to)} before: nothing to do")
        return
    days = len({day for _, day in done.counts})
    say(f"{tables_line(done.counts)}: at {shown(to)}, the same of each table and day")
    say(f"{count(done.copied, 'row')} copied this time, of {count(days, 'day')}")
    say(f"next: latencytrace serve --data {folder} --store {shown(to)}")
