"""A client in a process of its own, with plain sockets and its own clock.

    python outside_client.py HOST PORT METHOD PATH BODY ROUNDS LEAVE_AFTER

It prints a line of JSON a stream: when its first token came, and the mean time between those
after the first packet. A token is a word, or an event without words that calls a tool. Of
answers beside each other (`n`), each has its own first packet. With LEAVE_AFTER it hangs up
after so many events.
"""

import json
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Iterator


class Answer:
    """The tokens of one answer as they came."""

    def __init__(self) -> None:
        self.first_ns = self.last_ns = 0
        self.first_tokens = self.tokens = 0

    def came(self, tokens: int, at_ns: int) -> None:
        """Note tokens that came together."""
        if not self.tokens:
            self.first_ns, self.first_tokens = at_ns, tokens
        self.last_ns = at_ns
        self.tokens += tokens


def events(text: str) -> Iterator[tuple[int, int]]:
    """Of each part of an answer with output: which answer it is of, and how many tokens."""
    if not text.startswith(("data:", ":", "event:")):
        if text:
            yield 0, max(len(text.split()), 1)
        return
    for line in text.splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:]).get("choices", ()):
            delta = choice["delta"]
            shown = (delta.get("content") or "") + (delta.get("reasoning_content") or "")
            calls = delta.get("tool_calls") or ()
            if shown or calls:
                yield choice["index"], max(len(shown.split()), 1)


def chunks(connection: socket.socket) -> Iterator[tuple[int, str]]:
    """The chunks of an answer's body, each with when its last byte came."""
    held = b""
    while b"\r\n\r\n" not in held:
        held += connection.recv(1 << 16)
    head, _, held = held.partition(b"\r\n\r\n")
    assert head.split(b" ", 2)[1] == b"200", head
    assert b"transfer-encoding: chunked" in head.lower(), head
    at_ns = time.perf_counter_ns()
    while True:
        while b"\r\n" not in held:
            held += connection.recv(1 << 16)
            at_ns = time.perf_counter_ns()
        length, _, held = held.partition(b"\r\n")
        size = int(length, 16)
        while len(held) < size + 2:
            held += connection.recv(1 << 16)
            at_ns = time.perf_counter_ns()
        if not size:
            return
        yield at_ns, held[:size].decode()
        held = held[size + 2 :]


def stream(host: str, port: int, request: bytes, leave_after: int) -> dict[str, float | None]:
    """One stream as its caller saw it."""
    answers: dict[int, Answer] = defaultdict(Answer)
    seen = 0
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent_ns = time.perf_counter_ns()
        connection.sendall(request)
        for at_ns, text in chunks(connection):
            for index, tokens in events(text):
                answers[index].came(tokens, at_ns)
                seen += 1
            if 0 < leave_after <= seen:
                break
    following = sum(answer.tokens - answer.first_tokens for answer in answers.values())
    between_ns = sum(answer.last_ns - answer.first_ns for answer in answers.values())
    return {
        "first_ns": min(answer.first_ns for answer in answers.values()) - sent_ns,
        "token_ns": between_ns / following if following else None,
    }


def main() -> None:
    """Stream after stream, a line each."""
    host, port, method, path, body, rounds, leave_after = sys.argv[1:]
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    request = f"{head}\r\n{body}".encode()
    for _ in range(int(rounds)):
        print(json.dumps(stream(host, int(port), request, int(leave_after))), flush=True)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
