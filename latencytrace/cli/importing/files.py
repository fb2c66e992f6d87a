"""Files to spans kept: read, checked, sent in batches, counted, reported."""

import shlex
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, cast

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from latencytrace.cli.importing.chunks import STDIN, Place, Record, opened, plain_chunks
from latencytrace.cli.importing.collector_table import SCHEME, table_records
from latencytrace.cli.importing.records import records
from latencytrace.cli.importing.report import Report
from latencytrace.cli.importing.target import Target, target
from latencytrace.cli.pictures.lines import complain, say
from latencytrace.cli.pictures.terminal import say_document, side_screen
from latencytrace.errors import LatencytraceError, OtlpError
from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.secrets import shown
from latencytrace.service.answers.documents import BreakdownDocument
from latencytrace.service.clock import now_ns
from latencytrace.service.cohort import period_ns
from latencytrace.service.otlp.traces import CheckedRequest, check_message

BATCH_SPANS: Final = 20_000
BATCH_BYTES: Final = 8 * 1024 * 1024


def import_files(
    files: Sequence[str],
    *,
    url: str | None,
    endpoint: str | None,
    data: Path | None,
    as_json: bool,
    since: str | None = None,
    until: str | None = None,
) -> bool:
    """Import files and print what came of it.

    Args:
        files: Paths, or addresses of tables that the Collector wrote.
        data: A folder, in the place of a service.
        since: Rows of tables that started since then; None: in the last hour.
        until: And before; None: now.

    Returns:
        Whether nothing was rejected.

    Raises:
        LatencytraceError: There is nowhere to import into, or it takes no more. A file is not
            there: then nothing is imported of the others either.
    """
    period = period_ns(since, until, now_ns())
    sizes = dict(zip(files, map(_size, files), strict=True))
    with target(url, endpoint, data) as into:
        report = Report(into=into.title)
        with _progress() as progress:
            for name in files:
                task = progress.add_task(escaped(Path(shown(name)).name), total=sizes[name])
                _import_file(name, period, into, report, lambda size: progress.advance(task, size))  # noqa: B023 - called within this turn
        source = into.finish()
        if report.since is not None and report.until is not None:
            wanted = {"since": report.since, "until": report.until}
            breakdown = cast(BreakdownDocument, source.document("/breakdown", wanted))
            report.requests = breakdown["requests"]
    if as_json:
        say_document(report.document())
    else:
        for line in report.lines(_reading_flags(url, data)):
            say(line)
    for line in report.rejection_lines():
        complain(line)
    return not report.rejection_count


def _import_file(
    name: str,
    period: tuple[int, int | None],
    into: Target,
    report: Report,
    on_read: Callable[[int], None],
) -> None:
    report.files += 1
    title = "standard input" if name == STDIN else shown(name)
    if name.startswith(SCHEME):
        _import_table(_Batch(title, into, report), name, period, on_read)
        return
    batch = _Batch(title, into, report)
    try:
        with opened(name) as file:
            for piece in records(plain_chunks(file, on_read)):
                if isinstance(piece, Record):
                    batch.add(piece)
                else:
                    report.reject(title, piece.place, piece.reason)
    except OtlpError as error:
        report.reject(title, Place(byte=0), str(error))
    batch.send()


def _import_table(
    batch: "_Batch", address: str, period: tuple[int, int | None], on_read: Callable[[int], None]
) -> None:
    since_ns, until_ns = period
    for record in table_records(address, since_ns, until_ns or now_ns(), on_read):
        batch.add(record)
    batch.send()


class _Batch:
    """Records of one file that are kept together."""

    def __init__(self, title: str, into: Target, report: Report) -> None:
        self._title = title
        self._into = into
        self._report = report
        self._checked: list[CheckedRequest] = []
        self._messages: list[ExportTraceServiceRequest] = []
        self._place: Place | None = None  # of the first
        self._bytes = self._spans = 0

    def add(self, record: Record) -> None:
        """Check a record, and send the batch if it is full."""
        checked = check_message(
            record.message, capture_content=self._into.takes_content, mending=record.mending
        )
        self._report.mended_values += checked.mending.values
        if checked.rejected_spans:
            self._report.reject(
                self._title, record.place, checked.reason or "", checked.rejected_spans
            )
        if not checked.span_count:
            return
        if self._bytes and self._bytes + checked.columns.nbytes > BATCH_BYTES:
            self.send()
        self._place = self._place or record.place
        self._checked.append(checked)
        self._messages.append(record.message)
        self._bytes += checked.columns.nbytes
        self._spans += checked.span_count
        if self._spans >= BATCH_SPANS:
            self.send()

    def send(self) -> None:
        """Have everything kept, and begin anew."""
        checked, messages, place = self._checked, self._messages, self._place
        spans = self._spans
        self._checked, self._messages, self._place = [], [], None
        self._bytes = self._spans = 0
        if place is None:
            return
        try:
            self._into.keep(checked, messages)
        except OtlpError as error:
            self._report.reject(self._title, place, f"from here on: {error}", spans)
            return
        for message in messages:
            self._report.add(message)


def _progress() -> Progress:
    """A bar a file, on a terminal."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=side_screen(),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def _size(name: str) -> int | None:
    """Of a regular file; None: unknown."""
    if name == STDIN or name.startswith(SCHEME):
        return None
    try:
        status = Path(name).stat()
    except OSError as error:
        raise LatencytraceError(
            f"{shown(name)} cannot be read: {error.strerror}; nothing was imported"
        ) from None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _reading_flags(url: str | None, data: Path | None) -> str:
    if data is not None:
        return f" --data {shlex.quote(str(data))}"
    return f" --url {url}" if url is not None else ""
