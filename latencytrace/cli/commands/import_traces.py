"""`latencytrace import`: traces from files, into a service or its data folder."""

from pathlib import Path
from typing import Annotated

import typer

from latencytrace.cli.processes import options
from latencytrace.cli.processes.local_service import require_service


def import_traces(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Files to read, - is standard input; or clickhouse://HOST:8123/DATABASE/TABLE.",
        ),
    ],
    *,
    endpoint: Annotated[
        str | None,
        typer.Option(help="The service's OTLP/HTTP address. Default: what the service says."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Of a table: spans since then, 15m or RFC 3339 [1h].")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Of a table: spans before then.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print counts as JSON.")] = False,
    url: options.Url = None,
    data: Annotated[
        Path | None, typer.Option(help="Import into this data folder, without asking a service.")
    ] = None,
) -> None:
    """Import traces from files: OTLP (JSON, JSON lines, protobuf) or Jaeger's JSON, also gzip.

    The format is found by what a file holds. A clickhouse:// address names a table that the
    Collector's exporter wrote. Spans go to the service, or into the data folder where none
    runs; importing them again changes nothing. Exit code 1: something was rejected.

    Example: latencytrace import traces.jsonl.gz
    """
    require_service("importing")
    from latencytrace.cli.importing.files import import_files

    clean = import_files(
        files, url=url, endpoint=endpoint, data=data, as_json=as_json, since=since, until=until
    )
    if not clean:
        raise typer.Exit(1)
