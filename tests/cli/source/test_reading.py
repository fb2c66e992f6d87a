"""Where reading commands get their answers, and what they say when there are none."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from latencytrace.errors import LatencytraceError
from tests.support.builders.documents import MS, breakdown_document, no_requests, request_document
from tests.support.servers.command_line import environment, latencytrace
from tests.support.servers.nowhere import NOWHERE
from tests.support.servers.recording import Received, RecordingServer, Response
from tests.support.terminal import said

OTHER_ID = "1f3c9b" + "0" * 26


def answer(received: Received) -> Response:
    """Answer as the service does, from fixed documents."""
    request = request_document()
    listed = [request, {**request, "trace_id": OTHER_ID}]
    chat = breakdown_document(retrieve=10 * MS, decode=90 * MS)
    documents: dict[str, object] = {
        "/healthz": "ok",
        "/api/v1/services": {"services": [{"service": "rag", "routes": ["POST /chat"]}]},
        "/api/v1/breakdown/routes": {
            "routes": [{"service": "rag", "route": "POST /chat", **chat}],
            "route_count": 1,
        },
        "/api/v1/breakdown": chat if "nothing" not in received.target else no_requests(),
        "/api/v1/requests": {"requests": [] if "nothing" in received.target else listed},
        "/api/v1/traces": {"trace_ids": begun(received, request["trace_id"], OTHER_ID)},
        f"/api/v1/requests/{request['trace_id']}": request,
    }
    problem = {"title": "Not found", "detail": "no request has this trace id; it may be too old"}
    status = 200 if received.path in documents else 404
    return Response(status, json.dumps(documents.get(received.path, problem)).encode())


def begun(received: Received, *trace_ids: str) -> list[str]:
    """Those of some traces that begin as it is asked for."""
    beginning = received.parameters.get("beginning", "")
    return [trace_id for trace_id in trace_ids if trace_id.startswith(beginning)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with RecordingServer(answer) as server:
        yield server.url


def test_breakdown_asks_the_service_for_its_routes(url: str) -> None:
    shown = latencytrace("breakdown", "--url", url)

    assert shown.stdout.startswith("POST /chat · rag\n4 requests")
    assert shown.returncode == 0


def test_the_service_is_found_by_its_environment_variable(url: str) -> None:
    shown = latencytrace("requests", env=environment(LATENCYTRACE_URL=url))

    assert shown.stdout.startswith("2 requests, slowest first")


def test_piped_output_is_plain_and_whole(url: str) -> None:
    shown = latencytrace("trace", "slowest", "--url", url)

    assert "\x1b" not in shown.stdout
    assert "…" not in shown.stdout
    assert not any(line.endswith(" ") for line in shown.stdout.splitlines())


@pytest.mark.parametrize(
    ("arguments", "document"),
    [
        (("breakdown",), breakdown_document(retrieve=10 * MS, decode=90 * MS)),
        (("trace", "slowest"), request_document()),
        (("trace", "1f3c9a"), request_document()),
    ],
    ids=["breakdown", "slowest", "beginning of an id"],
)
def test_json_is_exactly_the_apis_document(
    arguments: tuple[str, ...], document: object, url: str
) -> None:
    assert json.loads(said(*arguments, "--json", "--url", url)) == document


@pytest.mark.parametrize(
    ("trace_id", "message"),
    [
        ("1f3c", "'1f3c' begins 2 traces: 1f3c9a"),
        ("abcd", "no trace begins with 'abcd'"),
        ("f" * 32, "no request has this trace id; it may be too old"),
    ],
    ids=["ambiguous", "unknown beginning", "unknown id"],
)
def test_a_trace_that_is_not_there_is_said(trace_id: str, message: str, url: str) -> None:
    with pytest.raises(LatencytraceError, match=message):
        said("trace", trace_id, "--url", url)


def test_no_service_and_no_folder_says_how_to_begin(tmp_path: Path) -> None:
    folder = tmp_path / "nothing"

    shown = latencytrace("breakdown", env=environment(LATENCYTRACE_DATA=str(folder)))

    assert shown.returncode == 1
    assert shown.stderr == (
        f"latencytrace: no service answers at {NOWHERE} and there are no data in {folder}: "
        "trace a program first, with `latencytrace run -- COMMAND`\n"
    )


def test_a_named_service_that_does_not_answer_is_not_replaced_by_a_folder(tmp_path: Path) -> None:
    shown = latencytrace(
        "breakdown", "--url", NOWHERE, env=environment(LATENCYTRACE_DATA=str(tmp_path))
    )

    assert shown.returncode == 1
    assert f"no service answers at {NOWHERE}: start one with" in shown.stderr


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (("--service", "nothing"), "No service is called 'nothing'. There are: rag."),
        (("--route", "/nothing"), "No route is called '/nothing'. There are: POST /chat."),
    ],
    ids=["service", "route"],
)
@pytest.mark.parametrize("command", ["breakdown", "requests"])
def test_a_name_that_nobody_has_is_an_error_that_says_which_there_are(
    command: str, asked: tuple[str, str], answer: str, url: str
) -> None:
    with pytest.raises(LatencytraceError) as refused:
        said(command, *asked, "--url", url)

    assert str(refused.value) == answer


def test_an_address_without_its_scheme_is_told() -> None:
    shown = latencytrace("breakdown", "--url", "127.0.0.1:8321")

    assert shown.stderr == (
        "latencytrace: the service's address '127.0.0.1:8321' does not begin with http:// or "
        "https:// and a host\n"
    )


def test_reading_an_empty_folder_leaves_it_empty(tmp_path: Path) -> None:
    shown = latencytrace("breakdown", "--data", tmp_path)

    assert shown.stderr == f"latencytrace: there are no data in {tmp_path}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    shown = latencytrace("breakdown", "--data", tmp_path / "file")

    assert shown.stderr == f"latencytrace: {tmp_path / 'file'} is no folder\n"


def test_reading_somebody_elses_folder_leaves_it_alone(tmp_path: Path) -> None:
    (tmp_path / "passwd").touch()

    shown = latencytrace("breakdown", "--data", tmp_path)

    assert shown.stderr.startswith(
        f"latencytrace: {tmp_path} is no data folder, it holds 'passwd'"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["passwd"]


def test_an_unknown_order_is_a_usage_error(url: str) -> None:
    shown = latencytrace("requests", "--order", "fastest", "--url", url)

    assert shown.returncode == 2
    assert "write slowest or newest" in shown.stderr


def test_help_is_there_without_the_service(tmp_path: Path) -> None:
    for extra in ("fastapi", "chdb", "torch", "httpx"):
        (tmp_path / f"{extra}.py").write_text("raise ImportError('not installed')\n")

    shown = latencytrace("--help", env=environment(PYTHONPATH=str(tmp_path)))

    assert shown.returncode == 0
    assert "breakdown" in shown.stdout


@pytest.mark.parametrize(
    "command", ["serve", "run", "demo", "breakdown", "requests", "trace", "import", "export"]
)
def test_the_help_of_every_command_has_an_example(command: str) -> None:
    assert f"Example: latencytrace {command}" in said(command, "--help")
