"""Requests with a secret of its own in every place that a sender can put text into."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.support.builders.spans.otlp_messages import message, one_span

PREFIX = "xyzzyxyzzy"  # of every secret
VISIBLE = "plughplugh"  # of what stays, so that a search that finds nothing is known to work
SPELLINGS = (
    PREFIX.encode(),
    PREFIX.upper().encode(),
    PREFIX.encode().hex().encode(),
    *(b64encode(b" " * offset + PREFIX.encode())[4:-4] for offset in range(3)),
)
Plant = Callable[[str], str]  # a secret of its own for a place that is named

# The key and the text of attributes; `{}` stands for a secret.
TEXTS = (
    ("gen_ai.prompt.0.content", "{}"),
    ("gen_ai.completion.0.content", "{}"),
    ("gen_ai.prompt.name", "say {}"),
    ("input.value", "{}"),
    ("db.statement", "SELECT '{}'"),
    ("http.request.header.authorization", "{}"),
    ("session.token", "{}"),
    ("db.password", "{}"),
    ("aws.credentials", "{}"),
    ("my_api_key", "{}"),
    ("url.full", "https://{}:{}@host/x?q={}#{}"),
    ("http.target", "/x?q={}"),
    ("url.path", "/x?q={}"),
    ("http.route", "/x#{}"),
    ("server.address", "{}:{}@host"),
    ("net.peer.name", "https://{}:x@host"),
    ("peer.service", "postgresql://user:{}@host/db"),
    ("db.namespace", "Server=h;User Id=sa;Password={};"),
    ("db.connection_string", "host=h password={}"),
    ("db.collection.name", "mongodb+srv://u:{}@h/db"),
    ("db.name", "redis://:{}@h"),
    ("db.user", "jdbc:postgresql://h/db?user=x&password={}"),
    ("azure.account", "AccountName=a;AccountKey={}=="),
    ("gen_ai.request.model", "Bearer {}"),
    ("user_agent.original", "Basic {}"),
    ("mine.bearer", "Bearer {}"),
    ("mine.key", "sk-{}1"),
    ("mine.jwt", "eyJ{}.eyJ{}"),
    ("mine.git", "ghp_{}"),
    ("mine.slack", "xoxb-{}"),
    ("mine.pem", "-----BEGIN PRIVATE KEY----- {}"),
    ("mine.object", '{{"a": "{}"}}'),
    ("mine.list", ' \t["{}"]'),
    ("mine.text", '\ufeff"{}"'),
    ("mine.lines", "one\n{}"),
    ("mine.long", "x" * 300 + "{}"),
    ("mine.address", "see https://host/?q={}"),
    ("gen_ai.response.model", "one\n{}"),
    ("service.version", "x" * 300 + "{}"),
    ("exception.message", "{}"),
    ("user said {}", "short"),
    ('{{"said": "{}"}}', "short"),
    ("mine:sk-{}1", "short"),
    ("latencytrace.intervals", "respond: {}"),
    ("langfuse.observation.usage_details", '{{"{} x": 1}}'),
)


def requests_of(sender: str, number: int) -> tuple[str, ExportTraceServiceRequest, set[str]]:
    """A trace's id, a request with its span, and the secrets in it."""
    planted: set[str] = set()

    def plant(place: str) -> str:
        said = PREFIX + blake2b(f"{sender}/{place}".encode(), digest_size=8).hexdigest()
        assert said not in planted, place
        planted.add(said)
        return said

    trace_id = f"{number:032x}"
    request = message([one_span(trace_id, name=f"GET /{VISIBLE}-name")])
    _fill(request, plant)
    return trace_id, request, planted


