"""The hook of AWS Lambda: its own runtime, with a client that answers as the service does."""

import json
import time
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode, format_trace_id

from latencytrace.agent.hooks.aws_lambda import AwsLambdaHook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans

bootstrap = pytest.importorskip("awslambdaric.bootstrap")
marshaller = pytest.importorskip("awslambdaric.lambda_runtime_marshaller")

HOOKS = (AwsLambdaHook,)
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


class Client:
    """Takes what the runtime posts."""

    def __init__(self) -> None:
        self.marshaller = marshaller.LambdaMarshaller()
        self.results: list[str] = []
        self.errors: list[str] = []

    def post_invocation_result(self, _: str, result: str, *__: object, **___: object) -> None:
        """Take a result."""
        self.results.append(result)

    def post_invocation_error(self, _: str, error: str, *__: object, **___: object) -> None:
        """Take an error."""
        self.errors.append(error)


def invoked(
    handler: Any,
    event: Any,
    monkeypatch: pytest.MonkeyPatch,
    left_s: float = 900,
) -> Client:
    """One invocation, as the runtime's loop makes it."""
    deadline_ms = round((time.time() + left_s) * 1000)
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "answering")
    client = Client()
    sink: Any = bootstrap.StandardLogSink()
    bootstrap.handle_event_request(
        client, handler, "1", json.dumps(event), "application/json", None, None,
        "arn:aws:lambda:eu-west-1:1:function:answering", deadline_ms, None, sink,
    )  # fmt: skip
    return client


def test_an_invocation_is_one_request_in_the_trace_of_an_http_caller(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = {"headers": {"Traceparent": PARENT}, "body": "a secret"}

    client = invoked(lambda given, _: len(given["body"]), event, monkeypatch)

    assert client.results == ["8"]
    assert (spans.only.name, spans.only.kind) == ("answering", SpanKind.CONSUMER)
    assert format_trace_id(spans.only.get_span_context().trace_id) == TRACE
    assert "secret" not in repr(dict(spans.only.attributes))


def test_what_was_recorded_is_sent_before_the_answer(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(
        "latencytrace.agent.hooks.aws_lambda.flush", lambda *_: sent.append(len(spans.all))
    )

    client = invoked(lambda *_: 1, [], monkeypatch)

    assert client.results == ["1"]
    assert sent == [1]


def test_the_wait_for_a_receiver_ends_long_before_the_invocation_must(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    def flush(_: object, timeout_s: float) -> bool:
        limits.append(timeout_s)
        return True

    monkeypatch.setattr("latencytrace.agent.hooks.aws_lambda.flush", flush)

    for left_s in (900, 4, -1):
        invoked(lambda *_: 1, [], monkeypatch, left_s)

    assert len(spans.all) == 3
    assert limits[0] == 3
    assert limits[1] < 2.1
    assert limits[2] == 0


def test_a_receiver_that_does_not_answer_is_not_waited_for_each_time(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns, answers, asked = [0], [False, True, True], list[int]()

    def flush(*_: object) -> bool:
        asked.append(now_ns[0])
        return answers.pop(0)

    monkeypatch.setattr("latencytrace.agent.hooks.aws_lambda.flush", flush)
    monkeypatch.setattr("latencytrace.agent.hooks.aws_lambda.monotonic_ns", lambda: now_ns[0])
    results: list[str] = []
    for at_s in (1, 2, 60, 61, 62):
        now_ns[0] = at_s * 1_000_000_000
        results += invoked(lambda *_: 1, [], monkeypatch).results

    assert results == ["1"] * 5
    assert len(spans.all) == 5
    assert [at_ns // 1_000_000_000 for at_ns in asked] == [1, 61, 62]


def test_an_error_fails_the_span_and_reaches_the_runtime(
    spans: Spans, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a secret")

    client = invoked(fail, {}, monkeypatch)

    assert "LookupError" in client.errors[0]
    assert "LookupError" in capfd.readouterr().out
    assert spans.only.status.status_code is StatusCode.ERROR
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
