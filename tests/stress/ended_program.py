"""A program that makes pools and ends them, or is short; `tests.stress.ends` runs it.

`ended_program.py pools METHOD WAY`, `ended_program.py short`, or for `tests.stress.away`
`ended_program.py away ours|own exit|uninstrument|flush:SECONDS`
"""

import importlib
import json
import multiprocessing
import os
import signal
import sys
import time
from contextlib import nullcontext, suppress
from typing import Any, Final

NAME: Final = "request"
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"  # only a traced program has it
UNRECORDED: Final = "UNRECORDED"  # a variable of programs that are to record nothing
LASTS_MS: Final = 40  # that a short program goes on after it has said what it did
_REQUESTS: Final = 20


# None: this process is not traced, or has nothing to record.
_RECORDS: Final = ENDPOINT in os.environ and UNRECORDED not in os.environ
agent: Any = importlib.import_module("latencytrace") if _RECORDS else None


def work(number: int) -> int:
    """Do next to nothing, in a span where there is an agent."""
    with agent.stage("work") if agent else nullcontext():
        return number + 1


def failing(_: int) -> int:
    """Raise.

    Raises:
        ValueError: Always.
    """
    raise ValueError


def waiting(_: int) -> None:
    """Take longer than anybody waits."""
    time.sleep(30)


def context_of(method: str) -> Any:
    """Return what makes pools: multiprocessing's, or billiard's, which is Celery's."""
    if method == "billiard":
        return importlib.import_module("billiard").get_context("fork")
    return multiprocessing.get_context(method)


def _close(context: Any) -> None:
    pool = context.Pool(2)
    pool.map(work, range(4))
    pool.close()
    pool.join()


def _terminate(context: Any) -> None:
    with context.Pool(2) as pool:
        pool.map(work, range(4))


def _at_once(context: Any) -> None:
    pool = context.Pool(2)
    pool.terminate()
    pool.join()


def _exception(context: Any) -> None:
    with context.Pool(2) as pool, suppress(ValueError):
        pool.map(failing, range(2))


def _timeout(context: Any) -> None:
    with context.Pool(2) as pool, suppress(context.TimeoutError):
        pool.map_async(waiting, range(2)).get(0.05)


def _recycled(context: Any) -> None:
    with context.Pool(2, maxtasksperchild=1) as pool:
        pool.map(work, range(4), 1)


def _kill(context: Any) -> None:
    process = context.Process(target=waiting, args=(0,))
    process.start()
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def in_child(method: str) -> None:
    """Make a pool in a child."""
    _terminate(context_of(method))


def _nested(context: Any) -> None:
    process = context.Process(target=in_child, args=(sys.argv[2],))
    process.start()
    process.join()


WAYS: Final = {
    "close": _close,
    "terminate": _terminate,
    "terminate at once": _at_once,
    "an exception": _exception,
    "a timeout": _timeout,
    "recycled": _recycled,
    "kill": _kill,
    "nested": _nested,
}


def pools(method: str, way: str) -> None:
    """Make a pool for each line that is read, and print how long it took.

    The first one, which starts what forks the others, is not printed.
    """
    context = context_of(method)
    WAYS[way](context)
    for _ in sys.stdin:
        began = time.monotonic()
        WAYS[way](context)
        sys.stdout.write(f"{time.monotonic() - began:.4f}\n")
        sys.stdout.flush()


def _requests() -> None:
    for _ in range(_REQUESTS):
        with agent.request(NAME) if agent else nullcontext():
            pass


def short() -> None:
    """Do a few requests, say so, and end soon."""
    _requests()
    sys.stdout.write(f"{_REQUESTS}\n")
    sys.stdout.flush()
    time.sleep(LASTS_MS / 2000)


def away(provider: str, action: str) -> None:
    """Do a few requests and one more thing; print what that gave, how long it took, the counts."""
    if provider == "own":
        trace, sdk = map(
            importlib.import_module, ("opentelemetry.trace", "opentelemetry.sdk.trace")
        )
        trace.set_tracer_provider(sdk.TracerProvider())
    _requests()
    began, gave = time.monotonic(), None
    if action.startswith("flush:"):
        gave = agent.flush(float(action.partition(":")[2]))
    elif action == "uninstrument":
        agent.uninstrument()
    took_s, status = time.monotonic() - began, agent.agent_status()
    counts = (status.spans_made, status.spans_sent, status.spans_dropped, status.spans_queued)
    sys.stdout.write(json.dumps({"gave": gave, "took_s": took_s, "counts": counts}) + "\n")
    sys.stdout.flush()
    if action != "exit":
        os._exit(0)


def main(what: str, *arguments: str) -> None:
    """Do what is asked for."""
    if what == "pools":
        pools(*arguments)
    elif what == "away":
        away(*arguments)
    else:
        short()


if __name__ == "__main__":
    main(*sys.argv[1:])
