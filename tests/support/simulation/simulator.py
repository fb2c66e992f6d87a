"""A serving system whose truth is known: what each request spent its time on, and what spans say.

    edge (gateway) ── network ──> gpu (rag: queue, tokenize, engine) ── network ──> vectors

Requests arrive at random. The engine batches continuously: each step prefills the prompts it
admitted and makes a token for everybody else in the batch, the longer the more there is to do.
Three shards are searched at once. Tokens leave one by one, and the caller takes them at his own
pace. The clocks of the three hosts differ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from latencytrace.agent.timing.intervals import IntervalRecorder
from latencytrace.model import (
    AttributeValue,
    Interval,
    Link,
    Span,
    SpanKind,
    Stage,
    semconv,
)

MS = 1_000_000
US = 1_000
EDGE, GPU, VECTORS = "edge", "gpu", "vectors"
SERVICES = {EDGE: "gateway", GPU: "rag", VECTORS: "vectors"}
SHARDS = 3
MAX_BATCH = 8
BEGIN_NS = 1_700_000_000_000_000_000


@dataclass
class SimulatedRequest:
    """One request: the truth, and its spans as their hosts' clocks tell them."""

    trace_id: str
    arrived_ns: int
    prompt_tokens: int
    output_tokens: int
    truth: dict[Stage, int] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    ready_ns: int = 0  # to join the engine's queue
    admitted_ns: int = 0
    token_ns: list[int] = field(default_factory=list)  # when each was made

    def spend(self, stage: Stage, length_ns: int) -> None:
        """Note the truth."""
        self.truth[stage] = self.truth.get(stage, 0) + length_ns

    def span(
        self,
        host: str,
        name: str,
        start_ns: int,
        end_ns: int,
        parent: Span | None,
        *,
        stage: Stage | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: dict[str, AttributeValue] | None = None,
        links: tuple[Link, ...] = (),
    ) -> Span:
        """Record a span, in true time."""
        noted = dict(attributes or {})
        if stage is not None:
            noted[semconv.STAGE] = stage.value
        made = Span(
            trace_id=self.trace_id,
            span_id=f"{len(self.spans) + 1:016x}",
            parent_id=parent.span_id if parent else None,
            name=name,
            kind=kind,
            service=SERVICES[host],
            host=host,
            start_ns=start_ns,
            end_ns=end_ns,
            attributes=noted,
            links=links,
        )
        self.spans.append(made)
        return made


@dataclass(frozen=True, kw_only=True)
class Aside:
    """What else the system does for each request (see `tests.support.simulation.ways`)."""

    # Takes another step before the engine, notes what it truly cost, and returns when it is done.
    before: Callable[[SimulatedRequest, Span, int, Random], int] | None = None
    # Adds what ran beside the answer and held nothing up.
    beside: Callable[[SimulatedRequest, Span, Random], None] | None = None


_NOTHING = Aside()


def simulate(
    seed: int,
    requests: int,
    skew_ns: dict[str, int],
    aside: Aside = _NOTHING,
    *,
    search_ratio: float = 1.0,
) -> list[SimulatedRequest]:
    """Serve requests.

    Args:
        seed: Of all that is random.
        requests: How many.
        skew_ns: How far ahead each host's clock is; absent: not at all.
        aside: What else it does.
        search_ratio: How long the shards take to search, beside the usual.

    Returns:
        The requests, their spans out of order, as told by the clocks of their hosts.
    """
    random = Random(seed)
    made = []
    at_ns = BEGIN_NS
    for number in range(requests):
        at_ns += round(random.expovariate(1 / (250 * MS)))
        made.append(
            SimulatedRequest(
                trace_id=f"{seed + 1:016x}{number + 1:016x}",
                arrived_ns=at_ns,
                prompt_tokens=random.randint(20, 2_000),
                output_tokens=random.randint(1, 200),
            )
        )
    for request in made:
        _before_the_engine(request, random, aside, search_ratio)
    _engine(made)
    for request in made:
        _after_the_engine(request, random)
        if aside.beside is not None:
            aside.beside(request, _named(request, "POST /generate"), random)
        request.spans = [_as_told(span, skew_ns.get(span.host or "", 0)) for span in request.spans]
        random.shuffle(request.spans)
    return made


def _as_told(span: Span, skew_ns: int) -> Span:
    return replace(span, start_ns=span.start_ns + skew_ns, end_ns=span.end_ns + skew_ns)


def _named(request: SimulatedRequest, name: str) -> Span:
    return next(span for span in request.spans if span.name == name)


def _between(random: Random, low_us: int, high_us: int) -> int:
    return random.randint(low_us * US, high_us * US)


def _before_the_engine(
    request: SimulatedRequest, random: Random, aside: Aside, search_ratio: float
) -> None:
    """Gateway, network, queue for a thread, tokenizer, parallel retrieval."""
    at_ns = request.arrived_ns
    root = request.span(EDGE, "POST /chat", at_ns, at_ns, None, kind=SpanKind.SERVER)
    for stage, low_us, high_us in ((Stage.GUARDRAIL, 300, 4_000), (Stage.PREPROCESS, 100, 900)):
        until_ns = at_ns + _between(random, low_us, high_us)
        request.span(EDGE, stage.value, at_ns, until_ns, root, stage=stage)
        request.spend(stage, until_ns - at_ns)
        at_ns = until_ns
    call = request.span(
        EDGE, "POST", at_ns, at_ns, root,
        kind=SpanKind.CLIENT, attributes={semconv.HTTP_REQUEST_METHOD: "POST"},
    )  # fmt: skip
    out_ns = _between(random, 100, 3_000)
    request.spend(Stage.NETWORK, out_ns)
    at_ns += out_ns
    server = request.span(GPU, "POST /generate", at_ns, at_ns, call, kind=SpanKind.SERVER)
    for stage, low_us, high_us in ((Stage.QUEUE, 0, 20_000), (Stage.TOKENIZE, 200, 3_000)):
        until_ns = at_ns + _between(random, low_us, high_us)
        request.span(GPU, stage.value, at_ns, until_ns, server, stage=stage)
        request.spend(stage, until_ns - at_ns)
        at_ns = until_ns
    request.ready_ns = _retrieval(request, server, at_ns, random, search_ratio)
    if aside.before is not None:
        request.ready_ns = aside.before(request, server, request.ready_ns, random)


