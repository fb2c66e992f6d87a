"""`latencytrace objectives` of a file."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from latencytrace.cli.app import app
from latencytrace.errors import ObjectivesError, ServiceUnreachableError
from tests.service.objectives.test_file import CHAT
from tests.support.servers.nowhere import NOWHERE
from tests.support.terminal import said


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, without variables that name another file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LATENCYTRACE_OBJECTIVES", raising=False)
    monkeypatch.setenv("LATENCYTRACE_URL", NOWHERE)
    return tmp_path


def test_it_shows_what_is_promised_and_when_it_alerts(here: Path) -> None:
    (here / "objectives.yaml").write_text(CHAT)

    assert said("objectives").replace("\N{MULTIPLICATION SIGN}", "x").splitlines() == [
        "chat-e2e  99 % under 2 s",
        "99 % of rag · POST /chat: duration within 2.00 s, over 30 d",
        "alert   burn rate  long window  short window  at least bad  fires within (total outage)",
        "page        28.8x       15 min    1 min 15 s        28.8 %                   4 min 19 s",
        "page        14.4x          1 h         5 min        14.4 %                   8 min 38 s",
        "page           6x          6 h        30 min         6.0 %                  21 min 36 s",
        "page          90x  14 min 24 s    1 min 12 s        90.0 %                  12 min 58 s",
        "ticket         3x          1 d           2 h         3.0 %                  43 min 12 s",
        "ticket         1x          3 d           6 h         1.0 %                  43 min 12 s",
        "",
        "1 objective, nothing wrong.",
    ]


@pytest.mark.parametrize(
    ("duration", "over"),
    [
        ("1M", "month"),
        ("1Q", "quarter"),
        ("1w", "week"),
        ("1d", "day"),
        ("2M", "period of 2 months"),
    ],
)
def test_a_calendars_period_is_not_reported_in_days(here: Path, duration: str, over: str) -> None:
    calendar = (
        f"{{duration: {duration}, calendar: {{startTime: 2026-01-01 00:00:00, timeZone: UTC}}}}"
    )
    rolling = "{duration: 30d, isRolling: true}"
    (here / "objectives.yaml").write_text(CHAT.replace(rolling, calendar))

    assert said("objectives").splitlines()[1].endswith(f", over each calendar {over}")


def test_a_file_can_be_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "mine.yaml").write_text(CHAT)
    monkeypatch.setenv("LATENCYTRACE_OBJECTIVES", "mine.yaml")

    assert said("objectives", "mine.yaml") == said("objectives")


def test_what_is_wrong_is_the_error(here: Path) -> None:
    (here / "objectives.yaml").write_text(CHAT.replace("lte", "gte"))

    with pytest.raises(ObjectivesError, match=r"line 15: .*op is 'gte'"):
        said("objectives")


@pytest.mark.usefixtures("here")
def test_no_file_at_all_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ObjectivesError, match="name a file, or set LATENCYTRACE_OBJECTIVES"):
        said("objectives")


def test_json_is_what_a_service_says_so_one_must_run(here: Path) -> None:
    (here / "objectives.yaml").write_text(CHAT)

    with pytest.raises(ServiceUnreachableError, match="no service answers"):
        said("objectives", "--json")


@pytest.mark.parametrize("flags", [("--json",), ("--url", NOWHERE)])
def test_a_file_is_checked_without_a_service(flags: tuple[str, ...], here: Path) -> None:
    (here / "objectives.yaml").write_text(CHAT)

    result = CliRunner().invoke(app, ["objectives", "objectives.yaml", *flags])

    assert result.exit_code == 2