def _fill(request: ExportTraceServiceRequest, plant: Plant) -> None:
    spans = request.resource_spans[0]
    scoped = spans.scope_spans[0]
    span = scoped.spans[0]
    event = span.events.add(name=f"at /x?q={plant('event name')}")
    link = span.links.add(trace_id=b"t" * 16, span_id=b"s" * 8)
    for place, attributes in (
        ("span", span.attributes),
        ("event", event.attributes),
        ("link", link.attributes),
        ("resource", spans.resource.attributes),
    ):
        for key, value in _attributes(place, plant):
            attributes.add(key=key).value.string_value = value
        for pair in _forms(place, plant):
            attributes.append(pair)
    span.attributes.add(key="url.template").value.string_value = f"/{VISIBLE}-attribute"
    spans.schema_url = f"https://host/{plant('schema of a resource')}"
    scoped.schema_url = f"https://host/{plant('schema of a scope')}"
    spans.resource.entity_refs.add(type=plant("entity"), id_keys=[plant("key of an entity")])
    scoped.scope.name = f"scope https://x:{plant('scope name')}@host"
    scoped.scope.version = f"/v?{plant('scope version')}"
    scoped.scope.attributes.add(key=plant("scope key")).value.string_value = plant("scope text")
    span.trace_state = f"mine={plant('state')},ot={plant('state of a vendor')}"
    link.trace_state = f"es=s:{plant('state of a link')}"
    span.status.code = Status.STATUS_CODE_ERROR
    span.status.message = f"ValueError: {plant('status')}"
    span.parent_span_id = plant("parent").encode()
    other = span.links.add(trace_id=plant("linked trace").encode())
    other.span_id = plant("linked span").encode()
    _more_spans(scoped.spans, span, plant)
    for place, part in (
        ("request", request), ("resource spans", spans), ("resource", spans.resource),
        ("scope spans", scoped), ("scope", scoped.scope), ("span", span), ("event", event),
        ("link", link), ("status", span.status), ("pair", span.attributes[0]),
        ("value", span.attributes[0].value),
    ):  # fmt: skip
        _add_unknown(part, plant(f"unknown field of a {place}"))


def _attributes(place: str, plant: Plant) -> Iterator[tuple[str, str]]:
    for number, (key, text) in enumerate(TEXTS):
        parts = iter(range(9))
        named = key.format(plant(f"{place} {number} key")) if "{}" in key else key
        pieces = text.replace("{{", "{").replace("}}", "}").split("{}")
        value = pieces[0] + "".join(
            plant(f"{place} {number} {next(parts)}") + piece for piece in pieces[1:]
        )
        yield named, value


def _forms(place: str, plant: Plant) -> Iterator[KeyValue]:
    """What is no plain text, under a key that nobody knows, one that is known, and ours."""
    for key in ("mine", "gen_ai.request.model", "latencytrace.intervals"):
        where = f"{place} {key}"
        yield _pair(key).of(bytes_value=plant(f"{where} bytes").encode())
        yield _pair(key).of_list(f"Bearer {plant(f'{where} list')}")
        nested = _pair(key)
        inner = nested.made.value.array_value.values.add().kvlist_value.values.add()
        inner.key = plant(f"{where} key")
        inner.value.array_value.values.add().string_value = plant(f"{where} nested")
        yield nested.made
        deep = _pair(key)
        pairs = deep.made.value.kvlist_value.values
        pairs.add(key="a").value.kvlist_value.values.add(key="b").value.bytes_value = plant(
            f"{where} map"
        ).encode()
        yield deep.made


class _pair:  # noqa: N801 - a word of this file
    """An attribute that is made in one expression."""

    def __init__(self, key: str) -> None:
        self.made = KeyValue(key=key)

    def of(self, **value: Any) -> KeyValue:
        for name, said in value.items():
            setattr(self.made.value, name, said)
        return self.made

    def of_list(self, text: str) -> KeyValue:
        self.made.value.array_value.values.add().string_value = text
        return self.made


def _more_spans(spans: Any, like: ProtoSpan, plant: Plant) -> None:
    """Spans with other names and nothing else."""
    names = (
        "GET /x?token={}", "GET  /x?{}", "render (app) /x#{}", "x?q={}", "GET https://u:{}@host/x",
        "call Bearer {}", "one\n{}", "x" * 300 + "{}", "x" * 2000 + "{}", "password={}",
    )  # fmt: skip
    for number, name in enumerate(names):
        child = spans.add(trace_id=like.trace_id, span_id=f"child{number:03}".encode())
        child.parent_span_id = like.span_id
        child.name = name.format(plant(f"name {number}"))
        child.start_time_unix_nano = like.start_time_unix_nano
        child.end_time_unix_nano = like.end_time_unix_nano


def _add_unknown(part: Message, said: str) -> None:
    """Add a text in a field that OTLP does not define."""
    text = said.encode()
    part.MergeFromString(b"\xfa\x07" + bytes((len(text),)) + text)  # field 127


def in_json(request: ExportTraceServiceRequest, plant: Plant) -> bytes:
    """A request in OTLP/JSON, with members that OTLP does not define."""
    tree = json_format.MessageToDict(request, use_integers_for_enums=True)
    spans = tree["resourceSpans"][0]
    scoped = spans["scopeSpans"][0]
    for span in scoped["spans"]:
        for part in (span, *span.get("links", ())):
            for key in {"traceId", "spanId", "parentSpanId"} & part.keys():
                part[key] = b64decode(part[key]).hex()
    for number, part in enumerate((tree, spans, scoped, scoped["spans"][0])):
        part[plant(f"member {number}")] = {"a": [plant(f"text of member {number}")]}
    return json.dumps(tree).encode()
