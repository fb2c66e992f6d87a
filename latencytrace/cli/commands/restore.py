"""`latencytrace restore`: a data folder made of a backup."""

from pathlib import Path
from typing import Annotated

import typer

from latencytrace.cli.pictures.lines import say
from latencytrace.cli.processes.local_service import require_service


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")],
    *,
    data: Annotated[Path, typer.Option(help="The folder to make: new, or empty.")],
) -> None:
    """Make a data folder of a backup, for `serve --data` or `migrate`.

    The backup is compared with its checksums first. The folder has its name once every row is
    there; where this is cut short, begin again.

    Example: latencytrace restore monday.tar --data ./traces
    """
    require_service("to restore")
    from latencytrace.cli.copying.archive import tables_line
    from latencytrace.cli.copying.backup import restore_into
    from latencytrace.service.storage.private_files import private_umask

    with private_umask():
        counts = restore_into(file, data.absolute())
    say(f"{tables_line(counts)}: in {data}")
    say(f"next: latencytrace serve --data {data}")
