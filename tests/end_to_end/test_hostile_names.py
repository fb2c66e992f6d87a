"""Names that somebody sent do not act on the terminal that prints them."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from latencytrace.model import Span, SpanKind, semconv
from tests.support.builders.spans.otlp_messages import message, one_span
from tests.support.servers.command_line import environment
from tests.support.servers.recording import RecordingServer, Response
from tests.support.servers.running_service import RunningService

pytestmark = pytest.mark.long

ACTS = (
    "\x1b]0;owned\x07",  # sets the title
    "\x1b[31;5;7m",  # blinks
    "\x1b[2J",  # clears the screen
    "\x9d0;owned\x9c",  # sets the title, too
    "\x9b31m",
    "\x08\x08",
    "\x7f",
    "\u202e",
    "\u2066",
    "\u200b",
    "\u200f",
    "\u2028",
    "\ufeff",
    "\r",
    "\nFORGED",
)
MARKUP = "[red][link=http://evil.example]日本語🙂"
FORBIDDEN = re.compile(
    "\x1b]|\x1b\\[31;5;7m|\x1b\\[2J|[\x00-\x08\x0b-\x0c\x0e-\x1a\x7f-\x9f]"
    "|[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|^ *FORGED|\x1b\\[31m",
    re.MULTILINE,
)
REQUEST, CHILD = uuid4().hex, uuid4().hex[:16]


def hostile(name: str) -> str:
    return f"{name}{MARKUP}{''.join(ACTS)}"


def spans() -> list[Span]:
    asked = one_span(
        REQUEST,
        name=hostile("POST "),
        attributes={
            "http.route": hostile("/"),
            "http.request.method": "POST",
            semconv.GEN_AI_REQUEST_MODEL: hostile("model"),
            hostile("key"): hostile("value"),
            "error.type": hostile("error"),
        },
        end_ns=one_span().start_ns + 9_000_000_000,
    )
    child = one_span(
        REQUEST,
        CHILD,
        parent_id=asked.span_id,
        name=hostile("search"),
        kind=SpanKind.CLIENT,
        end_ns=asked.start_ns + 8_000_000_000,
    )
    return [asked, child]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("names")
    # Else most of such names would be taken out on arrival.
    kept = {"LATENCYTRACE_CAPTURE_CONTENT": "1"}
    with RunningService(folder / "data", env=kept) as running:
        sent = message(spans())
        for resource in sent.resource_spans:
            for pair in resource.resource.attributes:
                pair.value.string_value = hostile(pair.value.string_value)
            for scope in resource.scope_spans:
                scope.scope.name = hostile("scope")
                for span in scope.spans:
                    span.status.code = span.status.STATUS_CODE_ERROR
                    span.status.message = hostile("status")
        assert running.post(sent.SerializeToString()).is_success
        running.request(REQUEST)
        (folder / "spans.otlp").write_bytes(sent.SerializeToString())
        yield running


def piped(*arguments: str) -> str:
    """All that a command prints when it is piped."""
    ended = subprocess.run(
        [sys.executable, "-m", "latencytrace", *arguments],
        capture_output=True,
        check=False,
        env=environment(PYTHONIOENCODING="utf-8"),
        timeout=100,
    )
    return (ended.stdout + ended.stderr).decode()


def on_terminal(*arguments: str) -> str:
    """All that it prints on a terminal."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "latencytrace", *arguments],
        stdin=its,
        stdout=its,
        stderr=its,
        env=environment(PYTHONIOENCODING="utf-8", TERM="xterm-256color", COLUMNS="200"),
    )
    os.close(its)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:  # Linux's way to say that nobody holds the other end
        pass
    process.wait(100)
    os.close(ours)
    return said.decode()


def commands(service: RunningService) -> dict[str, list[str]]:
    since, at = ["--since", "1970-01-01T00:00:00Z"], ["--url", service.url]
    return {
        "breakdown": ["breakdown", *since, *at],
        "breakdown of one": ["breakdown", "--route", hostile("POST /"), *since, *at],
        "requests": ["requests", *since, *at],
        "trace": ["trace", REQUEST, *at],
        "no such service": ["breakdown", "--service", "nobody", *since, *at],
        "no such route": ["requests", "--route", hostile("x"), *since, *at],
        "no such order": ["requests", "--where", hostile("x"), *since, *at],
        "doctor": ["doctor", *at],
        "gpu": ["gpu", "--once", *at],
        "objectives": ["objectives", *at],
        "profile": ["profile", "--list", *at],
        "trace as JSON": ["trace", REQUEST, "--json", *at],
        "requests as JSON": ["requests", "--json", *since, *at],
        "breakdown as JSON": ["breakdown", "--json", *since, *at],
    }


NAMES = (
    "breakdown",
    "breakdown of one",
    "requests",
    "trace",
    "no such service",
    "no such route",
    "no such order",
    "doctor",
    "gpu",
    "objectives",
    "profile",
    "trace as JSON",
    "requests as JSON",
    "breakdown as JSON",
)
SHOWS_NAMES = {"breakdown", "requests", "trace", "no such service", "no such route"}


@pytest.mark.parametrize("name", NAMES)
def test_no_name_acts_on_the_terminal(service: RunningService, name: str) -> None:
    command = commands(service)[name]

    for said in (piped(*command), on_terminal(*command).replace("\r\n", "\n")):
        found = FORBIDDEN.search(said)
        assert found is None, (found, said)
        if name in SHOWS_NAMES:
            assert "\\x1b" in said
            assert "[red]" in said


def test_a_file_is_spelled_out_only_where_somebody_watches(service: RunningService) -> None:
    command = ["export", "--format", "csv", "--since", "1970-01-01T00:00:00Z"]
    command += ["--url", service.url]

    watched = on_terminal(*command).replace("\r\n", "\n")
    acting = FORBIDDEN.search(watched.replace("\nFORGED", "\\nFORGED"))  # in quotes, as CSV has it
    assert acting is None, watched
    assert "\x1b]0;owned\x07" in piped(*command)


def test_json_still_means_what_was_sent(service: RunningService) -> None:
    found = json.loads(piped("trace", REQUEST, "--json", "--url", service.url))

    assert {span["name"] for span in found["spans"]} == {hostile("POST "), hostile("search")}


def test_an_imported_file_and_its_name_do_not_act(service: RunningService, tmp_path: Path) -> None:
    good = tmp_path / f"good{''.join(ACTS)}[red].otlp"
    good.write_bytes((service.folder.parent / "spans.otlp").read_bytes())
    torn = tmp_path / f"torn{''.join(ACTS)}[red].json"
    torn.write_text('{"resourceSpans": [{"' + hostile("x"))

    for run in (piped, on_terminal):
        data = tmp_path / run.__name__
        said = run("import", "--data", str(data), str(good), str(torn)).replace("\r\n", "\n")
        assert FORBIDDEN.search(said) is None, said
        assert "2 spans" in said


def test_what_a_server_under_load_answers_does_not_act() -> None:
    no = Response(500, hostile("no").encode(), reason="\x1b]0;owned\x07 FORGED")
    with RecordingServer(no) as server:
        for run in (piped, on_terminal):
            said = run("load", f"{server.url}/", "--rate", "5", "--requests", "3", "--no-trace")
            assert FORBIDDEN.search(said.replace("\r\n", "\n")) is None, said
            assert "500" in said


def test_the_services_log_does_not_act(service: RunningService) -> None:
    service.post(b"{", {"content-type": hostile("text/").encode("unicode_escape").decode()})

    assert FORBIDDEN.search(service.said()) is None
