"""Single values of an objective's document: names, numbers, periods, measures, shares."""

import math
import re
from typing import Annotated, Final, Never

import yaml
from pydantic import BeforeValidator, PlainValidator

from latencytrace.model import Measure, RequestStatus, Stage
from latencytrace.model.objective import DAY_NS, HOUR_NS, MINUTE_NS
from latencytrace.service.objectives.documents.yaml_fields import Field

SHORTEST_PERIOD_NS, LONGEST_PERIOD_NS = DAY_NS, 92 * DAY_NS
LONGEST_THRESHOLD_S: Final = 86_400
LEAST_BUDGET_RATIO: Final = 1e-6
MONTHS: Final = {"M": 1, "Q": 3, "Y": 12}
RATE: Final = "output_tokens_per_second"  # of a request: more is better

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_UNITS_NS: Final = {
    "m": MINUTE_NS, "h": HOUR_NS, "d": DAY_NS, "w": 7 * DAY_NS,
    "M": 30 * DAY_NS, "Q": 91 * DAY_NS, "Y": 365 * DAY_NS,
}  # fmt: skip
_LENGTH: Final = re.compile(r"(\d{1,5})([mhdwMQY])")
_MEASURES: Final = tuple(measure.value for measure in Measure if measure is not Measure.STAGE)
_TRUTHS: Final = {"true": True, "false": False}
_ROUNDING: Final = 1e-9


def one_of(*known: str, why: str = "") -> PlainValidator:
    """Note another text; the rest of its mapping is read nevertheless."""

    def read(field: Field) -> str:
        text = field.text()
        if text not in known:
            field.wrong(f"is {text!r}: {why}write {' or '.join(known)}")
        return text

    return PlainValidator(read)


def refused(problem: str, instead: str) -> PlainValidator:
    """Refuse a field; the one to write instead is not said to be missing, too."""

    def read(_: Field) -> Never:
        raise ValueError(problem, instead)

    return PlainValidator(read)


def name(field: Field) -> str:
    """Read a name.

    Raises:
        ValueError: It is none; as in all that follow.
    """
    if not _NAME.fullmatch(field.text()):
        raise ValueError(f"is {field.text()!r}: write letters, digits, `-`, `_` and `.`, up to 63")
    return field.text()


def truth(field: Field) -> bool:
    """Read true or false."""
    value = _TRUTHS.get(field.text().lower())
    if value is None:
        raise ValueError(f"is {field.text()!r}: write true or false")
    return value


def number(field: Field, advice: str) -> float:
    """Read a number; the advice is part of the error."""
    text = field.text()
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"is {text!r}, no number: {advice}")
    return value


def measure_of(field: Field) -> tuple[Measure, Stage | None]:
    """Read what is timed."""
    text = field.text()
    kind, separator, stage = text.partition(":")
    if kind == Measure.STAGE and separator:
        if stage not in set(Stage):
            raise ValueError(f"names no stage {stage!r}: there are {', '.join(Stage)}")
        return Measure.STAGE, Stage(stage)
    if text not in _MEASURES:
        raise ValueError(f"is {text!r}: write {', '.join(_MEASURES)}, {RATE} or stage:NAME")
    return Measure(text), None


def length_ns(field: Field) -> int:
    """Read a length of time, as `1h`."""
    found = _LENGTH.fullmatch(field.text())
    if found is None or not int(found[1]):
        raise ValueError(f"is {field.text()!r}: write minutes, hours or days, as 5m, 1h or 3d")
    return int(found[1]) * _UNITS_NS[found[2]]


def period(field: Field) -> tuple[int, int]:
    """Read a period: nanoseconds, which a month has of 30 days, and months."""
    found = _LENGTH.fullmatch(field.text())
    if found is None:
        raise ValueError(f"is {field.text()!r}: write days or weeks, as 30d or 4w, or 1M")
    if found[2] == "m":
        raise ValueError(f"is {field.text()!r}, minutes: write {found[1]}M for months")
    period_ns = int(found[1]) * _UNITS_NS[found[2]]
    if not SHORTEST_PERIOD_NS <= period_ns <= LONGEST_PERIOD_NS:
        raise ValueError(f"is {field.text()!r}: write between 1d and 92d, at most 1Q")
    return period_ns, int(found[1]) * MONTHS.get(found[2], 0)


def slice_ns(field: Field) -> int:
    """Read the length of a time slice; a number is of minutes."""
    text = field.text()
    found = _LENGTH.fullmatch(f"{text}m" if text.isdecimal() else text)
    read_ns = int(found[1]) * _UNITS_NS[found[2]] if found is not None else 0
    if not MINUTE_NS <= read_ns <= HOUR_NS:
        raise ValueError(f"is {text!r}: write between 1m and 1h")
    return read_ns


def slice_target(field: Field) -> float:
    """Read the share of a slice's requests that must be good: all of them, too."""
    target = number(field, "write a share, as 0.95")
    if not 0 < target <= 1:
        raise ValueError(f"is {field.text()}: write a share above 0 and up to 1, as 0.95")
    return target


def threshold_ns(field: Field) -> int:
    """Read seconds."""
    advice = "write seconds, as 2.0 or 0.3"
    seconds = number(field, advice)
    if seconds <= 0:
        raise ValueError(f"is {field.text()}: write seconds above 0, as 2.0 or 0.3")
    if round(seconds * 1e9) == 0:
        raise ValueError(f"is {field.text()}, less than a nanosecond: {advice}")
    if seconds > LONGEST_THRESHOLD_S:
        raise ValueError(f"is {field.text()}, longer than a day: {advice}")
    return round(seconds * 1e9)


def ratio_of(field: Field, whole: int) -> float:
    """Read a share of so much as a ratio."""
    target = number(field, f"write a share, as {0.99 * whole:g}")
    if not 0 < target < whole:
        raise ValueError(
            f"is {field.text()}: write a share above 0 and below {whole}, as {0.99 * whole:g}"
        )
    if 1 - target / whole < LEAST_BUDGET_RATIO - _ROUNDING:
        highest = f"{whole * (1 - LEAST_BUDGET_RATIO):.6g}"
        raise ValueError(
            f"is {field.text()}: that allows less than one bad request in a million, which "
            f"no service can keep; write {highest} at most"
        )
    return target / whole


def share(whole: int) -> PlainValidator:
    """Read a share of so much as a ratio."""

    def read(field: Field) -> float:
        return ratio_of(field, whole)

    return PlainValidator(read)


def statuses(field: Field) -> frozenset[RequestStatus]:
    """Read how requests end: one word, or a list of them."""
    is_list = isinstance(field.node, yaml.SequenceNode)
    texts = [one.text() for one in field.items()] if is_list else [field.text()]
    wrong = [text for text in texts if text not in set(RequestStatus)]
    if wrong:
        raise ValueError(f"is {wrong[0]!r}: write {', '.join(RequestStatus)}, or a list of them")
    return frozenset(map(RequestStatus, texts))


Text = Annotated[str, PlainValidator(Field.text)]
Items = BeforeValidator(Field.items)
