"""ClickHouse's HTTP interface over the embedded engine, in a process of its own.

A program: `python -m tests.support.clickhouse.front FOLDER PORT`. What it answers, and
with which codes, is the engine's; users, their passwords and the protocol are its own.
"""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, Protocol, Self
from urllib.parse import parse_qsl, quote, urlsplit

from tests.support.servers.ports import free_port
from tests.support.servers.serving import get
from tests.support.waiting import PATIENCE_S

USER, PASSWORD = "writer", "p@ss/w:rd %"
READER = "reader"
LISTENS = "listens"
LOSE = "lose"  # a path: the answer to the next insert is lost
INSERTS = "inserts"  # a path: how many were executed
HOLD = "hold/"  # a path, and a number: inserts wait once as many were executed; none: they fail
HELD = "held"  # a path: how many wait
FAIL = "fail/"  # a path, and a code of the engine's: the next question fails with it

_OF_THE_PROTOCOL = {"default_format", "wait_end_of_query", "database", "query", "query_id"}
_CODE = re.compile(r"Code: (\d+)\.")
_INPUT = re.compile(r"input\('((?:[^'\\]|\\.)*)'\) FORMAT (\w+)$")
_STATUSES = {"60": 404, "81": 404, "497": 403, "516": 403}
_REFUSED = (
    "Code: 516. DB::Exception: {}: Authentication failed: password is incorrect, or there is no "
    "user with such name. (AUTHENTICATION_FAILED)"
)


class Result(Protocol):
    """An answer of the engine's."""

    def bytes(self) -> bytes:
        """Return it."""
        ...

    def rows_written(self) -> int:
        """Return how many rows it wrote."""
        ...


class Connection(Protocol):
    """One to the engine."""

    def query(self, sql: str, fmt: str, params: Mapping[str, str] = ...) -> Result:
        """Ask."""
        ...