def _retrieval(
    request: SimulatedRequest, server: Span, at_ns: int, random: Random, search_ratio: float
) -> int:
    """Ask all shards at once; the slowest is what everybody waits for.

    Returns:
        When it answered.
    """
    slowest_ns = (0, 0, 0)
    for shard in range(SHARDS):
        there_ns = _between(random, 50, 1_500)
        work_ns = round(search_ratio * _between(random, 500, 30_000))
        back_ns = _between(random, 50, 1_500)
        begin_ns = at_ns + there_ns
        end_ns = begin_ns + work_ns
        call = request.span(
            GPU, f"search {shard}", at_ns, end_ns + back_ns, server,
            kind=SpanKind.CLIENT, attributes={semconv.RPC_SYSTEM_NAME: "grpc"},
        )  # fmt: skip
        served = request.span(VECTORS, "Search", begin_ns, end_ns, call, kind=SpanKind.SERVER)
        request.span(VECTORS, "index", begin_ns, end_ns, served, stage=Stage.RETRIEVE)
        took_ns = there_ns + work_ns + back_ns
        slowest_ns = max(slowest_ns, (took_ns, work_ns, there_ns + back_ns))
    request.spend(Stage.RETRIEVE, slowest_ns[1])
    request.spend(Stage.NETWORK, slowest_ns[2])
    return at_ns + slowest_ns[0]


def _engine(requests: Sequence[SimulatedRequest]) -> None:
    """Batch continuously until everybody has his tokens."""
    waiting = sorted(requests, key=lambda request: request.ready_ns)
    running: list[SimulatedRequest] = []
    at_ns = 0
    while waiting or running:
        if not running:
            at_ns = max(at_ns, waiting[0].ready_ns)
        admitted = []
        while waiting and waiting[0].ready_ns <= at_ns and len(running) < MAX_BATCH:
            request = waiting.pop(0)
            request.admitted_ns = at_ns
            admitted.append(request)
            running.append(request)
        prompts = sum(request.prompt_tokens for request in admitted)
        at_ns += 6 * MS + 20 * US * prompts + 300 * US * len(running)
        for request in running:
            request.token_ns.append(at_ns)
        running = [one for one in running if len(one.token_ns) < one.output_tokens]


def _after_the_engine(request: SimulatedRequest, random: Random) -> None:
    """Tokens leave as they are made, unless the caller is slow; then the answer travels back."""
    root, call, server = (
        _named(request, name) for name in ("POST /chat", "POST", "POST /generate")
    )
    first_ns, last_ns = request.token_ns[0], request.token_ns[-1]
    sends = _sends(request.token_ns, random)
    generate_end_ns = last_ns
    server_end_ns = max(last_ns, sends[-1].end_ns)
    usage: dict[str, AttributeValue] = {
        semconv.GEN_AI_USAGE_INPUT_TOKENS: request.prompt_tokens,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: request.output_tokens,
    }
    generate = request.span(
        GPU, "generate", request.ready_ns, generate_end_ns, server,
        stage=Stage.UNATTRIBUTED, attributes=usage,
    )  # fmt: skip
    phases = (
        (Stage.QUEUE, request.ready_ns, request.admitted_ns),
        (Stage.PREFILL, request.admitted_ns, first_ns),
        (Stage.DECODE, first_ns, last_ns),
    )
    for stage, start_ns, end_ns in phases:
        request.span(GPU, stage.value, start_ns, end_ns, generate, stage=stage)
        blocked_ns = sum(
            max(0, min(send.end_ns, end_ns) - max(send.start_ns, start_ns)) for send in sends
        )
        request.spend(stage, end_ns - start_ns - blocked_ns)
    request.spend(Stage.RESPOND, sum(send.end_ns - send.start_ns for send in sends))
    back_ns = _between(random, 100, 3_000)
    request.spend(Stage.NETWORK, back_ns)
    recorder = IntervalRecorder()
    for send in sends:
        recorder.add(Stage.RESPOND, send.start_ns, send.end_ns)
    packed = recorder.packed(server.start_ns)
    ends = {root.span_id: server_end_ns + back_ns, call.span_id: server_end_ns + back_ns,
            server.span_id: server_end_ns}  # fmt: skip
    request.spans = [
        replace(
            span,
            end_ns=ends.get(span.span_id, span.end_ns),
            attributes=span.attributes | {semconv.INTERVALS: packed}  # type: ignore[operator] # dicts
            if span is server
            else span.attributes,
        )
        for span in request.spans
    ]


def _sends(token_ns: Sequence[int], random: Random) -> list[Interval]:
    """When the server was blocked in sending; a send begins when the one before has ended."""
    sends: list[Interval] = []
    for made_ns in token_ns:
        start_ns = max(made_ns, sends[-1].end_ns if sends else 0)
        slow = random.random() < 0.1
        end_ns = start_ns + _between(random, *((5_000, 30_000) if slow else (10, 200)))
        sends.append(Interval(stage=Stage.RESPOND, start_ns=start_ns, end_ns=end_ns))
    return sends
