"""Time to first token and time per output token against an outside client's own clock.

    python tests/benchmarks/bench_first_token.py [--rounds 100] [--only WORD] [--json]

Real servers run unchanged under `latencytrace run`: an application that generates with
transformers, `transformers serve`, an OpenAI-compatible server whose model is elsewhere, and,
where `litellm[proxy]` is installed, LiteLLM's proxy before it. A client in a process of its
own, which knows nothing of us, streams from them one after the other and times what it gets by
plain sockets. Each of its streams is compared with the request that the spans make: it agrees
where the two differ by at most 2 % or 2 ms. At least 95 of 100 must. It fails if fewer do; run
it on an idle machine, for the client is as late as the machine is busy.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from opentelemetry.trace import SpanKind

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import Request, semconv
from tests.benchmarks.bench_servers import free_port, process
from tests.support.agent.dividing import span_of
from tests.support.agent.receiving import Receiver
from tests.support.models.tiny_chat import tiny_chat
from tests.support.servers.traced_server import TracedServer, traced_server

HERE = Path(__file__).parent / "first_token"
CHAT = "/v1/chat/completions"
WAYS = {
    "one token an event": "plain",
    "four tokens an event": "four",
    "hidden reasoning": "reasoning",
    "empty first chunks": "empty",
    "keep-alive comments": "comments",
    "tools": "tools",
}
Start = Callable[[Receiver, Path], AbstractContextManager[TracedServer]]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # so that a core is left to the client
WARM_UP = 3
LEFT_AFTER = 12
WITHIN_RATIO, WITHIN_NS = 0.02, 2_000_000
ENOUGH = 0.95


@dataclass(frozen=True, slots=True)
class Case:
    """One way of streaming."""

    name: str
    method: str
    path: str
    body: str = ""
    leave_after: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """How many streams of a case agree, and by how much they differ."""

    name: str
    streams: int
    first: int  # those that agree
    per_token: int
    first_off_ns: float  # the median difference, ours less the client's
    per_token_off_ns: float
    first_ns: float  # the client's median
    per_token_ns: float

    @property
    def holds(self) -> bool:
        """Whether enough of them agree."""
        return min(self.first, self.per_token) >= ENOUGH * self.streams


def chat(model: str, **more: object) -> str:
    """The body of a request for a streamed chat completion."""
    asked = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    return json.dumps({**asked, "messages": [{"role": "user", "content": "where"}], **more})


def scripted(who: str) -> list[Case]:
    """The ways of the scripted engine, asked directly or through a gateway."""
    cases = [Case(f"{who}, {name}", "POST", CHAT, chat(way)) for name, way in WAYS.items()]
    cases.append(Case(f"{who}, two answers (n=2)", "POST", CHAT, chat("plain", n=2)))
    cases.append(Case(f"{who}, the client hangs up", "POST", CHAT, chat("plain"), LEFT_AFTER))
    return cases


def generating() -> list[Case]:
    """The ways of the application that generates by itself."""
    return [
        Case("transformers, text, empty first chunks", "GET", "/text"),
        Case("transformers, four tokens a chunk", "GET", "/four"),
        Case("transformers, hidden reasoning", "GET", "/hidden"),
        Case("transformers, events and comments", "GET", "/events"),
        Case("transformers, the client hangs up", "GET", "/events", "", LEFT_AFTER),
    ]


def serving() -> list[Case]:
    """Those of `transformers serve`."""
    generation = {"max_new_tokens": 40, "min_new_tokens": 40, "do_sample": False}
    body = {
        "messages": [{"role": "user", "content": "where did the milliseconds go"}],
        "generation_config": json.dumps(generation),
        "stream": True,
    }
    return [Case("transformers serve", "POST", CHAT, json.dumps(body))]


def requests(server: TracedServer, receiver: Receiver, path: str, count: int) -> list[Request]:
    """The last requests of a path, once they and all below them have arrived."""

    def served() -> list[str]:
        asked = [
            span
            for span in receiver.spans
            if span.kind is SpanKind.SERVER and span.attributes.get(semconv.URL_PATH) == path
        ]
        return [span.trace_id for span in sorted(asked, key=lambda span: span.start_ns)]

    server.wait_until(lambda: len(served()) >= count)
    time.sleep(0.3)  # what ends after the answer
    by_trace: dict[str, list[object]] = {}
    for span in receiver.spans:
        by_trace.setdefault(span.trace_id, []).append(span_of(span))
    return [requests_of(by_trace[trace_id], {})[0] for trace_id in served()]  # type: ignore[arg-type]


def compared(server: TracedServer, receiver: Receiver, case: Case, rounds: int) -> Result:
    """A case's streams, as the client and as the spans tell them."""
    receiver.posts.clear()
    address = urlsplit(server.url)
    where = [str(address.hostname), str(address.port), case.method, case.path, case.body]
    client = [sys.executable, os.fspath(HERE / "outside_client.py"), *where]
    told = subprocess.run(
        [*client, str(rounds + WARM_UP), str(case.leave_after)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.splitlines()
    seen = [json.loads(line) for line in told][WARM_UP:]
    ours = requests(server, receiver, case.path, len(told))[WARM_UP:]
    first = [
        ((one.time_to_first_token_ns or 0), client["first_ns"])
        for one, client in zip(ours, seen, strict=True)
    ]
    each = [
        ((one.time_per_output_token_ns or 0), client["token_ns"])
        for one, client in zip(ours, seen, strict=True)
    ]
    return Result(
        name=case.name,
        streams=len(seen),
        first=sum(agree(*pair) for pair in first),
        per_token=sum(agree(*pair) for pair in each),
        first_off_ns=statistics.median(ours - theirs for ours, theirs in first),
        per_token_off_ns=statistics.median(ours - theirs for ours, theirs in each),
        first_ns=statistics.median(theirs for _, theirs in first),
        per_token_ns=statistics.median(theirs for _, theirs in each),
    )


def agree(ours_ns: float, theirs_ns: float) -> bool:
    """Whether two clocks agree."""
    return abs(ours_ns - theirs_ns) <= max(WITHIN_RATIO * theirs_ns, WITHIN_NS)


def engine(receiver: Receiver, folder: Path) -> AbstractContextManager[TracedServer]:
    """The scripted engine."""
    script = os.fspath(HERE / "scripted_engine.py")
    return traced_server(receiver, folder, sys.executable, script, "PORT", ready="/health")


def model_in(folder: Path) -> str:
    """A model that takes some milliseconds a token, made on the spot."""
    model = folder / "model"
    if not model.exists():
        made = tiny_chat(width=384, layers=6)
        made.model.save_pretrained(model)
        made.tokenizer.save_pretrained(model)
    return os.fspath(model)


def application(receiver: Receiver, folder: Path) -> AbstractContextManager[TracedServer]:
    """The application that generates by itself."""
    command = (sys.executable, os.fspath(HERE / "streaming_app.py"), model_in(folder), "PORT")
    return traced_server(receiver, folder, *command, ready="/health", **ONE_THREAD)


def transformers_serve(receiver: Receiver, folder: Path) -> AbstractContextManager[TracedServer]:
    """The server that transformers brings."""
    command = (sys.executable, "-m", "transformers.cli.transformers", "serve", model_in(folder))
    options = ("--host", "127.0.0.1", "--port", "PORT", "--device", "cpu")
    offline = {"HF_HUB_OFFLINE": "1", **ONE_THREAD}
    return traced_server(receiver, folder, *command, *options, ready="/health", **offline)


@contextmanager
def litellm_proxy(receiver: Receiver, folder: Path) -> Iterator[TracedServer]:
    """LiteLLM's proxy before the scripted engine, which is not traced."""
    port = str(free_port())
    api = {"api_base": f"http://127.0.0.1:{port}/v1", "api_key": "none"}
    known = [
        {"model_name": way, "litellm_params": {"model": f"openai/{way}", **api}}
        for way in WAYS.values()
    ]
    config = folder / "litellm.yaml"
    config.write_text(json.dumps({"model_list": known}))  # JSON is YAML
    command = (os.fspath(Path(sys.executable).parent / "litellm"), "--config", os.fspath(config))
    options = ("--host", "127.0.0.1", "--port", "PORT")
    local = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    with (
        process([sys.executable, os.fspath(HERE / "scripted_engine.py"), port], {}),
        traced_server(
            receiver, folder, *command, *options, ready="/health/liveliness", **local
        ) as proxy,
    ):
        yield proxy


def turns() -> Iterator[tuple[Start, list[Case]]]:
    """Each server that can run here, and its cases."""
    yield application, generating()
    yield transformers_serve, serving()
    yield engine, scripted("an OpenAI-compatible server")
    if find_spec("litellm") is None:
        sys.stderr.write("left out, for litellm is not installed: LiteLLM's proxy\n")
    else:
        yield litellm_proxy, scripted("LiteLLM's proxy")


def line(result: Result) -> str:
    """A result for people."""
    first = f"{result.first:4} {result.first_off_ns / 1e6:+7.2f} of {result.first_ns / 1e6:6.1f}"
    each = f"{result.per_token:4} {result.per_token_off_ns / 1e6:+7.3f}"
    each += f" of {result.per_token_ns / 1e6:6.2f}"
    return f"{result.name:54} {result.streams:7} {first:>24} {each:>25}"


def main() -> int:
    """Print a line a case; fail if one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--json", action="store_true", help="print figures only")
    options = parser.parse_args()
    if not options.json:
        print(f"{'':54} {'streams':>7} {'first token, ms':>24} {'per output token, ms':>25}")
    results = []
    with tempfile.TemporaryDirectory() as folder, Receiver() as receiver:
        for start, cases in turns():
            wanted = [case for case in cases if options.only in case.name]
            if not wanted:
                continue
            with start(receiver, Path(folder)) as server:
                for case in wanted:
                    results.append(compared(server, receiver, case, options.rounds))
                    if not options.json:
                        print(line(results[-1]), flush=True)
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
