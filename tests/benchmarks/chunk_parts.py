"""What a stream's chunk costs, part by part: the agent of `request_server.py` with parts left out.

For `bench_request.py --parts`, never for use: an agent without a part of its own reports less.
"""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from latencytrace.agent.hooks.asgi import RequestTiming
from latencytrace.agent.toolkit import streaming
from latencytrace.agent.toolkit.http import server
from tests.benchmarks.bench_compiled import compiled, through_c
from tests.benchmarks.request_server import HELD, IN_C, PACKED, PARTS, READ, TIMED

_TIME: Final = 1


def leave_out(part: str) -> None:
    """Leave out a part and those before it, or time sends by the prototype in C."""
    if part == IN_C:
        with TemporaryDirectory() as folder:
            timed: Any = through_c(compiled(Path(folder)))
        RequestTiming.sent = timed  # type: ignore[method-assign]
        return
    out = PARTS[: PARTS.index(part) + 1]
    replaced: dict[str, tuple[Any, str, Any]] = {
        PACKED: (server, "_streamed", _nothing_packed),
        READ: (streaming.AnswerStream, "_chunks_sent", _nothing_read),
        HELD: (streaming.AnswerStream, "catch_up", _nothing_held),
        TIMED: (RequestTiming, "_timed", _nothing_timed),
    }
    for name in out:
        where, what, instead = replaced[name]
        setattr(where, what, instead)


def _nothing_packed(*_: object) -> Mapping[str, Any]:
    return {}


def _nothing_read(answer: streaming.AnswerStream, *_: object) -> None:
    answer.eager, answer._first_body_ns = False, _TIME  # noqa: SLF001


def _nothing_held(answer: streaming.AnswerStream) -> None:
    answer.held.clear()
    _nothing_read(answer)


def _nothing_timed(request: RequestTiming, send: Any) -> Any:  # noqa: ANN401 - ASGI's
    async def ending_send(message: Any) -> None:  # noqa: ANN401
        await send(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            request.end()

    return ending_send
