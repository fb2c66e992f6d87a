"""What is taken out of requests before anything of them is written, and what must not be."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.analysis.ledger.requests import requests_of
from latencytrace.model import (
    Attributes,
    AttributeValue,
    Event,
    Link,
    Request,
    Span,
    Stage,
    semconv,
)
from latencytrace.model.packed import RuntimeGap, pack_named
from latencytrace.service.otlp import plain_text
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.content_keys import ADDRESSES, CONTENT, KNOWN, STRICT, WORDS
from latencytrace.service.otlp.json import message_from_json
from latencytrace.service.otlp.messages import message_of, purify
from latencytrace.service.otlp.plain_text import MARK
from tests.support.builders.spans.otlp_messages import key_values, message, one_span
from tests.support.builders.spans.recorded import FIXTURES, spans_of
from tests.support.over_all import over_all

SAID = "xyzzy"
TOLD = {semconv.EXCEPTION_MESSAGE, semconv.EXCEPTION_STACKTRACE}
READ = {
    name: key
    for name, key in vars(semconv).items()
    if name.isupper() and "." in key and key not in TOLD
}
PACKED = {semconv.INTERVALS, semconv.NETWORK_PHASES, semconv.RUNTIME_GAPS, semconv.TOKEN_TIMES}


def redacted(request: ExportTraceServiceRequest) -> ExportTraceServiceRequest:
    """A request as the store gets it."""
    found = message_of(request.SerializeToString())
    purify(found, capture_content=False)
    return found


def only_span(request: ExportTraceServiceRequest) -> ProtoSpan:
    return request.resource_spans[0].scope_spans[0].spans[0]


def kept(attributes: Attributes) -> Attributes:
    """What becomes of a span's attributes."""
    (resource,) = redacted(message([one_span(attributes=attributes)])).resource_spans
    (span,) = spans_of(resource)
    return span.attributes


def becomes(key: str, value: AttributeValue) -> AttributeValue:
    return kept({key: value})[key]


# Keys


@pytest.mark.parametrize(
    "sent",
    [
        {key: "word" for name, key in READ.items() if "_TOKENS" not in name}
        | {semconv.LANGFUSE_USAGE: '{"input": 3}', semconv.MLFLOW_USAGE: '{"input_tokens": 3}'},
        dict.fromkeys(READ.values(), 1),
        dict.fromkeys(READ.values(), 1.5),
        {key: "7" for name, key in READ.items() if "_TOKENS" in name},
        {semconv.GEN_AI_RESPONSE_FINISH_REASONS: ("stop",)},
        {semconv.GEN_AI_RESPONSE_FINISH_REASONS: '["stop"]'},
        dict.fromkeys(PACKED, "respond:1200+340,50+30;gc:400+25x3,-1"),
        {semconv.RUNTIME_GAPS: pack_named({gap: [(1, 2), (5, 9)] for gap in RuntimeGap}, 0)},
        {semconv.RUST_PACE: "13.95ms", semconv.RUST_TOKENIZATION_TIME: "900µs"},
    ],
    ids=["words", "integers", "fractions", "counts", "array", "list", "packed", "gaps", "times"],
)
def test_nothing_that_the_analysis_reads_is_content(sent: Attributes) -> None:
    assert kept(sent) == sent


@over_all("key", [*KNOWN, *ADDRESSES])
def test_bytes_and_texts_in_arrays_are_content_under_known_keys(key: str) -> None:
    assert becomes(key, b"https://a/?q=1") == MARK
    assert becomes(key, (f"https://{SAID}:x@host",)) == MARK
    assert becomes(key, ("x" * 65,)) == MARK
    assert becomes(key, ("x",) * 17) == MARK


@over_all("pattern", [word for words in CONTENT.values() for word in words])
def test_every_pattern_matches_whatever_the_case(pattern: str) -> None:
    key = pattern.replace("*", "x")

    assert becomes(key.upper(), "hello") == becomes(key, "hello") == MARK
    assert becomes(key, 1) == 1


@over_all("word", sorted({*WORDS} - {"authorization"}))
def test_words_of_content_count_between_dots(word: str) -> None:
    assert becomes(f"mine.{word}.0", "hello") == MARK
    assert becomes(f"mine{word}x", "hello") == "hello"


@over_all("pattern", STRICT)
def test_numbers_are_content_where_the_key_is_a_programs_own(pattern: str) -> None:
    assert becomes(pattern.replace("*", "x"), 7) == MARK


