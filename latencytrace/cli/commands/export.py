"""`latencytrace export`: ledgers as a table, or one request for Perfetto."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from latencytrace.cli.commands.trace import full_id
from latencytrace.cli.doctor_checks.no_request import why_none
from latencytrace.cli.pictures.lines import complain, say
from latencytrace.cli.pictures.terminal import write_out
from latencytrace.cli.processes import options
from latencytrace.cli.processes.output_file import STDOUT, is_stdout, write_whole
from latencytrace.cli.source import reading
from latencytrace.cli.source.filters import Filters, with_filters
from latencytrace.errors import SettingsError
from latencytrace.service.answers.traces.perfetto import perfetto_trace


class ExportFormat(StrEnum):
    """Formats that can be written."""

    CSV = "csv"
    PARQUET = "parquet"
    PERFETTO = "perfetto"


_BY_ENDING = {
    ".csv": ExportFormat.CSV,
    ".parquet": ExportFormat.PARQUET,
    ".json": ExportFormat.PERFETTO,
}


@with_filters
def export(
    *,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", readable=False, help="The file to write; - is standard output."
        ),
    ] = STDOUT,
    wanted_format: Annotated[
        ExportFormat | None,
        typer.Option("--format", help="Default: by the file's ending.", show_default=False),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            help="For Perfetto: a trace id, the beginning of one, `slowest` or `latest`."
        ),
    ] = None,
    wanted: Filters,
    url: options.Url = None,
    data: options.Data = None,
) -> None:
    """Export ledgers to CSV or Parquet, a row a request; or one request to Perfetto.

    Example: latencytrace export --route "POST /chat" --since 2h -o ledgers.parquet
    """
    chosen = _format(wanted_format, output, trace)
    with reading.source(url, data) as source:
        if trace is not None:
            request = reading.request(source, full_id(source, trace, wanted))
            body = json.dumps(
                perfetto_trace(request), ensure_ascii=False, allow_nan=False
            ).encode()
        else:
            body = source.body("/ledgers", {**wanted, "format": chosen.value})
            if not reading.requests(source, wanted, "newest", 1):
                complain(f"no rows. {why_none(source, wanted)}")
    if is_stdout(output):
        write_out(body)
    else:
        _write(output, body)
        opened = "; open it at https://ui.perfetto.dev" if trace is not None else ""
        say(f"{len(body):,} bytes written to {output}{opened}")


def _format(wanted: ExportFormat | None, output: Path, trace: str | None) -> ExportFormat:
    """The format that is meant.

    Raises:
        typer.BadParameter: What is asked for does not fit together.
    """
    by_default = ExportFormat.CSV if trace is None else ExportFormat.PERFETTO
    chosen = wanted or _BY_ENDING.get(output.suffix.lower(), by_default)
    if wanted is None and trace is None and output.suffix.lower() not in {"", *_BY_ENDING}:
        raise typer.BadParameter(
            f"{output.name} does not say: end it in .csv or .parquet, or add --format csv",
            param_hint="--format",
        )
    if (chosen is ExportFormat.PERFETTO) != (trace is not None):
        raise typer.BadParameter(
            "perfetto shows one request: name it with --trace ID, or --trace slowest"
            if trace is None
            else f"{chosen} is a table of many requests: leave out --trace, or write perfetto",
            param_hint="--format",
        )
    if chosen is ExportFormat.PARQUET and output == STDOUT:
        raise typer.BadParameter("parquet needs a file: -o FILE", param_hint="--format")
    return chosen


def _write(output: Path, body: bytes) -> None:
    """Write all of it or nothing.

    Raises:
        SettingsError: The file cannot be written.
    """
    try:
        write_whole(output, body)
    except OSError as error:
        raise SettingsError(f"{output} cannot be written: {error.strerror}") from None
