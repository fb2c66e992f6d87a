"""`latencytrace export`: what may be asked for, and where it is written."""

import os
import subprocess
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from latencytrace.cli.app import app
from latencytrace.cli.commands.export import ExportFormat, export
from latencytrace.errors import SettingsError
from tests.support.servers.command_line import COMMAND, environment, latencytrace
from tests.support.servers.recording_api import RecordingApi, recording_api

__all__ = ["recording_api"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"wanted_format": ExportFormat.PERFETTO}, "name it with --trace"),
        ({"output": Path("out.json")}, "name it with --trace"),
        ({"output": Path("out.foo")}, "end it in .csv or .parquet"),
        ({"trace": "slowest", "wanted_format": ExportFormat.CSV}, "leave out --trace"),
        ({"trace": "slowest", "output": Path("out.parquet")}, "leave out --trace"),
        ({"wanted_format": ExportFormat.PARQUET}, "-o FILE"),
    ],
)
def test_what_does_not_fit_together_is_a_usage_error(
    arguments: dict[str, object], said: str
) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        export(**arguments)


@pytest.mark.parametrize(
    ("name", "wanted_format"),
    [("ledgers.csv", "csv"), ("ledgers.parquet", "parquet"), ("ledgers", "csv")],
)
def test_the_ending_of_the_file_says_the_format(
    name: str, wanted_format: str, recording_api: RecordingApi, tmp_path: Path
) -> None:
    export(output=tmp_path / name, url=recording_api.url)

    assert ("/api/v1/ledgers", {"format": wanted_format}) in recording_api.asked
    assert (tmp_path / name).read_bytes() == recording_api.TABLE


def test_a_table_goes_to_standard_output(
    recording_api: RecordingApi, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    export(url=recording_api.url)

    assert capfdbinary.readouterr().out == recording_api.TABLE


def test_a_format_that_there_is_not_is_said_plainly() -> None:
    shown = latencytrace("export", "--format", "nope")

    said = " ".join(shown.stderr.replace("│", " ").split())
    assert "Invalid value for '--format': 'nope' is not one of 'csv', 'parquet'" in said
    assert shown.returncode == 2


def test_of_a_table_without_rows_it_is_said_why(
    recording_api: RecordingApi, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    recording_api.listed = []

    export(route="/nothing", output=tmp_path / "ledgers.csv", url=recording_api.url)

    assert capsys.readouterr().err == (
        "latencytrace: no rows. No route is called '/nothing'. There are: POST /chat.\n"
    )


def test_a_trace_is_written_for_perfetto(recording_api: RecordingApi, tmp_path: Path) -> None:
    export(output=tmp_path / "one.json", trace="slowest", url=recording_api.url)

    assert (tmp_path / "one.json").read_text().startswith('{"traceEvents": [')


@pytest.mark.parametrize(("word", "order"), [("slowest", "slowest"), ("latest", "newest")])
def test_a_word_means_the_first_of_an_order(
    recording_api: RecordingApi, tmp_path: Path, word: str, order: str
) -> None:
    export(output=tmp_path / "one.json", trace=word, url=recording_api.url)

    assert ("/api/v1/requests", {"order": order, "limit": "1"}) in recording_api.asked


def test_a_file_that_cannot_be_written_is_named_and_nothing_is_left(
    recording_api: RecordingApi, tmp_path: Path
) -> None:
    output = tmp_path / "folder" / "ledgers.csv"

    with pytest.raises(SettingsError, match="cannot be written: No such file or directory"):
        export(output=output, url=recording_api.url)
    assert list(tmp_path.iterdir()) == []


def test_standard_output_by_its_path_has_the_table_and_no_other_line(
    recording_api: RecordingApi,
) -> None:
    done = latencytrace("export", "-o", "/proc/self/fd/1", "--url", recording_api.url)

    assert done.returncode == 0, done.stderr
    assert done.stdout.encode() == recording_api.TABLE


def test_a_file_of_standard_output_is_appended_to(
    recording_api: RecordingApi, tmp_path: Path
) -> None:
    """As by `>> FILE`: its path leads to a regular file, which must not be replaced."""
    table = tmp_path / "table.csv"
    table.write_bytes(b"a head\n")
    with table.open("ab") as file:
        subprocess.run(
            [*COMMAND, "export", "-o", "/proc/self/fd/1", "--url", recording_api.url],
            check=True, stdout=file, env=environment(), timeout=100,
        )  # fmt: skip

    assert table.read_bytes() == b"a head\n" + recording_api.TABLE


def test_what_may_be_written_but_not_read_is_written(
    recording_api: RecordingApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check of the option itself, which asks the system; root may read everything."""
    output = tmp_path / "ledgers.csv"
    output.write_bytes(b"")
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.R_OK)

    done = CliRunner().invoke(app, ["export", "-o", str(output), "--url", recording_api.url])

    assert done.exit_code == 0, done.output
    assert output.read_bytes() == recording_api.TABLE