@pytest.mark.parametrize(
    "key",
    ["session.token", "access_token", "idToken", "X-Auth-Token", "db.password", "passwd",
     "client_secret", "aws.credentials", "openai.api_key", "apiKey", "proxy-authorization",
     "bearer", "token", "aws.access_key.id"],
)  # fmt: skip
def test_keys_that_name_a_secret_are_content(key: str) -> None:
    assert becomes(key, SAID) == MARK
    assert becomes(key, "12345") == MARK


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gen_ai.usage.total_tokens", 5),
        ("gen_ai.usage.total_tokens", "5"),
        ("llm.usage.total_tokens", "17"),
        ("compute_tokens", "32"),
        ("llm.token_count.prompt", "1,024"),
        ("gen_ai.server.time_per_output_token", "13.95ms"),
        ("gen_ai.token.type", "input"),
        ("tokenizer.name", "bpe"),
        ("gen_ai.request.max_tokens", "None"),
    ],
)
def test_counts_of_tokens_are_no_secrets(key: str, value: AttributeValue) -> None:
    assert becomes(key, value) == value


def test_texts_under_counts_of_tokens_are_content() -> None:
    assert becomes("generated_tokens", "once upon a time") == MARK


@pytest.mark.parametrize(
    "key",
    ["user said hello", "héllo", '{"a": 1}', "k" * 129, "", "a\nb", "sk-abc123def456",
     "ghp_abcdefgh1234", "hello?", "a=b", "my.sk-abc123def456.content"],
)  # fmt: skip
@over_all("value", ["short", 7, True, None, b"x", ("x",)])
def test_keys_that_are_no_identifiers_are_removed(key: str, value: AttributeValue) -> None:
    assert kept({key: value, "mine": 1}) == {MARK: MARK, "mine": 1}


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("gen_ai.prompt.name", "rag/answer-v2", "rag/answer-v2"),
        ("gen_ai.prompt.name", "Tell me who", MARK),
        ("gen_ai.prompt.name", "x" * 65, MARK),
        ("gen_ai.prompt.0.content", "hello", MARK),
        ("gen_ai.prompt.0.role", "user", MARK),
        ("gen_ai.completion.7.finish_reason", "stop", "stop"),
        ("gen_ai.completion.7.finish_reason", "it was said", MARK),
        ("gen_ai.completion.0.content", "hello", MARK),
        ("langfuse.observation.usage_details", '{"input": "hello"}', MARK),
        ("langfuse.observation.usage_details", '{"said hello": 1}', MARK),
        ("langfuse.observation.usage_details", "hello", MARK),
        (semconv.INTERVALS, "hello you", MARK),
    ],
)
def test_keys_with_a_form_of_their_own_take_nothing_else(key: str, value: str, told: str) -> None:
    assert becomes(key, value) == told


# Values


@pytest.mark.parametrize(
    "value",
    ["{}", '{"a": 1}', "  [1]", '\ufeff{"a": 1}', '"hello"', "\t\n {}", "[]",
     "data:text/plain,hello", "DATA:x", "x" * 257, "é" * 129, "two\nlines", "a\u2028b", "\0",
     "see https://host/?q=1", "/x?q=1", "https://host/x#y", "//user@host", "?a=1&b=2",
     "redis://:pw@h", "user:pw@host"],
)  # fmt: skip
def test_texts_under_unknown_keys_that_may_tell_something_are_content(value: str) -> None:
    assert becomes("mine", value) == MARK


@pytest.mark.parametrize(
    "value",
    ["short", "Ada", "ada@example.com", "a=b", "[::1]:8080", "https://host/x", "/a/b", "50 %",
     "who?", "bearer of news"[:6], "sk-learn-pipeline", "risk-1234567890", "basic",
     "a basic retrieval", "passes: 3", "compass: north", "monkey: 1", "token", MARK],
)  # fmt: skip
def test_other_short_texts_stay(value: str) -> None:
    assert becomes("mine", value) == value


TOKENS = (
    "Bearer xyzzy", "bearer  xyzzy", "Authorization: Bearer xyzzy", "Basic xyzzy",
    "Authorization: Basic eHl6enk6eHl6enk=", "sk-xyzzy1234567", "key is sk-proj-xyzzy1234567",
    "sk_live_xyzzy123456", "eyJxyzzyxyzzy.eyJxyzzy", "ghp_xyzzyxyzzy1", "github_pat_xyzzy12345",
    "glpat-xyzzy12345", "AKIAXYZZY1234567", "xoxb-xyzzy", "hf_xyzzyxyzzyxyzzy",
    "AIzaxyzzyxyzzyxyzzyxyzzy", "gsk_xyzzy123456", "-----BEGIN PRIVATE KEY----- xyzzy",
    "password=xyzzy", "Password : xyzzy", "host=h password=xyzzy", "PWD=xyzzy;",
    "Server=h;User Id=sa;Password=xyzzy;", "AccountName=a;AccountKey=xyzzy==",
    "Endpoint=sb://h/;SharedAccessKey=xyzzy", "api_key: xyzzy", "token=xyzzy", "&sig=xyzzy",
    '"secret": "xyzzy"', "jdbc:oracle:thin:scott/xyzzy@host:1521:x",
    "/to/https%3A%2F%2Fxyzzy%3Axyzzy%40host", "https://host/https%3a%2f%2fa%3axyzzy%40b",
)  # fmt: skip


