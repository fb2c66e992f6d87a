"""Axes of durations and of time."""

import re

import pytest

from latencytrace.model import Stage
from latencytrace.service.answers.breakdown_parts import StagesOverTimeDocument
from latencytrace.service.web.drawing.axes import CLOSE_NS, FAR_NS, ROUND_NS, Axes, plain
from latencytrace.service.web.drawing.stages_over_time import stages_over_time
from tests.support.over_all import over_all

MS, SECOND_NS, MINUTE_NS = 10**6, 10**9, 60 * 10**9
NARROWEST = 0.75  # doublings, of a heat map with one row
LABELS = re.compile(r'text-anchor="end">([^<]*)<')
TEXTS = {
    1: "1 ns",
    2500: "2.5 µs",
    200 * MS: "200 ms",
    1500 * MS: "1.5 s",
    90 * SECOND_NS: "1 min 30 s",
    20 * MINUTE_NS: "20 min",
    60 * MINUTE_NS: "1 h",
    90 * MINUTE_NS: "1 h 30 min",
    36 * 60 * MINUTE_NS: "1 d 12 h",
}
STEPS = {
    900 * MS: ["0", "200 ms", "400 ms", "600 ms", "800 ms"],
    101 * SECOND_NS: ["0", "30 s", "1 min", "1 min 30 s"],
    83 * MINUTE_NS: ["0", "20 min", "40 min", "1 h", "1 h 20 min"],
    50 * 60 * MINUTE_NS: ["0", "12 h", "1 d", "1 d 12 h", "2 d"],
}


@pytest.mark.parametrize(("length_ns", "text"), TEXTS.items(), ids=TEXTS.values())
def test_a_round_duration_has_no_digits_that_say_nothing(length_ns: int, text: str) -> None:
    assert plain(length_ns) == text


@pytest.mark.parametrize("lengths_ns", [FAR_NS, ROUND_NS, CLOSE_NS], ids=["far", "round", "close"])
def test_round_durations_ascend(lengths_ns: tuple[int, ...]) -> None:
    assert list(lengths_ns) == sorted(set(lengths_ns))


@over_all("quarter", range(4 * 10, 4 * 50))
def test_a_narrow_range_of_durations_has_a_label(quarter: int) -> None:
    low = quarter / 4 - 0.25
    axes = Axes(since_ns=0, until_ns=SECOND_NS, low=low, high=low + NARROWEST)

    assert LABELS.findall(axes.drawn())


@pytest.mark.parametrize(("mean_ns", "labels"), STEPS.items(), ids=map(plain, STEPS))
def test_means_have_lines_at_round_durations(mean_ns: int, labels: list[str]) -> None:
    document: StagesOverTimeDocument = {
        "since": "0",
        "until": str(SECOND_NS),
        "column_ns": SECOND_NS,
        "columns": [
            {
                "since": "0",
                "until": str(SECOND_NS),
                "requests": 1,
                "mean_ns": mean_ns,
                "stages": {Stage.TOOL: mean_ns},
            }
        ],
    }

    assert LABELS.findall(stages_over_time(document)) == labels


@pytest.mark.parametrize(
    ("since_ns", "lasts_ns", "shown"),
    [
        (
            31 * MINUTE_NS,
            360 * MINUTE_NS,
            ["01:00", "02:00", "03:00", "04:00", "05:00", "06:00 UTC"],
        ),
        (7 * SECOND_NS, 20 * SECOND_NS, ["00:00:10", "00:00:15", "00:00:20", "00:00:25 UTC"]),
        (
            0,
            2 * 1440 * MINUTE_NS,
            ["01 Jan 00:00", "01 Jan 12:00", "02 Jan 00:00", "02 Jan 12:00 UTC"],
        ),
        (0, 7 * 1440 * MINUTE_NS, ["01 Jan", "03 Jan", "05 Jan", "07 Jan UTC"]),
        (MS, MS, ["00:00:00 UTC"]),
    ],
    ids=["6 h", "20 s", "2 d", "7 d", "1 ms"],
)
def test_the_axis_of_time_names_round_moments(
    since_ns: int, lasts_ns: int, shown: list[str]
) -> None:
    axes = Axes(since_ns=since_ns, until_ns=since_ns + lasts_ns, low=0, high=1)

    assert re.findall(">([^<]+)</text>", axes.times()) == shown


def test_the_last_moment_names_the_time_zone() -> None:
    axes = Axes(since_ns=0, until_ns=SECOND_NS, low=0, high=1)

    assert re.findall(r">([^<]*UTC)<", axes.times()) == ["00:00:00 UTC"]
