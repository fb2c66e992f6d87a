"""Periods that begin with the calendar: where the one of now begins and ends."""

from calendar import monthrange
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from latencytrace.model import Calendar

_MONTHS_A_YEAR = 12


def period_bounds_ns(calendar: Calendar, now_ns: int) -> tuple[int, int]:
    """Return the beginning and the end of the period that a moment lies in."""
    zone = ZoneInfo(calendar.zone)
    first = datetime.fromisoformat(calendar.start)
    now = datetime.fromtimestamp(now_ns / 1e9, zone).replace(tzinfo=None)
    if calendar.months:
        passed = (now.year - first.year) * _MONTHS_A_YEAR + now.month - first.month
        number = passed // calendar.months
    else:
        number = (now - first).days // calendar.days
    # The day of the month, or an hour that the clock skips, can make it one less.
    while _start_ns(calendar, first, number, zone) > now_ns:
        number -= 1
    while _start_ns(calendar, first, number + 1, zone) <= now_ns:
        number += 1
    return _start_ns(calendar, first, number, zone), _start_ns(calendar, first, number + 1, zone)


def _start_ns(calendar: Calendar, first: datetime, number: int, zone: ZoneInfo) -> int:
    """The beginning of a period by number, as the clocks of its zone have it."""
    if calendar.months:
        months = first.year * _MONTHS_A_YEAR + first.month - 1 + number * calendar.months
        year, month = divmod(months, _MONTHS_A_YEAR)
        day = min(first.day, monthrange(year, month + 1)[1])
        local = first.replace(year=year, month=month + 1, day=day)
    else:
        local = first + timedelta(days=number * calendar.days)
    return int(local.replace(tzinfo=zone).timestamp()) * 10**9
