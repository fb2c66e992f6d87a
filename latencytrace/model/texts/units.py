"""Numbers as people read them: rounding and percent exist only here."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

UNKNOWN = "-"
UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3))
SIZES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
MINUTE_NS = 60e9
LEAST_CHANCE = 0.001
LEAST_GROUPED = 999.5
MANY_TIMES = 2  # from which on times are read more easily than percent
LITTLE = "<0.1 %"  # a share that is not nothing


def duration(value_ns: float | None) -> str:
    """A duration in three digits and its unit: `8.31 ms`; or in two: `2 min 03 s`, `2 d 01 h`."""
    if value_ns is None:
        return UNKNOWN
    if value_ns >= MINUTE_NS * 0.99995:
        return _long_duration(round(value_ns / 1e9))
    for unit, size in UNITS:
        if value_ns >= 0.9995 * size:
            return f"{_three_digits(value_ns / size)} {unit}"
    text = f"{value_ns:.0f}"
    return text if text == "0" else f"{text} ns"


def objective_text(
    measure: str,
    threshold_ns: int | None,
    slice_ns: int | None = None,
    slice_target_ratio: float | None = None,
) -> str:
    """Text of an objective: `duration within 2.00 s`; without a threshold: `no failure`.

    Of time slices: `slices of 1 min, in each 95 % with duration within 2.00 s`.
    """
    wanted = "no failure" if threshold_ns is None else f"{measure} within {duration(threshold_ns)}"
    if slice_ns is None:
        return wanted
    share_text = "by their share" if slice_target_ratio is None else target(slice_target_ratio)
    return f"slices of {slice_ns / MINUTE_NS:g} min, in each {share_text} with {wanted}"


def signed(value_ns: int, plus: str = "") -> str:
    """A difference of durations: `-8.31 ms`; what is not negative has `plus` before it."""
    return f"-{duration(-value_ns)}" if value_ns < 0 else f"{plus}{duration(value_ns)}"


def interval(low_ns: int | None, high_ns: int | None, plus: str = "") -> str:
    """An interval of differences: `-1.20 ms … +8.31 ms`."""
    if low_ns is None or high_ns is None:
        return UNKNOWN
    return f"{signed(low_ns, plus)} … {signed(high_ns, plus)}"


def chance(p_value: float | None) -> str:
    """A p value: `0.012`; very small ones are not distinguished."""
    if p_value is None:
        return UNKNOWN
    return f"< {LEAST_CHANCE}" if p_value < LEAST_CHANCE else f"{p_value:.3f}"


def moment(at: int | str | None) -> str:
    """A moment in Unix nanoseconds, as UTC: `2026-01-31 15:04:05 UTC`."""
    if at is None:
        return UNKNOWN
    return f"{datetime.fromtimestamp(int(at) // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(at_ns: int, now_ns: int) -> str:
    """A moment of late, as UTC: `09:04 UTC`; of another day `28 Nov 09:04 UTC`."""
    at, now = (datetime.fromtimestamp(one // 10**9, UTC) for one in (at_ns, now_ns))
    day = "" if at.date() == now.date() else f"{at.day} {at:%b} "
    return f"{day}{at:%H:%M} UTC"


def day(at_ns: int, now_ns: int) -> str:
    """A day of UTC and how long ago it was: `today`, `2026-01-31 (9 d)`."""
    past, now = (datetime.fromtimestamp(one // 10**9, UTC).date() for one in (at_ns, now_ns))
    return f"{past} ({(now - past).days:,} d)" if past < now else "today"


def rate(number: float, length_ns: int) -> str:
    """How many a second in three digits: `3.90`, `1,204`, `<0.01`, `0`."""
    if not number:
        return "0"
    per_s = number * 1e9 / max(length_ns, 1)
    return "<0.01" if per_s < 0.005 else _grouped(per_s)  # noqa: PLR2004 - it would be 0.00


def change(now: float, before: float | None) -> str | None:
    """A change in percent: `+34 %`, `-8 %`, or so many times; None: it cannot be compared."""
    if not before:
        return None
    ratio = now / before
    if ratio >= MANY_TIMES:
        return f"\N{MULTIPLICATION SIGN}{_grouped(ratio)}"
    percent = round(100 * (ratio - 1))
    return f"{percent:+d} %" if percent else "±0 %"


def figure(value: float) -> str:
    """A number in three digits, or a whole one in groups; never an exponent: `14.4`, `2,870`."""
    if abs(value) >= LEAST_GROUPED:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return "0" if "e" in text or text == "-0" else text


def per_s(rate: float | None) -> str:
    """A rate in three digits, or a whole number: `12.3/s`, `40/s`."""
    return UNKNOWN if rate is None else f"{_whole_or_grouped(rate)}/s"


def times(value: float) -> str:
    """How many times, in three digits, or a whole number: `16.7`, `6`, with its sign."""
    return f"{_whole_or_grouped(value)}\N{MULTIPLICATION SIGN}"


def _whole_or_grouped(value: float) -> str:
    return figure(value) if value == round(value) else _grouped(value)


def exact(value_ns: int) -> str:
    """Every nanosecond, in groups of three: `8,310,042 ns`."""
    return f"{value_ns:,} ns"


def share(ratio: float | None) -> str:
    """A ratio in percent: `71.2 %`."""
    return UNKNOWN if ratio is None else f"{round(100 * ratio, 1) + 0.0:.1f} %"


def part_of(ratio: float) -> str:
    """A share of a sum in which other parts may be negative: `54.5 %`, at most `100.0 %`."""
    return share(min(ratio, 1.0))


def target(ratio: float) -> str:
    """A target in percent, as exact as it was written: `99.95 %`."""
    return f"{100 * ratio:.6g} %"


def shares(parts: Sequence[float], of: str = "100.0 %") -> list[str]:
    """Parts of a whole in percent, rounded so that the printed column adds up to what is printed.

    A part that is rounded to nothing is less than a tenth: `<0.1 %`.

    Source: the largest-remainder method; each is off by less than 0.1.
    """
    whole = sum(parts)
    if whole <= 0:
        return [UNKNOWN for _ in parts]
    tenths = 0 if of == LITTLE else round(10 * float(of.removesuffix(" %")))
    wanted = [tenths * part / whole for part in parts]
    rounded = [int(value) for value in wanted]
    missing = tenths - sum(rounded)
    by_remainder = sorted(range(len(parts)), key=lambda index: rounded[index] - wanted[index])
    for index in by_remainder[:missing]:
        rounded[index] += 1
    return [
        LITTLE if part and not value else f"{value / 10:.1f} %"
        for part, value in zip(parts, rounded, strict=True)
    ]


def grouped(number: float | None) -> str:
    """A whole number in groups of three: `1,204`."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def size(value_bytes: float) -> str:
    """Bytes in three digits and their unit: `1.20 GB`, `340 kB`."""
    for unit, unit_bytes in SIZES:
        if abs(value_bytes) >= LEAST_GROUPED / 1000 * unit_bytes:
            return f"{_grouped(value_bytes / unit_bytes)} {unit}"
    return f"{value_bytes:.0f} B"


