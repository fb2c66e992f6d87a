"""From flags to what is sent."""

from pathlib import Path
from typing import TypedDict, Unpack

import pytest

from latencytrace.cli.load_test.target import Target, target
from latencytrace.errors import SettingsError

URL = "http://127.0.0.1:8000/chat"


class Flags(TypedDict, total=False):
    """Those that a test varies."""

    url: str
    method: str
    headers: list[str]
    json_body: str
    body: str
    bodies: Path


def aim(**flags: Unpack[Flags]) -> Target:
    return target(
        flags.get("url", URL),
        method=flags.get("method"),
        headers=flags.get("headers", []),
        json_body=flags.get("json_body"),
        body=flags.get("body"),
        bodies=flags.get("bodies"),
        timeout_s=1,
        max_in_flight=1,
    )


def test_a_body_is_posted_and_without_one_it_is_a_get() -> None:
    assert aim().method == "GET"
    assert aim(json_body="{}").method == "POST"
    assert aim(json_body="{}", method="put").method == "PUT"


def test_json_is_announced_as_such() -> None:
    assert aim(json_body="{}").headers["content-type"] == "application/json"
    assert aim(body="[1]").headers["content-type"] == "application/json"
    assert aim(body="a=1").headers["content-type"] == "application/octet-stream"
    assert "content-type" not in aim().headers


def test_headers_of_the_user_win() -> None:
    found = aim(json_body="{}", headers=["Content-Type: text/x", "X: a: b"])

    assert found.headers["content-type"] == "text/x"
    assert found.headers["x"] == "a: b"


def test_a_body_may_be_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(b"\x00\xff")

    assert aim(body=f"@{file}").bodies == [b"\x00\xff"]


def test_the_address_that_is_shown_holds_no_secret() -> None:
    shown = aim(url="http://user:secret@127.0.0.1:8000/chat?key=secret#x").public_url

    assert shown == URL


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (Flags(url="localhost:8000"), "no address"),
        (Flags(url="ftp://127.0.0.1/"), "no address"),
        (Flags(json_body="{"), "not JSON"),
        (Flags(json_body="{}", body="x"), "one of"),
        (Flags(headers=["no colon"]), "Name: value"),
        (Flags(body="@/no/such/file"), "cannot be read"),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(flags: Flags, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        aim(**flags)


@pytest.mark.parametrize(("lines", "message"), [("", "empty"), ("{}\nx\n", "line 2")])
def test_a_file_of_bodies_holds_json_lines(tmp_path: Path, lines: str, message: str) -> None:
    file = tmp_path / "bodies.jsonl"
    file.write_text(lines)

    with pytest.raises(SettingsError, match=message):
        aim(bodies=file)
