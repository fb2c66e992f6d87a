"""What is read of an answer, held against what `http.client` reads of it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.agent.export.http import HttpSender
from latencytrace.agent.export.http_connection import Answer, Connection
from tests.support.servers.recording import RecordingServer
from tests.support.waiting import PATIENCE_S

CONTENTS = st.binary(max_size=300)
NAMES = st.sampled_from(["Retry-After", "X-Order", "date", "Content-Type"])
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)
HEADERS = st.dictionaries(NAMES, VALUES, max_size=4)
WORDS_ON_THE_WAY = st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"])


def chunked(content: bytes, size: int) -> bytes:
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    return (
        b"".join(b"%x;a=b\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nx: y\r\n\r\n"
    )


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Draw an answer of each of the three kinds of length."""
    version, status = draw(st.sampled_from([b"1.0", b"1.1"])), draw(st.integers(200, 599))
    reason, content = draw(st.sampled_from([b"", b" OK", b" Not at all"])), draw(CONTENTS)
    headers, ending = draw(HEADERS), b""
    if draw(st.booleans()):
        headers["Connection"] = draw(st.sampled_from(["close", "Close", "keep-alive"]))
    lengths = ["told", "the connection's"] + ["chunked"] * (status not in {204, 304})
    length = draw(st.sampled_from(lengths))  # an answer without content has no chunks (RFC 9112)
    if length == "told":
        headers["Content-Length"], ending = str(len(content)), content
    elif length == "chunked":
        headers["Transfer-Encoding"], ending = (
            "chunked",
            chunked(content, draw(st.integers(1, 99))),
        )
    else:
        ending = content
    if status in {204, 304}:
        ending = b""
    lines = (f"{name}: {value}\r\n".encode() for name, value in headers.items())
    first = b"HTTP/%s %d%s\r\n" % (version, status, reason)
    return draw(WORDS_ON_THE_WAY) + first + b"".join(lines) + b"\r\n" + ending


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Give the port of a server that answers two posts so, and ends each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for _ in range(2):
                connection, _ = listening.accept()
                with connection:
                    while not connection.recv(1 << 16).endswith(b"body"):
                        pass
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(PATIENCE_S)


def posted(port: int) -> Answer:
    connection = Connection("127.0.0.1", port, PATIENCE_S, None)
    try:
        return connection.post("/", {"a": "b"}, b"body", PATIENCE_S)
    finally:
        connection.close()


@given(answers())
def test_an_answer_is_read_as_http_client_reads_it(answer: bytes) -> None:
    with answering(answer) as port:
        theirs = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        theirs.request("POST", "/", b"body")
        expected = theirs.getresponse()
        content = expected.read()
        theirs.close()

        ours = posted(port)

    assert (ours.status, ours.reason, ours.content) == (expected.status, expected.reason, content)
    assert ours.headers == {name.lower(): value for name, value in expected.getheaders()}
    assert ours.is_whole
    assert not (ours.may_stay and expected.will_close)


@pytest.mark.parametrize("length", [b"-1", b"-5", b"", b"x"])
def test_a_chunk_of_no_length_is_no_answer_and_nothing_more_is_read(length: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with answering(head + length + b"\r\n" + b"y" * 1000) as port:
        for _ in range(2):
            with pytest.raises(ConnectionError, match="as HTTP has it"):
                posted(port)


def test_one_connection_takes_one_post_after_another() -> None:
    with RecordingServer() as server:
        sender = HttpSender(f"{server.url}/v1/traces?a=b", {"Key": "välue"}, PATIENCE_S)
        answered = [sender.send(body).status for body in (b"one", b"", b"two" * 100_000)]
        sender.close()

    assert answered == [200, 200, 200]
    assert server.connections == 1
    assert [len(post.body) for post in server.received] == [3, 0, 300_000]
    assert {post.target for post in server.received} == {"/v1/traces?a=b"}
    assert server.received[0].headers["host"] == server.host
    assert server.received[0].headers["key"] == "välue"


@pytest.mark.parametrize("name", ["a\r\nb", "a\nb", "a\0b"])
def test_no_header_makes_another(name: str) -> None:
    with RecordingServer() as server:
        connection = Connection("127.0.0.1", server.server_port, PATIENCE_S, None)
        with pytest.raises(ValueError, match="line break"):
            connection.post("/", {name: "value"}, b"", PATIENCE_S)
        connection.close()

    assert server.received == []
