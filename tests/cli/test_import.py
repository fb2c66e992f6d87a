"""`latencytrace import` into a folder of its own."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from latencytrace.cli.importing.chunks import Place
from latencytrace.cli.importing.files import import_files
from latencytrace.cli.importing.report import MAX_LISTED, Report
from latencytrace.cli.source.folder import open_folder
from latencytrace.model import SpanKind
from tests.support.builders.spans.otlp_messages import START_NS, message, one_span, otlp
from tests.support.builders.trace_files import jaeger_json, otlp_json_lines
from tests.support.few import few
from tests.support.servers.command_line import COMMAND, environment, latencytrace
from tests.support.servers.nowhere import NOWHERE

YEAR_AGO_NS = START_NS - 365 * 86_400 * 10**9
MS = 1_000_000


ROOTS = [
    one_span(
        f"{number:032x}",
        start_ns=YEAR_AGO_NS + number * 60_000 * MS,
        end_ns=YEAR_AGO_NS + number * 60_000 * MS + MS,
    )
    for number in range(1, 4)
]


def imported(folder: Path, *files: Path) -> bool:
    return import_files(list(map(str, files)), url=None, endpoint=None, data=folder, as_json=False)


def asked(folder: Path, path: str, **parameters: str) -> dict[str, object]:
    with open_folder(folder) as source:
        document = source.document(path, parameters)
    assert isinstance(document, dict)
    return document


def test_old_traces_are_divided_at_once_and_how_to_read_them_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "old.jsonl"
    file.write_text(otlp_json_lines(*ROOTS))

    assert imported(tmp_path / "data", file)
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"3 spans of 3 traces imported into {tmp_path / 'data'}",
        "3 requests from 2024-11-21T01:54:20Z to 2024-11-21T01:56:21Z; next:",
        (
            "  latencytrace breakdown --since 2024-11-21T01:54:20Z --until 2024-11-21T01:56:21Z "
            f"--data {tmp_path / 'data'}"
        ),
    ]
    since, until = said[2].split()[3], said[2].split()[5]
    assert asked(tmp_path / "data", "/breakdown", since=since, until=until)["requests"] == 3


@pytest.mark.parametrize(("asked_for", "kept"), few(1, [("0", "<removed>"), ("1", "hello")]))
def test_content_is_imported_only_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_for: str, kept: str
) -> None:
    monkeypatch.setenv("LATENCYTRACE_CAPTURE_CONTENT", asked_for)
    file = tmp_path / "old.jsonl"
    file.write_text(otlp_json_lines(replace(ROOTS[0], attributes={"input.value": "hello"})))

    imported(tmp_path / "data", file)

    request = asked(tmp_path / "data", f"/requests/{ROOTS[0].trace_id}")
    assert request["spans"][0]["attributes"]["input.value"] == kept  # type: ignore[index] # a document


def test_the_same_file_imported_twice_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tmp_path / "first.jsonl"
    first.write_text(otlp_json_lines(*ROOTS))
    child = replace(
        ROOTS[0], span_id="00000000000000c1", parent_id=ROOTS[0].span_id, kind=SpanKind.INTERNAL
    )
    both = tmp_path / "both.json"
    both.write_text(jaeger_json([ROOTS[0], child], [ROOTS[1]]))
    imported(tmp_path / "data", first, both)
    before = asked(tmp_path / "data", "/requests", since="9999d", order="newest")

    imported(tmp_path / "data", both, first)

    assert asked(tmp_path / "data", "/requests", since="9999d", order="newest") == before
    assert capsys.readouterr().err == ""


def test_what_is_bad_is_named_and_what_is_good_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = otlp_json_lines(*ROOTS).splitlines()
    lines[1] = lines[1].replace(f"{2:032x}", "0" * 32)
    file = tmp_path / "half.jsonl"
    file.write_text("\n".join([lines[0], lines[1], '{"resourceSpans": [', lines[2]]))

    clean = imported(tmp_path / "data", file)

    captured = capsys.readouterr()
    assert not clean
    assert captured.out.startswith("2 spans of 2 traces imported")
    assert captured.err.splitlines() == [
        (
            f"latencytrace: {file}, line 2: 1 span rejected: a trace id needs 16 bytes and a span "
            "id 8, not all of them 0"
        ),
        f"latencytrace: {file}, line 4: it is cut off: the file ends in its middle",
    ]


def test_a_bad_text_costs_one_text_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, binary = tmp_path / "half.jsonl", tmp_path / "bad.pb"
    lines.write_text(otlp_json_lines(ROOTS[0]).replace("POST", r"\ud83dPOST"))
    sent = message(ROOTS[1:2]).SerializeToString() + message(ROOTS[2:]).SerializeToString()[:-1]
    binary.write_bytes(sent.replace(b"POST", b"\xff\xfeST"))

    clean = imported(tmp_path / "data", lines, binary)

    captured = capsys.readouterr()
    assert not clean  # for the last span is cut off
    assert captured.out.startswith("2 spans of 2 traces imported")
    assert "2 texts were no UTF-8, and are mended" in captured.out
    assert "it is cut off" in captured.err


def test_a_file_that_is_not_there_ends_it_before_anything_is_imported(tmp_path: Path) -> None:
    there, missing = tmp_path / "old.jsonl", tmp_path / "missing.json"
    there.write_text(otlp_json_lines(*ROOTS))

    ended = latencytrace("import", str(there), str(missing), "--data", str(tmp_path / "data"))

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"latencytrace: {missing} cannot be read: No such file or directory; "
        "nothing was imported\n"
    )
    assert not (tmp_path / "data").exists()


def test_counts_are_told_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    orphan = replace(ROOTS[0], trace_id="f" * 32, parent_id="e" * 16, kind=SpanKind.INTERNAL)
    sent = message([*ROOTS, orphan])
    sent.resource_spans[1].scope_spans[0].spans[0].span_id = b"short"
    file = tmp_path / "traces.bin"
    file.write_bytes(sent.SerializeToString())

    import_files([str(file)], url=None, endpoint=None, data=tmp_path / "data", as_json=True)

    document = json.loads(capsys.readouterr().out)
    [rejection] = document.pop("rejections")
    assert document == {
        "into": str(tmp_path / "data"),
        "files": 1,
        "spans": 3,
        "traces": 3,
        "rootless_traces": 1,
        "requests": 2,
        "since": "2024-11-21T01:54:20Z",
        "until": "2024-11-21T01:56:21Z",
        "mended_values": {},
        "rejected_spans": 1,
        "rejections_left_out": 0,
    }
    assert (rejection["file"], rejection["line"], rejection["spans"]) == (str(file), None, 1)


def test_standard_input_is_read_and_a_rejection_is_exit_code_1(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "import", "-", "--data", tmp_path / "data"],
        input=otlp(*ROOTS) + b"rubbish",
        capture_output=True,
        check=False,
        env=environment(),
    )

    assert done.returncode == 1
    assert done.stdout.startswith(b"3 spans of 3 traces imported")
    assert (
        done.stderr
        == (
            f"latencytrace: standard input, byte {len(otlp(*ROOTS))}: not OTLP: another field "
            "than resource_spans\n"
        ).encode()
    )


def test_a_service_that_does_not_answer_is_named(tmp_path: Path) -> None:
    file = tmp_path / "any.json"
    file.write_text(otlp_json_lines(*ROOTS))

    done = latencytrace("import", file, "--url", NOWHERE)

    assert done.returncode == 1
    assert done.stderr == (
        f"latencytrace: no service answers at {NOWHERE}: start one with "
        "`latencytrace serve`, or import into a folder with --data\n"
    )


def test_traces_that_share_half_of_their_id_are_counted_apart() -> None:
    report = Report(into="data")

    report.add(message(one_span(f"{number:016x}{7:016x}") for number in range(1, 4)))

    assert report.traces == 3


def test_rejections_are_told_one_by_one_up_to_a_bound() -> None:
    report = Report(into="data")
    for line in range(1, MAX_LISTED + 3):
        report.reject("a.jsonl", Place(line=line), "not JSON")

    assert list(report.rejection_lines())[-2:] == [
        f"a.jsonl, line {MAX_LISTED}: not JSON",
        "and 2 rejections more",
    ]