@pytest.mark.parametrize("key", ["mine", "server.address", "user_agent.original", "url.full"])
@over_all("value", TOKENS)
def test_what_has_the_form_of_a_secret_is_removed_under_any_key(key: str, value: str) -> None:
    told = becomes(key, value)

    assert isinstance(told, str)
    assert SAID not in told.lower()


@over_all("value", TOKENS)
def test_what_has_the_form_of_a_secret_is_removed_from_names(value: str) -> None:
    assert SAID not in plain_text.name(f"call {value}").lower() or value == "Basic xyzzy"
    assert SAID not in plain_text.name(value).lower()


# Addresses

USERS = {
    "postgresql://xyzzy:xyzzy@host/db": "postgresql://host/db",
    "redis://:xyzzy@h": "redis://h",
    "redis://:xy/xyzzy@h": "redis://h",
    "pg://user:12/xyzzy@h/db": "pg://h/db",
    "pg://user:xy?xyzzy@h/db": "pg://h/db",
    "mongodb+srv://xyzzy:xy@h1,h2/db": "mongodb+srv://h1,h2/db",
    "jdbc:postgresql://xyzzy:xyzzy@h:5432/db": "jdbc:postgresql://h:5432/db",
    "jdbc:postgresql://h/db?user=x&password=xyzzy": "jdbc:postgresql://h/db",
    "https://xyzzy@host/path": "https://host/path",
    "https://x:xyz@xyzzy@host/path": "https://host/path",
    "https://u:xy/xyzzy@host/path": "https://host/path",
    "//xyzzy:x@host": "//host",
    "http:///xyzzy:x@host": "http:///host",
    "http://a@http://xyzzy:x@b": "http://http://b",
}


@pytest.mark.parametrize(("address", "told"), USERS.items())
@over_all("key", ["server.address", "peer.service", "db.namespace", "url.full"])
def test_users_and_passwords_are_cut_out_of_addresses(key: str, address: str, told: str) -> None:
    assert becomes(key, address) == told


@pytest.mark.parametrize(("address", "told"), USERS.items())
def test_users_and_passwords_are_cut_out_of_names(address: str, told: str) -> None:
    assert plain_text.name(f"GET {address}") == f"GET {told}"


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("server.address", "xyzzy:xyzzy@host", "host"),
        ("server.address", "[::1]:8080", "[::1]:8080"),
        ("url.full", "http://[::1]:8080/x?q", "http://[::1]:8080/x"),
        ("url.full", "http://host:80/@scope/x", "http://host:80/@scope/x"),
        ("url.full", "data:text/plain,xyzzy", "data:"),
        ("url.full", "http://host/" + "x" * 2048, MARK),
        ("http.target", "/x?xyzzy", "/x"),
        ("url.path", "/x?xyzzy=1", "/x"),
        ("url.path", "/" + "long/" * 100, "/" + "long/" * 100),
        ("url.path", "/" + "long/" * 300, MARK),
        ("http.route", "/x/{id?}", "/x/{id?}"),
        ("http.route", r"^x/(?P<id>\d+)/(?:a|b)/$", r"^x/(?P<id>\d+)/(?:a|b)/$"),
        ("http.route", "/x#xyzzy", "/x"),
        ("user_agent.original", "bot/1 (+http://a.b/bot.html)", "bot/1 (+http://a.b/bot.html)"),
        ("gen_ai.request.model", "two\nlines", MARK),
        ("gen_ai.request.model", '{"said": "xyzzy"}', MARK),
        ("server.address", "[{'said': 'xyzzy'}]", MARK),
        ("gen_ai.request.model", "x" * 257, MARK),
        ("gen_ai.request.model", "meta/llama-3:8b", "meta/llama-3:8b"),
    ],
)
def test_known_keys_take_what_they_are_for(key: str, value: str, told: str) -> None:
    assert becomes(key, value) == told


