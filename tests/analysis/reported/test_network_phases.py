"""The network's share of a request, divided by what the client told."""

import pytest

from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.reported import network_phases
from latencytrace.model import Span, SpanKind, Stage, semconv
from tests.support.builders.spans.trees import request, root, span

TOLD = "connect:5+10;tls:15+5;send:20+2;wait:22+50;receive:72+8"


def call(phases: object) -> Span:
    return span(
        "call", 10, 90, kind=SpanKind.CLIENT, stage=Stage.NETWORK,
        attributes={semconv.NETWORK_PHASES: phases},  # type: ignore[dict-item] # rubbish too
    )  # fmt: skip


def served() -> Span:
    return span("serve", 40, 70, parent="call", kind=SpanKind.SERVER, service="embedder")


def test_what_the_server_explains_is_no_wait() -> None:
    trace = request(call(TOLD), served())

    phases = network_phases(trace, critical_path(trace))

    assert phases == {"connect": 10, "tls": 5, "send": 2, "wait": 20, "receive": 8, "other": 5}


def test_they_add_up_to_the_networks_time() -> None:
    trace = request(call(TOLD), served(), span("beside", 80, 95, stage=Stage.RERANK))
    segments = critical_path(trace)

    phases = network_phases(trace, segments)

    network_ns = sum(one.end_ns - one.start_ns for one in segments if one.stage is Stage.NETWORK)
    assert sum(phases.values()) == network_ns == 40


@pytest.mark.parametrize(
    "rubbish",
    [7, "", "connect", "connect:1", "gibberish:0+9", "connect:-1+5", "connect:0+900",
     "connect:0+80,0+80;wait:0+80"],
)  # fmt: skip
def test_rubbish_takes_no_more_than_there_is(rubbish: object) -> None:
    trace = request(call(rubbish), served())

    assert sum(network_phases(trace, critical_path(trace)).values()) == 50


def test_a_call_whose_server_sends_no_spans_is_named_as_a_whole() -> None:
    silent = span("silent", 0, 30, kind=SpanKind.CLIENT, stage=Stage.NETWORK)
    connect = span("tcp.connect", 1, 5, parent="silent", stage=Stage.NETWORK)
    answered = span("call", 40, 90, kind=SpanKind.CLIENT, stage=Stage.NETWORK)
    trace = request(silent, connect, answered, served())

    phases = network_phases(trace, critical_path(trace))

    assert phases == {"untraced": 26, "other": 24}


def test_a_request_without_network_has_no_phases() -> None:
    trace = request(root())

    assert network_phases(trace, critical_path(trace)) == {}
