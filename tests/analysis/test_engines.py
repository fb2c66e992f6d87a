"""Each engine's spans give the queue, prefill and decode that the engine itself reports."""

import json
from dataclasses import replace

import pytest

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.analysis.trace.known_engines import ENGINES, engine_of, generation_of
from latencytrace.model import Request, SpanKind, Stage, semconv
from tests.support.builders.spans.numbered import span
from tests.support.builders.spans.otlp_messages import one_span
from tests.support.builders.spans.recorded import FIXTURES, recorded, recorded_requests, reported

MS = 1_000_000


def outermost(name: str) -> list[Request]:
    return [request for request in recorded_requests(name) if request.outermost]


def of_service(name: str, service: str) -> Request:
    return next(request for request in recorded_requests(name) if request.service == service)


def outermost_of(name: str, service: str) -> list[Request]:
    return [request for request in outermost(name) if request.service == service]


def in_ms(request: Request) -> dict[str, float]:
    return {stage.value: length_ns / MS for stage, length_ns in request.ledger.items()}


def taken_ms(name: str, span_name: str) -> float:
    """How long the spans of a name took together, as they were sent."""
    spans = [span for span in recorded(name) if span.name == span_name]
    return sum(span.end_ns - span.start_ns for span in spans) / MS


@pytest.mark.parametrize("fixture", sorted(path.stem for path in FIXTURES.glob("*.json")))
def test_every_request_of_a_fixture_balances(fixture: str) -> None:
    requests = recorded_requests(fixture)

    assert requests
    assert all(sum(request.ledger.values()) == request.duration_ns for request in requests)


@pytest.mark.parametrize("fixture", sorted(path.stem for path in FIXTURES.glob("*.json")))
def test_only_an_evaluator_has_no_place(fixture: str) -> None:
    other = {
        segment.name
        for request in recorded_requests(fixture)
        for segment in request.segments
        if segment.stage is Stage.OTHER
    }

    assert other <= {"a evaluator"}


@pytest.mark.parametrize("fixture", sorted(path.stem for path in FIXTURES.glob("*.json")))
def test_a_fixture_says_how_it_came_about_and_has_its_script(fixture: str) -> None:
    made = json.loads((FIXTURES / f"{fixture}.json").read_bytes())["made"]

    assert made.startswith(("recorded: ", "built, not recorded: "))
    assert any((FIXTURES / f"make_{fixture}.{kind}").is_file() for kind in ("py", "js"))


def test_engines_have_names_and_scopes_of_their_own() -> None:
    assert len({engine.name for engine in ENGINES}) == len(ENGINES)
    assert all(engine.scopes for engine in ENGINES)


def test_a_span_without_a_scope_is_nobodys_unless_it_has_marks() -> None:
    plain = replace(
        one_span(attributes={"http.request.method": "POST", "tenant": "acme"}), scope=""
    )

    assert engine_of(plain) is None
    assert [engine.name for engine in ENGINES if engine.knows(plain)] == []


@pytest.mark.parametrize(
    ("stage", "metric"),
    [
        (Stage.QUEUE, "vllm:request_queue_time_seconds_sum"),
        (Stage.PREFILL, "vllm:request_prefill_time_seconds_sum"),
        (Stage.DECODE, "vllm:request_decode_time_seconds_sum"),
    ],
)
def test_vllms_ledgers_add_up_to_the_sums_of_its_metrics(stage: Stage, metric: str) -> None:
    requests = outermost_of("vllm", "app")

    assert len(requests) == 3
    whole_ns = sum(request.ledger[stage] for request in requests)
    assert whole_ns == pytest.approx(reported("vllm")[metric] * 1e9, abs=10)


def test_what_vllm_does_not_tell_is_unattributed() -> None:
    requests = outermost_of("vllm", "app")

    told = reported("vllm")
    untold_s = (
        told["vllm:e2e_request_latency_seconds_sum"]
        - told["vllm:request_queue_time_seconds_sum"]
        - told["vllm:request_inference_time_seconds_sum"]
    )
    unattributed_ns = sum(request.ledger[Stage.UNATTRIBUTED] for request in requests)
    assert unattributed_ns / 1e9 == pytest.approx(untold_s, abs=0.002)


def test_vllms_times_to_the_tokens_are_those_that_it_tells() -> None:
    inner = [one for one in recorded_requests("vllm") if one.route == "llm_request"]

    spans = [span for span in recorded("vllm") if span.name == "llm_request"]
    told = {
        span.span_id: (
            span.attributes["gen_ai.latency.time_to_first_token"],
            span.attributes["gen_ai.latency.time_in_model_decode"],
        )
        for span in spans
    }
    assert len(inner) == 4
    for request in inner:
        first_s, decode_s = told[request.span_id]
        assert isinstance(first_s, float)
        assert isinstance(decode_s, float)
        assert request.output_tokens is not None
        assert request.time_to_first_token_ns == round(first_s * 1e9)
        each_ns = decode_s * 1e9 / (request.output_tokens - 1)
        assert request.time_per_output_token_ns == pytest.approx(each_ns, abs=1)