# What is no attribute


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("GET /x?token=xyzzy", "GET /x"),
        ("GET  /x?xyzzy", "GET  /x"),
        ("render route (app) /x?q=xyzzy and xyzzy", "render route (app) /x"),
        ("GET x?q=xyzzy", "GET x"),
        ("GET /x#xyzzy", "GET /x"),
        ("GET https://host/x?q=xyzzy HTTP/1.1", "GET https://host/x"),
        ("GET https://host?xyzzy", "GET https://host"),
        ("Users#show", "Users#show"),
        ("GET /items/{id?}", "GET /items/{id?}"),
        (r"GET ^items/(?P<pk>\d+)$", r"GET ^items/(?P<pk>\d+)$"),
        ("one\nxyzzy", MARK),
        ('{"said": "xyzzy"}', MARK),
        ("chat {model}", "chat {model}"),
        ("x" * 300, "x" * 256),
        ("x" * 1025, MARK),
        (" chat ", " chat "),
        ("embed text", "embed text"),
    ],
)
def test_names_of_spans_events_and_scopes_are_cut(name: str, told: str) -> None:
    span = replace(one_span(name=name), events=(Event(time_ns=1, name=name, attributes={}),))
    request = message([span])
    request.resource_spans[0].scope_spans[0].scope.name = name

    plain = redacted(request)

    assert only_span(plain).name == only_span(plain).events[0].name == told
    assert plain.resource_spans[0].scope_spans[0].scope.name == told


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("ot=th:fd70a4;rv:fe123456789012", "ot=th:fd70a4;rv:fe123456789012"),
        ("dd=s:1;o:rum;t.dm:-4;p:00f067aa0ba902b7", "dd=s:1;o:rum;t.dm:-4;p:00f067aa0ba902b7"),
        ("dd=s:1;t.usr.id:eHl6enk", ""),
        ("es=s:0.5,mine=xyzzy", "es=s:0.5"),
        ("mine=xyzzy, es=s:1", "es=s:1"),
        ("33@nr=0-0-33-2827902-7d3efb1b173fecfa-e8b91a159289ff74-1-1.23-1518469636035",
         "33@nr=0-0-33-2827902-7d3efb1b173fecfa-e8b91a159289ff74-1-1.23-1518469636035"),
        ("sw=4025843a0d5b4d4e-01", "sw=4025843a0d5b4d4e-01"),
        ("ot=xyzzy", ""),
        ("es=s:1," * 100, ""),
    ],
)  # fmt: skip
def test_states_of_traces_keep_the_numbers_of_vendors_we_know(state: str, told: str) -> None:
    request = message([replace(one_span(), links=(Link(trace_id="1" * 32, span_id="2" * 16),))])
    only_span(request).trace_state = state
    only_span(request).links[0].trace_state = state

    span = only_span(redacted(request))

    assert (span.trace_state, span.links[0].trace_state) == (told, told)


def test_the_status_is_the_type_of_an_exception_alone() -> None:
    assert plain_text.status("openai.BadRequestError: xyzzy") == "openai.BadRequestError"
    assert plain_text.status("xyzzy happened") == ""
    assert plain_text.status("x" * 200 + "Error") == ""


def test_fields_that_the_store_does_not_keep_are_cleared() -> None:
    request = message([replace(one_span(), links=(Link(trace_id="1" * 32, span_id="2" * 16),))])
    spans = request.resource_spans[0]
    plain = request.SerializeToString()
    spans.schema_url = spans.scope_spans[0].schema_url = SAID
    spans.resource.entity_refs.add(type=SAID, schema_url=SAID, id_keys=[SAID])
    spans.scope_spans[0].scope.attributes.extend(key_values({"a": SAID, SAID: 1}))
    only_span(request).parent_span_id = SAID.encode()
    unknown = b"\xfa\x07\x05" + SAID.encode()  # a text in field 127
    for part in (
        request, spans, spans.resource, spans.scope_spans[0], spans.scope_spans[0].scope,
        only_span(request), only_span(request).links[0], only_span(request).status,
        spans.resource.attributes[0], spans.resource.attributes[0].value,
    ):  # fmt: skip
        part.MergeFromString(unknown)

    assert SAID.encode() in request.SerializeToString()
    assert redacted(request) == ExportTraceServiceRequest.FromString(plain)


def test_links_to_what_is_no_id_lose_it() -> None:
    request = message([one_span()])
    only_span(request).links.add(trace_id=SAID.encode(), span_id=SAID.encode() * 9)

    assert redacted(request).SerializeToString().count(SAID.encode()) == 0


def test_everything_stays_where_it_is_asked_for() -> None:
    said = one_span(attributes={"input.value": "hello"})

    checked = otlp.check(message([said]).SerializeToString(), None, None, capture_content=True)

    assert checked.columns.spans() == [said]


