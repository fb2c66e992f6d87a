"""The picture of a cohort by a label or an attribute."""

import pytest
from rich.cells import cell_len

from latencytrace.cli.pictures.groups import SPARK_CELLS, picture, sparkline
from latencytrace.model import Stage
from latencytrace.service.answers.groups import GroupDocument, GroupsDocument, SummaryDocument
from latencytrace.service.answers.overview_documents import TimeColumnDocument
from tests.support.terminal import plain, printed_lines

MS = 10**6


def column(place: int, p99_ms: int) -> TimeColumnDocument:
    return {"column": place, "requests": 1, "mean_ns": p99_ms * MS, "p99_ns": p99_ms * MS}


def summary(requests: int, p99_ms: int, failed: int = 0) -> SummaryDocument:
    return {
        "requests": requests,
        "share_ratio": requests / 20,
        "failed": failed,
        "p50_ns": 100 * MS,
        "p95_ns": 200 * MS,
        "p99_ns": p99_ms * MS,
        "mean_ns": {Stage.RETRIEVE: 30 * MS, Stage.DECODE: 70 * MS},
        "timeline": [column(0, p99_ms // 2), column(29, p99_ms)],
    }


def group(value: str, requests: int, p99_ms: int, failed: int = 0) -> GroupDocument:
    return {"value": value, **summary(requests, p99_ms, failed)}


FOUND: GroupsDocument = {
    "by": "tenant",
    "since": "0",
    "until": str(30 * 60 * 10**9),
    "column_ns": 60 * 10**9,
    "requests": 20,
    "groups": [group("globex", 12, 3000), group("", 4, 300, failed=1)],
    "others": summary(3, 400),
    "other_values": 7,
    "without": summary(1, 100),
    "unsure": 1,
}


def test_the_picture_of_known_groups_is_exactly_this() -> None:
    console = plain(120)

    assert "\n".join(printed_lines(picture(FOUND, console), console)) == EXPECTED


EXPECTED = """\
By tenant

tenant          requests   share  errors     p50     p95     p99  most time      p99 over time
globex                12  60.0 %   0.0 %  100 ms  200 ms  3.00 s  decode 70.0 %  ▅             █
""                     4  20.0 %  25.0 %  100 ms  200 ms  300 ms  decode 70.0 %  ▅             █
7 other values         3  15.0 %   0.0 %  100 ms  200 ms  400 ms  decode 70.0 %  ▅             █
no tenant              1   5.0 %   0.0 %  100 ms  200 ms  100 ms  decode 70.0 %  ▅             █

The rows add up to 20 requests. Of several values of a request the first counts.
Of 1 request without tenant not all attributes are kept."""


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_the_rows_fit_the_terminal_and_keep_what_matters(width: int) -> None:
    console = plain(width)
    found: GroupsDocument = {**FOUND, "groups": [group("مستأجر " * 20, 12, 3000)]}

    lines = printed_lines(picture(found, console), console)

    assert max(map(cell_len, lines)) <= width
    assert any("12" in line and "3.00 s" in line for line in lines)


def test_a_time_without_requests_is_a_gap() -> None:
    drawn = sparkline([column(0, 100), column(29, 200)], 30)

    assert drawn == "▅" + " " * (SPARK_CELLS - 2) + "█"
    assert sparkline([], 30).strip() == ""
