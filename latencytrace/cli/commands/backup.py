"""`latencytrace backup`: everything that a store has, in a file."""

from pathlib import Path
from typing import Annotated

import typer

from latencytrace.cli.pictures.lines import say
from latencytrace.cli.processes import options
from latencytrace.cli.processes.local_service import require_service
from latencytrace.cli.processes.output_file import is_stdout
from latencytrace.cli.source import reading


def backup(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", readable=False, help="The file to write: a new one."),
    ],
    *,
    url: options.Url = None,
    data: options.Data = None,
) -> None:
    """Write a backup of all ledgers and spans, of a service while it runs or of a folder.

    It is read again and compared with its checksums before it has its name. What came in the
    last seconds, and waits in the journal, is not in it, and neither are profiles, baselines and
    objectives' counts, which are files outside the store.

    Example: latencytrace backup monday.tar
    """
    if is_stdout(file):
        raise typer.BadParameter(
            "a backup is read again before it is done, so it cannot be standard output: "
            "name a file",
            param_hint="FILE",
        )
    require_service("a backup")
    from latencytrace.cli.copying.archive import tables_line
    from latencytrace.cli.copying.backup import back_up

    with reading.source(url, data) as source:
        counts = back_up(source, file)
    say(f"{tables_line(counts)}: in {file}, {file.stat().st_size:,} bytes")
    say(f"next: latencytrace restore {file} --data NEW-FOLDER")