# For any request

texts = st.lists(
    st.sampled_from(
        ["{", "http:", "//", "u:p@", "host", "/", " ", "?q=1", "#f", "data:", "\n", "?", "(?P<",
         "}", "Error", ": ", "x" * 250, "é", "K", "Basic ", "Bearer ", "sk-", "a1b2c3d4e5", "@",
         ":", "jdbc:", "password", "=", "ot=", "th:1", ",", "\ufeff", "[", '"', MARK]
    ),
    max_size=8,
).map("".join)  # fmt: skip
keys = st.sampled_from(
    [*KNOWN, *ADDRESSES, "mine", "http.route", "url.path", "my token", "token", "x.tokens", MARK,
     semconv.INTERVALS, semconv.LANGFUSE_USAGE, "gen_ai.prompt.name", "input.value"]
)  # fmt: skip


@given(name=texts, state=texts, said=st.dictionaries(keys | texts, texts, max_size=5))
def test_to_redact_twice_changes_nothing(name: str, state: str, said: Attributes) -> None:
    event = Event(time_ns=1, name=name, attributes=said)
    request = message([replace(one_span(name=name, attributes=said), events=(event,))])
    only_span(request).trace_state = state
    only_span(request).status.message = name
    once = redacted(request)

    assert redacted(once) == once


@given(text=texts)
@example(text="@data:{")
@pytest.mark.parametrize(
    "plain",
    [plain_text.known, plain_text.long, plain_text.unknown, plain_text.address, plain_text.word,
     plain_text.number, plain_text.counts, plain_text.packed, plain_text.name, plain_text.status,
     plain_text.state],
)  # fmt: skip
def test_what_is_plain_is_left_as_it_is(plain: Callable[[str], str], text: str) -> None:
    once = plain(text)

    assert once == MARK or plain(once) == once


@given(text=texts)
@pytest.mark.parametrize(
    "plain", [plain_text.known, plain_text.long, plain_text.address, plain_text.name]
)
def test_no_text_that_is_kept_has_a_user_or_a_secret(
    plain: Callable[[str], str], text: str
) -> None:
    told = plain(text)

    assert not re.search(r"//[^/?#\s]*@", told)
    assert not plain_text.holds_secret(told)


def test_what_a_process_told_of_itself_reaches_the_ledger() -> None:
    told = {semconv.RUNTIME_GAPS: pack_named({RuntimeGap.EVENT_LOOP_LAG: [(0, 10)]}, 0)}

    (ledger,) = _ledgers(redacted(message([one_span(attributes=told)])))

    assert ledger["ledger"] == {Stage.RUNTIME: 10, Stage.UNATTRIBUTED: 990}


@pytest.mark.parametrize("fixture", sorted(path.stem for path in FIXTURES.glob("*.json")))
def test_recorded_spans_come_to_the_same_ledgers(fixture: str) -> None:
    body = (FIXTURES / f"{fixture}.json").read_bytes()

    assert _ledgers(redacted(message_from_json(body))) == _ledgers(message_from_json(body))


def test_no_recorded_question_and_no_answer_is_kept() -> None:
    asking = [path for path in FIXTURES.glob("*.json") if b"weather in Kiel" in path.read_bytes()]
    assert len(asking) > 5

    for path in asking:
        found = redacted(message_from_json(path.read_bytes())).SerializeToString()
        assert b"weather in Kiel" not in found, path.stem
        assert b"rain in Kiel" not in found, path.stem
        assert b"a a a a" not in found, path.stem


def _ledgers(request: ExportTraceServiceRequest) -> list[dict[str, object]]:
    traces: dict[str, list[Span]] = {}
    for resource in request.resource_spans:
        for span in spans_of(resource):
            traces.setdefault(span.trace_id, []).append(span)
    return [_told(one) for spans in traces.values() for one in requests_of(spans, {})]


def _told(request: Request) -> dict[str, object]:
    return {
        "ledger": request.ledger,
        "segments": request.segments,
        "route": request.route,
        "model": request.model,
        "tokens": (request.input_tokens, request.output_tokens, request.cached_input_tokens),
        "first": request.time_to_first_token_ns,
        "finish": request.finish_reason,
        "status": request.status,
    }


def test_a_hostile_request_takes_no_square_of_a_time() -> None:
    said = {
        f"mine.{number}": json.dumps("sk-" * 80 + "a:" * 80 + str(number)) for number in range(200)
    }
    long = {"url.full": "http://a@" * 10_000, "server.address": "a:b@" * 10_000}

    request = redacted(message([one_span(name="sk-" * 10_000, attributes={**said, **long})]))

    assert only_span(request).name == MARK