class Front:
    """The engine behind it, a connection for each set of settings."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.free: dict[frozenset[tuple[str, str]], list[Connection]] = {}
        self.loses = 0
        self.fails: list[str] = []
        self.inserts = 0
        self.most: int | None = None
        self.held = 0
        self.changed = threading.Condition()

    def hold(self, most: int | None) -> None:
        """Have inserts wait once so many were executed; None: end it for those that wait."""
        with self.changed:
            self.most = most
            self.changed.notify_all()

    def passes(self) -> bool:
        """Return whether an insert may be executed; it waits here, and then it may not."""
        with self.changed:
            if self.most is None or self.inserts < self.most:
                return True
            self.held += 1
            self.changed.wait_for(lambda: self.most is None)
            self.held -= 1
            return False

    @contextmanager
    def connection(self, settings: Mapping[str, str], *, reads: bool) -> Iterator[Connection]:
        """One with these settings; what changes with each question is set again."""
        import chdb

        fixed = {k: v for k, v in settings.items() if k != "insert_deduplication_token"}
        key = frozenset({**fixed, "reads": str(reads)}.items())
        with self.lock:
            free = self.free.setdefault(key, [])
            connection = free.pop() if free else None
        if connection is None:
            connection = chdb.connect(self.folder)
            if reads:
                connection.query("SET readonly = 1", "Null")
            for name, value in sorted(fixed.items()):
                connection.query(f"SET {name} = {value}", "Null")
        try:
            if token := settings.get("insert_deduplication_token"):
                connection.query(f"SET insert_deduplication_token = '{token}'", "Null")
            yield connection
        finally:
            with self.lock:
                free.append(connection)


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    front: ClassVar[Front]

    def do_GET(self) -> None:
        """Answer what tests ask, and `/ping`."""
        if self.path == f"/{LOSE}":
            self.front.loses += 1
        if self.path.startswith(f"/{FAIL}"):
            self.front.fails.append(self.path.rpartition("/")[2])
        if self.path.startswith(f"/{HOLD}"):
            number = self.path.rpartition("/")[2]
            self.front.hold(int(number) if number else None)
        counts = {f"/{INSERTS}": self.front.inserts, f"/{HELD}": self.front.held}
        said = str(counts.get(self.path, "Ok."))
        self.answer(200, f"{said}\n".encode())

    def do_POST(self) -> None:
        """Answer a question."""
        body = self.rfile.read(int(self.headers["content-length"]))
        user, _, password = (
            b64decode(self.headers.get("authorization", "").partition(" ")[2])
            .decode()
            .partition(":")
        )
        if user not in {USER, READER} or password != PASSWORD:
            self.refuse(_REFUSED.format(user))
            return
        if self.front.fails:
            self.refuse(f"Code: {self.front.fails.pop()}. DB::Exception: it fails (TEST)")
            return
        told = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        bound = {k.removeprefix("param_"): v for k, v in told.items() if k.startswith("param_")}
        settings = {
            k: v
            for k, v in told.items()
            if k not in _OF_THE_PROTOCOL and not k.startswith("param_")
        }
        if _insert_in(body) and not self.front.passes():
            self.close_connection = True
            return
        try:
            with self.front.connection(settings, reads=user == READER) as connection:
                written, content = self.answered(
                    connection, body, told.get("default_format", "TabSeparated"), bound
                )
        except RuntimeError as error:
            self.refuse(str(error))
            return
        if written is not None and self.front.loses:
            self.front.loses -= 1
            self.close_connection = True
            return
        summary = json.dumps({"written_rows": str(written or 0)})
        self.answer(200, content, {"X-ClickHouse-Summary": summary})

    def answered(
        self, connection: Connection, body: bytes, answer_format: str, bound: Mapping[str, str]
    ) -> tuple[int | None, bytes]:
        """The rows that were written, where it was an insert with a block, and the answer."""
        head, _, block = body.partition(b"\n")
        inserted = _insert_in(body)
        if inserted is None:
            result = connection.query(body.decode(), answer_format, params=dict(bound))
            return None, bytes(result.bytes())
        file = os.memfd_create("block")
        try:
            view = memoryview(block)
            while view:
                view = view[os.write(file, view) :]
            structure, block_format = inserted.groups()
            source = f"file('/proc/self/fd/{file}', '{block_format}', '{structure}')"
            sql = head.decode()[: inserted.start()] + source
            written = connection.query(sql, "Null", params={}).rows_written()
        finally:
            os.close(file)
        self.front.inserts += 1
        return written, b""

    def refuse(self, text: str) -> None:
        """Answer with an error of the engine's."""
        found = _CODE.search(text)
        code = found[1] if found else "1"
        self.answer(_STATUSES.get(code, 500), text.encode(), {"X-ClickHouse-Exception-Code": code})

    def answer(self, status: int, content: bytes, headers: Mapping[str, str] = {}) -> None:
        """Send it."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _insert_in(body: bytes) -> re.Match[str] | None:
    """Where an insert says what its block is; None: it is none, or has none."""
    head = body.partition(b"\n")[0]
    return _INPUT.search(head.decode()) if head.startswith(b"INSERT ") else None


def main(folder: str, port: str, config: str, *certificate: str) -> None:
    """Serve until it is killed."""
    Handler.front = Front(f"{folder}?config-file={config}" if config else folder)
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(LISTENS, flush=True)  # noqa: T201 - for whoever started it
    server.serve_forever()


class ClickHouseFront:
    """It, started by a test.

    Args:
        folder: The engine's.
        certificate: Files: a certificate and its key; none: it speaks no TLS.
        config: A file of the engine's configuration.
    """

    def __init__(self, folder: Path, *certificate: Path, config: Path | None = None) -> None:
        self._folder = folder
        self._options = (str(config or ""), *map(str, certificate))
        self.port = free_port()
        self._process: subprocess.Popen[str] | None = None

    def url(
        self,
        database: str = "latencytrace",
        *,
        user: str = USER,
        password: str = PASSWORD,
        options: str = "",
    ) -> str:
        """The address of a store on it."""
        who = f"{user}:{quote(password, safe='')}"
        return f"clickhouse://{who}@127.0.0.1:{self.port}/{database}{options}"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def told(self, path: str) -> str:
        """Tell it something, or ask it (see above)."""
        return get(f"http://127.0.0.1:{self.port}/{path}").text.strip()

    def start(self) -> None:
        """Start it, on the same port as before."""
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.support.clickhouse.front"),
                *(str(self._folder), str(self.port), *self._options),
            ],
            cwd=Path(__file__).parents[3],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._process = process
        assert process.stdout is not None
        assert process.stdout.readline().strip() == LISTENS

    def kill(self) -> None:
        """End it at once, as a server that loses its power."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
