"""An application with waits whose place is known: the control of the controls."""

import time
from collections.abc import Iterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import latencytrace

CHUNKS = 64
CHUNK_BYTES = 256 * 1024  # more than any socket buffers, so that a slow client is felt
DECODE_S = 0.002

app = FastAPI()


@app.get("/hidden/{milliseconds}")
def hidden(milliseconds: int) -> str:
    """Wait where no hook can see it."""
    time.sleep(milliseconds / 1000)
    return "waited"


@app.get("/stream")
def stream() -> StreamingResponse:
    """Decode a little, send a lot, and again."""

    def chunks() -> Iterator[bytes]:
        for _ in range(CHUNKS):
            with latencytrace.stage("decode"):
                time.sleep(DECODE_S)
            yield bytes(CHUNK_BYTES)

    return StreamingResponse(chunks())
