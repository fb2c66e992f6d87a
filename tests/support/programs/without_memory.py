"""Serves requests while one allocation after another fails; goes on afterwards."""

import _testcapi  # type: ignore[import-not-found] # CPython's own
import sys
from typing import Any

from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.hooks import asgi
from latencytrace.agent.timing.hook import Patch
from latencytrace.agent.timing.wrapping import beginning, timed
from latencytrace.model.stage import Stage
from tests.support.agent.hooked import Spans
from tests.support.programs.asgi_scopes import ANSWERS, SCOPES, Application, Route, serialize


def main() -> None:  # noqa: C901 - one program
    """Fail the first allocation, then the second, and so on until all of them were let through."""
    spans = Spans()
    spans.recorder.on_fault = lambda *_: None
    spans.recorder.open_requests._on_fault = lambda *_: None
    encoder = OtlpEncoder({"service.name": "program"})
    patch = Patch("", "serialize", Stage.POSTPROCESS)
    work = timed(serialize, beginning(serialize, patch, spans.recorder))

    async def original(_self: object, scope: dict[str, Any], _receive: Any, send: Any) -> None:
        work()
        for message in ANSWERS[scope["answer"]]:
            await send(message)

    async def send(_message: object) -> None:
        """Take a message."""

    call, application = asgi.time_application(spans.recorder, original), Application()

    def serve(answer: str) -> None:
        scope = {"type": "http", **SCOPES[0], "route": Route("/chat"), "answer": answer}
        scope["headers"] = [(b"traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01")]
        coroutine = call(application, scope, None, send)
        try:
            coroutine.send(None)
        except StopIteration:
            return
        finally:
            coroutine.close()

    for answer in ("whole", "events"):
        serve(answer)
        encoder.parts(spans.all)
        failed = 0
        for number in range(2_000):
            spans.all.clear()
            _testcapi.set_nomemory(number, number + 1)
            try:
                serve(answer)
                encoder.parts(spans.all)
            except (MemoryError, AttributeError):  # of the program's own, or of a span half made
                failed += 1
            finally:
                _testcapi.remove_mem_hooks()
        spans.all.clear()
        serve(answer)
        assert len(spans.all) == 2, spans.all
        assert encoder.parts(spans.all)
        sys.stdout.write(f"{failed}\n")


if __name__ == "__main__":
    main()
