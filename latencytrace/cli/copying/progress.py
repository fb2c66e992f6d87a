"""How far a copy is, and what came of it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from latencytrace.cli.copying.archive import Counts
from latencytrace.cli.pictures.terminal import side_screen
from latencytrace.model.texts.units import count


class Advance(Protocol):
    """Called with how many rows are done."""

    def __call__(self, rows: int) -> None: ...


@contextmanager
def rows_bar(title: str, rows: int) -> Iterator[Advance]:
    """A bar, on a terminal."""
    with Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TextColumn("rows", markup=False), TimeRemainingColumn(), console=side_screen(),
        transient=True, disable=not sys.stderr.isatty(),
    ) as progress:  # fmt: skip
        task = progress.add_task(title, total=rows)
        yield lambda done: progress.advance(task, done)


def tables_line(counts: Counts) -> str:
    """How many rows of each table there are: `3 requests, 40 spans kept, 40 spans arrived`."""
    totals = dict.fromkeys(_NAMES, 0)
    for (table, _), rows in counts.items():
        totals[table] += rows
    return ", ".join(
        f"{count(totals[table], name)}{kind}" for table, (name, kind) in _NAMES.items()
    )


_NAMES = {
    "requests": ("request", ""),
    "spans": ("span", " kept"),
    "span_arrivals": ("span", " of the last hours"),
}
