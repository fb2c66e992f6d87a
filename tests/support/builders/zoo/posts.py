"""Posts of a load, as senders encode them."""

import gzip
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from random import Random
from typing import Final

import orjson
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from latencytrace.service.otlp.traces import JSON, CheckedRequest, check
from tests.support.builders.zoo.loads import Load

Value = str | int | float | bool

_BASE_NS: Final = 1_763_690_000_000_000_000
_SCOPES: Final = ("latencytrace", "opentelemetry.instrumentation.httpx", "app.pipeline")
_STEPS: Final = ("tokenize", "embed", "retrieve", "prefill", "decode", "detokenize", "rerank")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A span and where it came from."""

    service: int
    pod: int
    scope: str
    span: Span


@dataclass(slots=True)
class Posts:
    """Makes posts of a load, each round with other ids and times.

    Args:
        load: Of which kind.
        seed: Decides all of it.
    """

    load: Load
    seed: int
    _round: int = 0
    _chance: Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)

    def made(self, traces: int) -> tuple[list[bytes], int]:
        """The posts of so many traces, those of each service by themselves; how many spans."""
        self._round += 1
        spans = [
            span
            for _ in range(traces)
            for span in _Trace(self.load, self._chance, self._name).spans()
        ]
        bodies: list[bytes] = []
        for service in range(self.load.services):
            of_service = [one for one in spans if one.service == service]
            size = self.load.spans_a_post
            bodies += [
                self._body(of_service[at : at + size]) for at in range(0, len(of_service), size)
            ]
        return bodies, len(spans)

    def _name(self, kind: str, number: int) -> str:
        """A name for one of many things; another one each round, if that is the load."""
        new = f"-{self._round}" if self.load.is_new_each_round else ""
        return f"{kind}-{number}{new}"

    def _body(self, spans: Sequence[_Made]) -> bytes:
        request = ExportTraceServiceRequest()
        by_pod = sorted(spans, key=attrgetter("pod"))
        for pod, of_pod in groupby(by_pod, attrgetter("pod")):
            together = sorted(of_pod, key=attrgetter("scope"))
            resource = request.resource_spans.add()
            resource.resource.attributes.extend(self._resource(together[0].service, pod))
            for scope, of_scope in groupby(together, attrgetter("scope")):
                scoped = resource.scope_spans.add()
                scoped.scope.name = scope
                scoped.spans.extend(one.span for one in of_scope)
        body = as_json(request) if self.load.content_type == JSON else request.SerializeToString()
        if self.load.has_bad_texts:
            body = body.replace(b"tenant", b"te\xff\xfent")
        return gzip.compress(body, mtime=0) if self.load.is_compressed else body

    def checked(self, bodies: Iterable[bytes]) -> list[CheckedRequest]:
        """The posts as the service takes them."""
        encoding = "gzip" if self.load.is_compressed else None
        return [check(body, self.load.content_type, encoding) for body in bodies]

    def _resource(self, service: int, pod: int) -> Iterator[KeyValue]:
        host = self._name("node", pod // 4)
        yield from _pairs(
            {
                "service.name": f"service-{service}",
                "service.instance.id": self._name(f"service-{service}-pod", pod),
                "service.version": "1.4.2",
                "host.name": host,
                "telemetry.sdk.language": "python",
            }
        )
        if self.load.of_kubernetes:
            yield from _pairs(
                {
                    "k8s.pod.name": self._name(f"service-{service}-7f9c", pod),
                    "k8s.pod.uid": f"{pod * 7919:032x}",
                    "k8s.pod.ip": f"10.{pod // 65536}.{pod // 256 % 256}.{pod % 256}",
                    "k8s.pod.start_time": "2026-03-01T10:00:00Z",
                    "k8s.node.name": host,
                    "k8s.namespace.name": "serving",
                    "k8s.deployment.name": f"service-{service}",
                    "k8s.container.name": "app",
                    "k8s.cluster.name": "eu-1",
                    "container.image.name": "registry.example/app",
                    "container.image.tag": "1.4.2",
                    "cloud.availability_zone": f"eu-1{'abc'[pod % 3]}",
                }
            )


def as_json(request: ExportTraceServiceRequest) -> bytes:
    """A request as OTLP/JSON has it: ids in hex."""
    tree = json_format.MessageToDict(request)
    for spans in tree["resourceSpans"]:
        for scoped in spans["scopeSpans"]:
            for span in scoped["spans"]:
                for one in (span, *span.get("links", ())):
                    for key in one.keys() & {"traceId", "spanId", "parentSpanId"}:
                        one[key] = b64decode(one[key]).hex()
    return orjson.dumps(tree)


@dataclass(slots=True)
class _Trace:
    """Makes the spans of one request."""

    load: Load
    chance: Random
    name: Callable[[str, int], str]
    trace_id: bytes = field(init=False)
    route: str = field(init=False)
    model: str = field(init=False)
    tenant: str = field(init=False)
    found: list[_Made] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        chance, load = self.chance, self.load
        self.trace_id = chance.randbytes(16)
        self.route = f"/v1/{self.name('route', chance.randrange(load.routes))}"
        self.model = self.name("llama", chance.randrange(load.models))
        self.tenant = self.name("tenant", chance.randrange(12))

    def spans(self) -> list[_Made]:
        """Make them: each service calls the next one."""
        start_ns = _BASE_NS + self.chance.randrange(10**9)
        self._serve(0, start_ns, self.chance.randint(40_000_000, 400_000_000), b"")
        return self.found[::-1]  # as they end, about

    def _serve(self, service: int, start_ns: int, length_ns: int, parent_id: bytes) -> None:
        load, chance = self.load, self.chance
        pod = chance.randrange(load.pods)
        unique = f"{chance.getrandbits(64):016x}"
        path = f"{self.route}/{unique}" if "urls" in load.unique else self.route
        told: dict[str, Value] = {
            "http.request.method": "POST",
            "http.route": self.route,
            "url.path": path,
            "url.scheme": "http",
            "http.response.status_code": 200,
            "server.address": f"service-{service}",
            "user_agent.original": f"agent/{unique}" if "agents" in load.unique else "httpx/0.28",
            "app.tenant": self.tenant,
        }
        root_id = self._add(
            service, pod, _SCOPES[0], f"POST {self.route}", Span.SPAN_KIND_SERVER,
            (start_ns, start_ns + length_ns), parent_id, told,
        )  # fmt: skip
        steps = max(chance.randint(7, 18) // load.services, 2)
        slot_ns = length_ns // (steps + 2)
        for step in range(steps):
            at_ns = start_ns + step * slot_ns
            self._work(service, pod, (at_ns, at_ns + slot_ns * 9 // 10), root_id, step)
        if service + 1 < load.services:
            at_ns = start_ns + steps * slot_ns
            call = (at_ns, at_ns + slot_ns)
            call_id = self._call(service, pod, call, root_id, f"service-{service + 1}", path)
            self._serve(service + 1, at_ns + slot_ns // 10, slot_ns * 8 // 10, call_id)

    def _work(
        self, service: int, pod: int, at: tuple[int, int], root_id: bytes, step: int
    ) -> None:
        chance, load = self.chance, self.load
        kind = (step + chance.randrange(2)) % 5
        if kind == 0:
            told: dict[str, Value] = {"latencytrace.stage": _STEPS[step % len(_STEPS)]}
            name = _STEPS[step % len(_STEPS)]
            if "names" in load.unique:
                name = f"step {chance.getrandbits(48):x}"
            self._add(service, pod, _SCOPES[0], name, Span.SPAN_KIND_INTERNAL, at, root_id, told)
        elif kind == 1:
            self._call(service, pod, at, root_id, "reranker", "/v1/rerank")
        elif kind == 2:
            told = {
                "db.system.name": "postgresql",
                "db.operation.name": "SELECT",
                "db.collection.name": "passages",
                "server.address": "database",
                "db.response.returned_rows": chance.randint(1, 40),
            }
            if "statements" in load.unique:
                told["db.query.summary"] = f"SELECT passages {chance.getrandbits(48):x}"
            self._add(
                service,
                pod,
                _SCOPES[2],
                "SELECT passages",
                Span.SPAN_KIND_CLIENT,
                at,
                root_id,
                told,
            )
        elif kind == 3:
            told = {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "vllm",
                "gen_ai.request.model": self.model,
                "gen_ai.response.model": self.model,
                "gen_ai.usage.input_tokens": chance.randrange(4_000),
                "gen_ai.usage.output_tokens": chance.randrange(1, 400),
                "gen_ai.response.id": f"chatcmpl-{chance.getrandbits(60):x}",
            }
            self._add(
                service,
                pod,
                _SCOPES[0],
                f"chat {self.model}",
                Span.SPAN_KIND_CLIENT,
                at,
                root_id,
                told,
            )
        else:
            told = {"code.function.name": f"app.step_{step}", "score": chance.random()}
            self._add(
                service,
                pod,
                _SCOPES[2],
                f"step {step}",
                Span.SPAN_KIND_INTERNAL,
                at,
                root_id,
                told,
            )

    def _call(
        self, service: int, pod: int, at: tuple[int, int], root_id: bytes, host: str, path: str
    ) -> bytes:
        chance, load = self.chance, self.load
        told: dict[str, Value] = {
            "http.request.method": "POST",
            "url.full": f"http://{host}:8080{path}",
            "server.address": host,
            "server.port": 8080,
            "http.response.status_code": 200,
            "network.protocol.version": "1.1",
        }
        failed = chance.random() < load.errors_ratio
        is_tried_again = failed and chance.random() < load.retries_ratio
        start_ns, end_ns = at
        if failed:
            told |= {"http.response.status_code": 503, "error.type": "503"}
            if is_tried_again:
                end_ns = (start_ns + end_ns) // 2
        found = self._add(
            service, pod, _SCOPES[1], "POST", Span.SPAN_KIND_CLIENT, (start_ns, end_ns), root_id,
            told, is_error=failed,
        )  # fmt: skip
        if is_tried_again:
            told |= {"http.response.status_code": 200, "http.request.resend_count": 1}
            told.pop("error.type", None)
            again = (end_ns + 1_000, at[1])
            found = self._add(
                service, pod, _SCOPES[1], "POST", Span.SPAN_KIND_CLIENT, again, root_id, told
            )
        return found

    def _add(
        self,
        service: int,
        pod: int,
        scope: str,
        name: str,
        kind: "Span.SpanKind.ValueType",
        at: tuple[int, int],
        parent_id: bytes,
        told: dict[str, Value],
        *,
        is_error: bool = False,
    ) -> bytes:
        chance = self.chance
        span = Span(
            trace_id=self.trace_id, span_id=chance.randbytes(8), parent_span_id=parent_id,
            name=name, kind=kind, start_time_unix_nano=at[0], end_time_unix_nano=at[1],
        )  # fmt: skip
        span.attributes.extend(_pairs(told | self._more(len(told))))
        if is_error:
            span.status.code = Status.STATUS_CODE_ERROR
        if self.load.with_events:
            event = span.events.add(name="cache.miss", time_unix_nano=at[0])
            event.attributes.extend(_pairs({"cache.key": chance.randrange(10**9)}))
            span.links.add(trace_id=chance.randbytes(16), span_id=chance.randbytes(8))
        self.found.append(_Made(service=service, pod=pod, scope=scope, span=span))
        return span.span_id

    def _more(self, already: int) -> dict[str, Value]:
        """Attributes that a program adds."""
        chance, load = self.chance, self.load
        more: dict[str, Value] = {"thread.id": chance.randrange(1 << 20)}
        if "ids" in load.unique:
            more["request.id"] = f"{chance.getrandbits(128):032x}"
            more["user.id"] = f"u-{chance.getrandbits(40):x}"
        if "keys" in load.unique:
            more[f"app.cache.{chance.getrandbits(40):x}"] = "hit"
        for number in range(load.attributes - already - len(more)):
            values: tuple[Value, ...] = (
                f"kind-{chance.randrange(4)}", chance.randrange(1_000), chance.random() < 1 / 2,
                f"{chance.getrandbits(40):x}",
            )  # fmt: skip
            more[f"app.attribute.{number}"] = values[number % 4]
        return more


def _pairs(told: dict[str, Value]) -> Iterator[KeyValue]:
    for key, value in told.items():
        pair = KeyValue(key=key)
        if isinstance(value, bool):
            pair.value.bool_value = value
        elif isinstance(value, int):
            pair.value.int_value = value
        elif isinstance(value, float):
            pair.value.double_value = value
        else:
            pair.value.string_value = value
        yield pair
