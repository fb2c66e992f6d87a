"""The pictures of a load: tables that fit the screen, latency against load, what to know."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from latencytrace.cli.load_test.answer import FIRST_TOKEN, Shape
from latencytrace.cli.load_test.record import SERVICE, SpansSent
from latencytrace.cli.load_test.summary import (
    Distribution,
    Knee,
    RateSummary,
    best_goodput,
    shapes,
)
from latencytrace.cli.pictures.fitted_table import BLOCK, table
from latencytrace.model.texts.units import UNKNOWN, count, duration, figure, share

COLUMN_WIDTH = 9
PICTURE = "e2e: to the median, and on to p95"
PICTURE_LONGEST = 60
COLUMNS_BUT_PICTURE = 34
REST = "░"
BAR_STYLE = "#3e9fe6"
RATES = (
    "offered, achieved: the middle 90 % of requests over the time in which they were due, and "
    "of answers over that in which they ended."
)
DURATION = "e2e: from when a request was due to the last byte of its answer; quantiles are exact."
FEW = 100  # below it, p99 lies between the largest two
TOO_FEW = 20  # below it, rates are those of a few clusters of arrivals


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    cell: Callable[[RateSummary], str]


def _times(
    title: str, of: Callable[[RateSummary], Distribution | None], levels: Sequence[str]
) -> tuple[_Column, ...]:
    def column(level: str) -> _Column:
        def cell(rate: RateSummary) -> str:
            times = of(rate)
            return UNKNOWN if times is None else duration(getattr(times, level))

        return _Column(f"{title} {level}", cell)

    return tuple(column(level) for level in levels)


_RATE = _Column("rate", lambda rate: f"{rate.rate_per_s:g}/s")
_GROUPS: tuple[tuple[_Column, ...], ...] = (
    (
        _Column("offered", lambda rate: _per_s(rate.offered_per_s)),
        _Column("achieved", lambda rate: _per_s(rate.achieved_per_s)),
        _Column("goodput", lambda rate: _per_s(rate.goodput_per_s)),
        _Column("requests", lambda rate: f"{rate.requests:,}"),
        _Column("errors", lambda rate: f"{rate.requests - rate.succeeded:,}"),
        _Column("in flight", lambda rate: f"{rate.in_flight_max:,}"),
    ),
    _times("e2e", lambda rate: rate.duration_ns, ("p50", "p90", "p95", "p99")),
    _times("TTFT", lambda rate: rate.time_to_first_token_ns, ("p50", "p95", "p99")),
    _times("TPOT", lambda rate: rate.time_per_output_token_ns, ("p50", "p95")),
)


def _per_s(rate: float | None) -> str:
    return UNKNOWN if rate is None else f"{figure(rate)}/s"


def tables(rates: Sequence[RateSummary], width: int) -> list[RenderableType]:
    """All columns in as few tables as fit the width."""
    groups = [
        group
        for group in _GROUPS
        if any(column.cell(rate) != UNKNOWN for column in group for rate in rates)
    ]
    packed: list[list[_Column]] = [[]]
    for group in groups:
        if packed[-1] and COLUMN_WIDTH * (1 + len(packed[-1]) + len(group)) > width:
            packed.append([])
        packed[-1] += group
    drawn: list[RenderableType] = []
    for columns in packed:
        drawn += [_table([_RATE, *columns], rates), ""]
    return drawn


def _table(columns: Sequence[_Column], rates: Sequence[RateSummary]) -> Table:
    drawn = table(*(column.heading for column in columns))
    for rate in rates:
        drawn.add_row(*(column.cell(rate) for column in columns))
    return drawn


def against_load(
    rates: Sequence[RateSummary], found: Knee, console: Console
) -> list[RenderableType]:
    """Latency against load, as bars to the median and on to p95, and the knee."""
    known = [(rate, rate.duration_ns) for rate in rates if rate.duration_ns is not None]
    longest = max((times.p95 for _, times in known), default=1)
    width = max(8, min(PICTURE_LONGEST, console.width - COLUMNS_BUT_PICTURE))
    drawn = table("rate", PICTURE, "p50", "p95", left=(PICTURE,))
    for rate, times in known:
        to_median = max(1, round(width * times.p50 / longest))
        to_p95 = round(width * times.p95 / longest)
        picture = Text(BLOCK * to_median, BAR_STYLE)
        picture.append(REST * (to_p95 - to_median), BAR_STYLE)
        drawn.add_row(f"{rate.rate_per_s:g}/s", picture, duration(times.p50), duration(times.p95))
    parts: list[RenderableType] = [drawn, Text(_knee(found), "bold")]
    best = best_goodput(rates)
    if best is not None:
        parts.append(Text(_goodput(best), "bold"))
    if any(rate.requests < TOO_FEW for rate in rates):
        few = f"That is a guess: with fewer than {TOO_FEW} requests a rate, chance decides."
        parts.append(Text(few, "dim"))
    return [*parts, ""]


def _knee(found: Knee) -> str:
    if found.broken_at_per_s is None:
        return f"No knee up to {found.rate_per_s:g}/s: the server kept up at every rate."
    why = f"at {found.broken_at_per_s:g}/s it {found.rule}"
    if found.rate_per_s is None:
        return f"Past the knee already at the lowest rate: {why}."
    return f"Knee: {found.rate_per_s:g}/s is the last rate that the server keeps up with: {why}."


def _goodput(best: RateSummary) -> str:
    return (
        f"Goodput: at most {_per_s(best.goodput_per_s)}, at {best.rate_per_s:g}/s, where "
        f"{share(best.good_ratio)} of the requests met all limits."
    )


def notes(rates: Sequence[RateSummary], spans: SpansSent | None) -> list[RenderableType]:
    """Lines on how it was measured, and whether to believe it."""
    lines = [Text(line, "dim") for line in (*_formulas(rates), _generator(rates))]
    lines += [Text(line, "bold red") for line in warnings(rates, spans)]
    return list(lines)


def _formulas(rates: Sequence[RateSummary]) -> list[str]:
    lines = [RATES, DURATION] if any(rate.duration_ns for rate in rates) else []
    seen = [shape for shape in shapes(rates) if shape is not Shape.WHOLE]
    lines += [f"TTFT: from then to the {FIRST_TOKEN[shape]}." for shape in seen]
    if seen:
        reported = any("usage" in rate.tokens_reported_by for rate in rates)
        counted = any("events" in rate.tokens_reported_by for rate in rates)
        tokens = " or ".join(
            text
            for text, used in (
                ("the answer's usage.completion_tokens", reported),
                ("events or chunks with content", counted),
            )
            if used
        )
        lines.append(f"TPOT: (last token - first token) / (tokens - 1); tokens: {tokens}.")
    if any(rate.duration_ns and rate.requests < FEW for rate in rates):
        lines.append(f"Below {FEW} requests a rate, p99 is hardly more than the maximum.")
    return lines


def _generator(rates: Sequence[RateSummary]) -> str:
    late = [rate.late_ns for rate in rates if rate.late_ns is not None]
    if not late:
        return "Nothing was sent."
    p50, p99, longest = (
        duration(max(getattr(each, level) for each in late)) for level in ("p50", "p99", "max")
    )
    cpu_ratio = max(rate.generator_cpu_ratio for rate in rates)
    return (
        f"The generator, at its worst rate: half sent within {p50} of when they were due, "
        f"99 % within {p99}, all within {longest}; {cpu_ratio:.0%} of a core."
    )


def warnings(rates: Sequence[RateSummary], spans: SpansSent | None) -> list[str]:
    """Name what makes the numbers doubtful."""
    lines = [_errors(rate) for rate in rates if rate.errors]
    for rate in rates:
        if rate.held_back:
            lines.append(
                f"{rate.rate_per_s:g}/s: {count(rate.held_back, 'request')} waited for others to "
                "end, for --max-in-flight was reached: past it the load is no longer open."
            )
        elif not rate.generator_kept_up:
            lines.append(
                f"{rate.rate_per_s:g}/s: the generator could not keep up: these times are partly "
                "its own. Run it on a machine of its own, or at lower rates."
            )
    if spans is not None and spans.lost:
        lines.append(
            f"{count(spans.lost, 'span')} of {spans.lost + spans.sent:,} could not be sent to "
            f"{spans.url} ({spans.last_error}): start `latencytrace serve`, name another "
            "--endpoint, or leave tracing out with --no-trace."
        )
    return lines


def _errors(rate: RateSummary) -> str:
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in rate.errors.items())
    return f"{rate.rate_per_s:g}/s: {kinds}"


def next_steps(spans: SpansSent | None, slowest_trace: str) -> list[str]:
    """Commands that show the same requests from the inside."""
    if spans is None or not spans.sent:
        return []
    return [
        f"Each request end to end, network included: latencytrace breakdown --service {SERVICE}",
        f"How many at once the server keeps up with: latencytrace capacity --service {SERVICE}",
        f"The slowest: latencytrace trace {slowest_trace}",
    ]
