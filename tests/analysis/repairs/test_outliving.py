"""LiteLLM's requests, started in a step of FastAPI's, go on where they truly ran."""

from dataclasses import replace

from latencytrace.analysis.build_trace import build_traces
from latencytrace.model import Span, SpanKind, Stage, Trace, semconv
from tests.support.builders.spans.trees import root, span

FASTAPI, LITELLM = "fastapi", "litellm"
CALL = {semconv.GEN_AI_OPERATION_NAME: "chat"}


def step(name: str, start_ns: int, end_ns: int) -> Span:
    return replace(span(name, start_ns, end_ns), scope=FASTAPI)


def request(end_ns: int, parent: str = "dependencies") -> Span:
    made = span("request", 5, end_ns, parent=parent)
    return replace(made, name="Received Proxy Server Request", scope=LITELLM)


def own(name: str, start_ns: int, end_ns: int, stage: Stage | None = None) -> Span:
    return replace(span(name, start_ns, end_ns, parent="request", stage=stage), scope=LITELLM)


def built(*spans: Span) -> Trace:
    return build_traces([root(), *spans])[0]


def test_a_request_goes_below_what_lasts_as_long() -> None:
    trace = built(step("dependencies", 4, 10), request(90))

    assert (trace.spans["request"].parent_id, trace.spans["request"].end_ns) == ("root", 90)
    assert not trace.repairs


def test_a_call_of_the_endpoint_goes_below_the_endpoint() -> None:
    call = span("call", 30, 80, parent="dependencies", kind=SpanKind.CLIENT, attributes=CALL)
    typed = replace(call, scope=LITELLM)

    trace = built(step("dependencies", 4, 10), step("endpoint", 10, 95), typed)

    assert (trace.spans["call"].parent_id, trace.spans["call"].start_ns) == ("endpoint", 30)
    assert not trace.repairs


def test_what_it_did_in_the_endpoint_goes_below_the_endpoint() -> None:
    call = own("call", 30, 90, Stage.REMOTE_MODEL)

    trace = built(step("dependencies", 4, 10), request(90), step("endpoint", 10, 95), call)

    assert trace.spans["call"].parent_id == "endpoint"


def test_what_streams_on_after_the_endpoint_stays_below_the_request() -> None:
    call = own("call", 30, 90, Stage.REMOTE_MODEL)

    trace = built(step("dependencies", 4, 10), request(90), step("endpoint", 10, 40), call)

    assert trace.spans["call"].parent_id == "request"


def test_what_tells_but_that_it_ran_does_not_win_the_time_of_what_ran_in_it() -> None:
    call = own("call", 30, 90, Stage.REMOTE_MODEL)

    trace = built(request(95, parent="root"), own("router", 20, 92), call)

    assert trace.spans["call"].parent_id == "router"


def test_of_two_that_ran_at_the_same_time_one_goes_below_the_other() -> None:
    trace = built(request(95, parent="root"), own("one", 20, 90), own("two", 20, 90))

    parents = {trace.spans[name].parent_id for name in ("one", "two")}
    assert parents == {"request", "two"}


def test_a_proxy_alone_is_read_alike() -> None:
    alone = replace(request(95), parent_id=None)
    call = own("call", 30, 90, Stage.REMOTE_MODEL)

    (trace,) = build_traces([alone, own("router", 20, 92), call])

    assert trace.spans["call"].parent_id == "router"