def test_vllms_first_part_begins_as_long_before_the_end_as_all_its_parts_take() -> None:
    """Without a time to the first token, and where one of the parts is missing."""
    span = next(one for one in recorded("vllm") if one.name == "llm_request")
    told = {
        key: value
        for key, value in span.attributes.items()
        if key not in {semconv.LATENCY_TO_FIRST, semconv.LATENCY_IN_QUEUE}
    }
    parts_s = (told[semconv.LATENCY_IN_PREFILL], told[semconv.LATENCY_IN_DECODE])
    assert all(isinstance(one, float) for one in parts_s)

    (request,) = requests_of([replace(span, parent_id=None, attributes=told)], {})

    prefill_ns, decode_ns = (round(float(str(one)) * 1e9) for one in parts_s)
    assert request.ledger[Stage.PREFILL] == prefill_ns
    assert request.ledger[Stage.DECODE] == decode_ns
    assert request.segments[-1].stage is Stage.DECODE
    assert request.segments[0].stage is Stage.UNATTRIBUTED


def test_vllms_start_is_loading() -> None:
    request = next(one for one in recorded_requests("vllm") if one.route == "Overall Loading")

    assert request.ledger == {Stage.LOAD: request.duration_ns}


def test_tensorrt_llm_counts_from_the_requests_arrival() -> None:
    request = of_service("tensorrt_llm", "trtllm")
    whole = next(one for one in outermost("tensorrt_llm") if one.route == "llm_request")

    assert in_ms(whole) == {"queue": 50, "prefill": 70, "decode": 360, "unattributed": 20}
    assert (whole.time_to_first_token_ns, whole.finish_reason) == (120 * MS, "length")
    assert whole.time_per_output_token_ns == 10 * MS
    assert not request.repairs


def test_tensorrt_llm_does_not_divide_what_came_before_the_first_token_of_an_unknown_queue() -> (
    None
):
    request = of_service("tensorrt_llm", "trtllm-gen")

    assert in_ms(request) == {"transfer": 30, "decode": 320, "unattributed": 30}
    assert not request.repairs


def test_sglangs_slices_tell_queue_prefill_and_decode() -> None:
    (request,) = recorded_requests("sglang")

    ledger = in_ms(request)
    waiting = taken_ms("sglang", "prefill_waiting") + taken_ms("sglang", "decode_waiting")
    assert ledger["queue"] == pytest.approx(waiting, abs=0.01)
    assert ledger["prefill"] == pytest.approx(taken_ms("sglang", "prefill_forward"), abs=0.01)
    assert ledger["decode"] == pytest.approx(taken_ms("sglang", "decode_forward"), abs=0.01)
    assert ledger["tokenize"] == pytest.approx(taken_ms("sglang", "tokenize"), abs=0.01)


def test_sglangs_time_in_prefill_holds_the_queue_and_is_not_read_as_prefill() -> None:
    (request,) = recorded_requests("sglang")
    (root,) = (span for span in recorded("sglang") if span.parent_id is None)

    told_s = root.attributes["gen_ai.latency.time_in_model_prefill"]
    assert isinstance(told_s, float)
    assert told_s * 1_000 > in_ms(request)["queue"] + in_ms(request)["prefill"] - 3
    assert in_ms(request)["prefill"] < 0.6 * told_s * 1_000


def test_sglang_tells_tokens_batch_and_why_it_finished() -> None:
    (request,) = recorded_requests("sglang")

    assert (request.input_tokens, request.cached_input_tokens, request.output_tokens) == (
        64,
        16,
        6,
    )
    assert (request.finish_reason, request.model, request.batch_size) == ("stop", "tiny", 4)


def test_sglangs_times_to_the_tokens_are_those_that_it_tells() -> None:
    (request,) = recorded_requests("sglang")
    (root,) = (span for span in recorded("sglang") if span.parent_id is None)

    first_s = root.attributes["gen_ai.latency.time_to_first_token"]
    decode_s = root.attributes["gen_ai.latency.time_in_model_decode"]
    assert isinstance(first_s, float)
    assert isinstance(decode_s, float)
    assert request.time_to_first_token_ns == round(first_s * 1e9)
    assert request.time_per_output_token_ns == pytest.approx(decode_s * 1e9 / 5, abs=1)


def test_sglangs_route_holds_no_id_and_no_blank() -> None:
    (request,) = recorded_requests("sglang")

    assert request.route == "Req"


