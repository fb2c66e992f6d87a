"""Clients of a Chainlit application, with their own clocks, as its page in a browser asks.

    python chainlit_clients.py ADDRESS CLIENTS REQUESTS [ANYTHING…]

Each keeps its connection, and sends its next message once it is told that the last one is
answered. Prints when the first word and the end came, in ns since the message was sent: a line
a message.
"""

import asyncio
import json
import sys
from time import monotonic_ns
from typing import Any
from uuid import uuid4

import socketio

OK = 200


class Chat:
    """One connection; a user's session."""

    def __init__(self) -> None:
        self.client: Any = socketio.AsyncClient()
        self.over: asyncio.Queue[int] = asyncio.Queue()
        self.first_ns = 0
        self.client.on("task_end", lambda *_: self.over.put_nowait(monotonic_ns()))
        self.client.on("stream_token", self._word)

    def _word(self, *_: object) -> None:
        self.first_ns = self.first_ns or monotonic_ns()

    async def begin(self, address: str) -> None:
        session = {"sessionId": str(uuid4()), "clientType": "webapp", "userEnv": "{}"}
        where = {"socketio_path": "/ws/socket.io", "transports": ["websocket"]}
        await self.client.connect(address, auth=session, **where)
        await self.client.emit("connection_successful")
        await self.over.get()

    async def ask(self) -> dict[str, int]:
        """Send one message, and take the times of its answer."""
        self.first_ns, sent_ns = 0, monotonic_ns()
        asked = {"type": "user_message", "name": "user", "output": "where did they go"}
        message = {**asked, "id": str(uuid4()), "createdAt": "2026-01-01T00:00:00Z"}
        await self.client.emit("client_message", {"message": message, "fileReferences": None})
        ended_ns = await self.over.get() - sent_ns
        return {"first_ns": self.first_ns - sent_ns, "ended_ns": ended_ns, "status": OK}


async def client(address: str, count: int) -> list[dict[str, int]]:
    """What one client sees."""
    chat = Chat()
    await chat.begin(address)
    seen = [await chat.ask() for _ in range(count)]
    await chat.client.disconnect()
    return seen


async def main(address: str, clients: str, count: str, *_: str) -> None:
    """Print what all of them saw."""
    each = int(count) // int(clients)
    for seen in await asyncio.gather(*(client(address, each) for _ in range(int(clients)))):
        for one in seen:
            print(json.dumps(one))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
