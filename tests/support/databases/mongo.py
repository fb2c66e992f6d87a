"""A server on loopback that speaks MongoDB's wire protocol as far as tests of its client ask."""

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import bson

_MESSAGE: Final = 2013  # OP_MSG
_REPLY: Final = 1  # OP_REPLY, to the first `hello` of an old kind
_QUERY: Final = 2004
_HEADER: Final = struct.Struct("<iiii")  # length, request, response to, kind
_HELLO: Final = {
    "isWritablePrimary": True, "ismaster": True, "helloOk": True, "maxBsonObjectSize": 16777216,
    "maxMessageSizeBytes": 48000000, "maxWriteBatchSize": 100000, "minWireVersion": 0,
    "maxWireVersion": 21, "readOnly": False, "ok": 1.0,
}  # fmt: skip
DOCUMENTS: Final = [{"_id": 1, "text": "a secret"}, {"_id": 2, "text": "another"}]


def _answer(command: dict[str, Any]) -> dict[str, Any]:
    """Answer a command: two documents to whoever asks for some, in two batches to a `find`."""
    name = next(iter(command))
    if name in {"hello", "ismaster", "isMaster"}:
        return _HELLO
    if name in {"find", "aggregate", "getMore"}:
        collection = f"test.{command.get('collection', command[name])}"
        batch = {"getMore": "nextBatch"}.get(name, "firstBatch")
        given = {"find": DOCUMENTS[:1], "getMore": DOCUMENTS[1:]}.get(name, DOCUMENTS)
        following = 7 if name == "find" and not command.get("singleBatch") else 0
        return {"ok": 1.0, "cursor": {"id": bson.Int64(following), "ns": collection, batch: given}}
    if name == "delete":
        return {"ok": 0.0, "errmsg": "of the server", "code": 13, "codeName": "Unauthorized"}
    return {"ok": 1.0, "n": 1}


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while (head := self.rfile.read(_HEADER.size)) and len(head) == _HEADER.size:
            length, request, _, kind = _HEADER.unpack(head)
            body = self.rfile.read(length - _HEADER.size)
            if kind == _QUERY:
                payload = struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(_HELLO)
                self._send(payload, request, _REPLY)
                continue
            size = struct.unpack_from("<i", body, 5)[0]  # after the flags and the section's kind
            command: dict[str, Any] = bson.decode(body[5 : 5 + size])
            self._send(b"\0\0\0\0\0" + bson.encode(_answer(command)), request, _MESSAGE)

    def _send(self, payload: bytes, request: int, kind: int) -> None:
        self.wfile.write(_HEADER.pack(_HEADER.size + len(payload), 0, request, kind) + payload)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextmanager
def serving_mongo() -> Iterator[str]:
    """Where it can be reached."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"mongodb://127.0.0.1:{server.server_address[1]}/?directConnection=true"
        finally:
            server.shutdown()
            thread.join()