def test_sglangs_decode_steps_share_one_line() -> None:
    (request,) = recorded_requests("sglang")

    decoding = [segment for segment in request.segments if segment.stage is Stage.DECODE]
    assert [segment.name for segment in decoding] == ["decode_forward"]


def test_tgis_steps_divide_the_inference_that_it_tells() -> None:
    (request,) = (one for one in recorded_requests("tgi") if one.route == "POST /generate")

    assert in_ms(request) == {
        "unattributed": 2.5,
        "preprocess": 0.5,
        "tokenize": 1,
        "queue": 26.25,
        "prefill": 12,
        "decode": 69.75 - 12,
    }


def test_tgis_first_token_is_its_first_steps_and_its_tokens_are_counted() -> None:
    (request,) = (one for one in recorded_requests("tgi") if one.route == "POST /generate")

    assert request.time_to_first_token_ns == 40.75 * MS
    assert request.output_tokens == 5
    assert request.time_per_output_token_ns == (69.75 - 12) * MS / 4


def test_tgis_batches_are_no_requests() -> None:
    assert "batch" not in {request.route for request in recorded_requests("tgi")}


def test_more_time_than_a_span_took_is_cut_off_and_told() -> None:
    (request,) = (one for one in recorded_requests("tgi") if one.route == "generate_stream")

    assert in_ms(request) == {"preprocess": 0.456, "queue": 12.3, "forward": 67.244}
    assert [(repair.kind, repair.detail) for repair in request.repairs] == [
        ("times", "generate_stream: it tells of 1247323000 ns and took 80000000 ns")
    ]


@pytest.mark.parametrize(
    ("told", "ns"),
    [
        ("7ns", 7),
        ("7us", 7_000),
        ("7µs", 7_000),
        ("7μs", 7_000),
        ("7ms", 7 * MS),
        ("1.5s", 1500 * MS),
    ],
)
def test_a_time_of_rusts_has_a_unit(told: str, ns: int) -> None:
    attributes = {semconv.RUST_NAMESPACE: "text_generation_router", semconv.RUST_QUEUE_TIME: told}
    call = span(
        1,
        0,
        10**10,
        parent=0,
        kind=SpanKind.SERVER,
        scope="text_generation",
        attributes=attributes,
    )

    (request,) = requests_of([call], {})

    assert request.ledger[Stage.QUEUE] == ns


@pytest.mark.parametrize("told", ["soon", "1.5", "-1s", 3])
def test_a_time_of_rusts_that_is_no_length_is_told(told: str | int) -> None:
    attributes = {semconv.RUST_NAMESPACE: "text_generation_router", semconv.RUST_QUEUE_TIME: told}
    call = span(
        1, 0, 100, parent=0, kind=SpanKind.SERVER, scope="text_generation", attributes=attributes
    )

    (request,) = requests_of([call], {})

    assert [repair.detail for repair in request.repairs] == [
        f"span 1: queue_time is {str(told)!r}, which is no length of time"
    ]


def test_tei_tells_tokenizing_queue_and_what_the_model_did() -> None:
    embedding, reranking = sorted(
        recorded_requests("tei"), key=lambda request: -request.duration_ns
    )

    assert in_ms(embedding) == {"unattributed": 1.1, "tokenize": 0.9, "queue": 6, "embed": 12}
    assert in_ms(reranking) == {"tokenize": 1, "queue": 2, "rerank": 6.5, "unattributed": 0.5}


def test_tritons_events_tell_queue_copies_and_inference() -> None:
    (request,) = recorded_requests("triton")

    assert in_ms(request) == {
        "network": 2,
        "queue": 2 + 5,
        "transfer": 2 * 1.5,
        "forward": 2 * 8,
        "respond": 2,
        "unattributed": 10,
    }
    assert request.model == "ensemble"


def test_tritons_inner_server_spans_are_no_requests() -> None:
    assert [request.route for request in recorded_requests("triton")] == ["InferRequest"]


def test_a_ray_serve_request_waits_for_its_replica() -> None:
    requests = recorded_requests("ray_serve")

    queues_ms = sorted(in_ms(request)["queue"] for request in requests)
    routes_ms = sorted(
        (span.end_ns - span.start_ns) / MS
        for span in recorded("ray_serve")
        if span.name.startswith("route_to_replica")
    )
    assert queues_ms == pytest.approx(routes_ms, abs=15)
    assert all(queue < route for queue, route in zip(queues_ms, routes_ms, strict=True))


def test_a_ray_serve_replica_goes_on_after_it_was_routed_to() -> None:
    requests = recorded_requests("ray_serve")

    assert not any(request.repairs for request in requests)
    assert all(
        any(segment.name == "replica_handle_request Model __call__" for segment in one.segments)
        for one in requests
    )