def changed_by(ratio: float) -> str:
    """A relative change in percent: `+3.2 %`, `-12.0 %`, never `-0.0 %`; or so many times."""
    if ratio >= MANY_TIMES - 1:
        return f"\N{MULTIPLICATION SIGN}{_grouped(1 + ratio)}"
    return f"{round(100 * ratio, 1) + 0.0:+.1f} %"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """A number and its noun: `1 request`, `1,204 requests`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def _long_duration(seconds: int) -> str:
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if seconds < 60 * 60:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{hours // 24:,} d {hours % 24:02d} h"


def _grouped(value: float) -> str:
    """Three digits, or a whole number in groups: `3.90`, `1,204`."""
    return f"{value:,.0f}" if value >= 99.95 else _three_digits(value)  # noqa: PLR2004 - where rounding carries


def _three_digits(value: float) -> str:
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0  # noqa: PLR2004 - where rounding carries
    return f"{value:.{decimals}f}"


_DURATION = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)(ns|us|ms|s|m|h)")
_UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_LONGEST_NS = 2**63 - 1  # what columns hold


def written_duration_ns(text: str) -> int | None:
    """Read a duration; None: it is none."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    return min(round(Decimal(match[1]) * _UNITS_NS[match[2]]), _LONGEST_NS)