def test_llm_d_divides_a_request_of_which_two_servers_did_one_half_each() -> None:
    request = of_service("llm_d", "llm-d-router/epp")

    ledger = in_ms(request)
    assert (ledger["queue"], ledger["prefill"], ledger["decode"]) == (20 + 5, 60 + 15, 240)
    assert ledger["transfer"] == 3
    assert (ledger["preprocess"], ledger["cache"]) == (5, 1)


def test_llm_ds_first_token_is_the_decoders_and_tokens_are_not_counted_twice() -> None:
    request = of_service("llm_d", "llm-d-router/epp")

    assert request.time_to_first_token_ns == (112 + 30) * MS
    assert request.time_per_output_token_ns == 8 * MS
    assert (request.input_tokens, request.output_tokens) == (900, 31)


def test_dynamo_divides_a_request_between_its_router_and_its_worker() -> None:
    whole, _ = outermost("dynamo")

    told = in_ms(whole)
    assert told["cache"] == 3  # hashes and matches
    assert told["queue"] == 5  # until a worker has room
    assert told["preprocess"] == 1
    assert told["decode"] == 484 - (24 + 88)
    assert told["network"] == 4
    assert (whole.model, whole.input_tokens, whole.output_tokens) == ("Qwen/Qwen3-0.6B", 128, 37)
    assert whole.finish_reason == "stop"
    assert whole.time_to_first_token_ns == (24 + 88) * MS


def test_dynamos_worker_that_only_prefills_tells_no_tokens_of_the_caller() -> None:
    _, parted = outermost("dynamo")

    told = in_ms(parted)
    assert told["prefill"] == 1107 - 1013
    assert told["decode"] == 1593 - (1123 + 10)
    assert (parted.input_tokens, parted.output_tokens) == (128, 40)


def test_dynamos_workers_have_requests_of_their_own() -> None:
    services = {request.service for request in recorded_requests("dynamo")}

    assert services == {"dynamo-frontend", "dynamo-worker-vllm", "dynamo-worker-prefill"}


@pytest.mark.parametrize("text", ["", "x", "-1", "1e5", ".5", "٣", "9" * 30, "nan"])
def test_a_first_token_of_dynamos_that_is_no_time_is_none(text: str) -> None:
    span = next(one for one in recorded("dynamo") if "ttft_ms" in one.attributes)

    told = replace(span, attributes={**span.attributes, "ttft_ms": text})

    assert generation_of(told).first_token_ns is None


def test_modular_maxs_phases_are_prefill_and_decode() -> None:
    (request,) = outermost("max_serve")

    assert in_ms(request) == {"prefill": 100, "decode": 300, "unattributed": 30}
    assert (request.model, request.finish_reason) == ("meta-llama/Llama-3.1-8B-Instruct", "stop")
    assert (request.input_tokens, request.output_tokens) == (28, 31)
    assert request.time_to_first_token_ns == 115 * MS
    assert request.time_per_output_token_ns == 10 * MS


def test_a_pass_of_modular_max_is_no_request() -> None:
    assert [request.route for request in recorded_requests("max_serve")] == [
        "POST /v1/chat/completions"
    ]


def test_litellms_calls_are_models_seen_from_outside() -> None:
    requests = recorded_requests("litellm")

    assert [set(request.ledger) for request in requests] == [
        *[{Stage.REMOTE_MODEL}] * 3,
        {Stage.EMBED},
    ]
    assert [(request.output_tokens, request.finish_reason) for request in requests[:3]] == [
        (6, "stop")
    ] * 3


@pytest.mark.parametrize("fixture", ["litellm_proxy", "litellm_typed"])
def test_litellms_proxy_spends_what_it_reports_on_the_model(fixture: str) -> None:
    request = outermost(fixture)[-1]

    told = reported(fixture)
    whole_ms = told["x-litellm-response-duration-ms"]
    least_ms = whole_ms - told["x-litellm-overhead-duration-ms"]
    assert least_ms <= in_ms(request)["remote_model"] <= whole_ms
    assert (request.model, request.output_tokens) == ("tiny", 6)
    assert not request.repairs


def test_kserve_tells_its_times_in_metrics_alone() -> None:
    requests = [one for one in outermost("kserve") if one.route.endswith(":predict")]

    assert len(requests) == 2
    assert all(set(request.ledger) == {Stage.UNATTRIBUTED} for request in requests)
    whole_s = sum(request.duration_ns for request in requests) / 1e9
    assert sum(reported("kserve").values()) < whole_s


def test_infinity_tells_nothing_of_the_time_in_a_request() -> None:
    requests = recorded_requests("infinity")

    assert [request.route for request in requests] == ["POST /embeddings"] * 2
    assert all(set(request.ledger) == {Stage.UNATTRIBUTED} for request in requests)
