"""Ways in which the simulated system works on several things at once, each with its truth."""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from latencytrace.model import (
    AttributeValue,
    Link,
    Span,
    SpanKind,
    Stage,
    semconv,
    unpack_intervals,
)
from tests.support.simulation.simulator import GPU, MS, US, VECTORS, Aside, SimulatedRequest


@dataclass(frozen=True)
class Attempt:
    """A call of a search on another host, from when it was sent."""

    sent_ns: int
    there_ns: int
    work_ns: int
    back_ns: int

    @property
    def answered_ns(self) -> int:
        """When its answer came."""
        return self.sent_ns + self.there_ns + self.work_ns + self.back_ns

    def until(self, at_ns: int) -> tuple[int, int]:
        """Time on the network and at work, up to an instant."""
        passed_ns = at_ns - self.sent_ns
        worked_ns = min(max(passed_ns - self.there_ns, 0), self.work_ns)
        return passed_ns - worked_ns, worked_ns


def log(request: SimulatedRequest, server: Span, random: Random) -> None:
    """A log is written from before the generation until after the answer."""
    until_ns = server.end_ns + random.randint(1, 50) * MS
    request.span(GPU, "log", request.ready_ns, until_ns, server, stage=Stage.DATABASE)


def lease(request: SimulatedRequest, server: Span, random: Random) -> None:
    """A lease is renewed all along, given back 50 µs before the server's last step is over."""
    del random
    last_ns = max(span.end_ns for span in request.spans if span.parent_id == server.span_id)
    until_ns = min(server.end_ns, last_ns) - 50 * US
    request.span(GPU, "lease", server.start_ns, until_ns, server, stage=Stage.DATABASE)


def prefetch(request: SimulatedRequest, server: Span, random: Random) -> None:
    """Passages are fetched for the next question, from the retrieval on into the generation."""
    until_ns = random.randint(request.ready_ns + 1, request.token_ns[-1])
    begin_ns = began_ns(request)
    request.span(GPU, "prefetch", begin_ns, until_ns, server, stage=Stage.CACHE)


def moderation(request: SimulatedRequest, server: Span, random: Random) -> None:
    """The prompt is judged beside search and prefill; a verdict before the first token is free."""
    until_ns = random.randint(request.ready_ns + 1, request.token_ns[0])
    begin_ns = began_ns(request)
    request.span(GPU, "moderate", begin_ns, until_ns, server, stage=Stage.GUARDRAIL)


def hedge(request: SimulatedRequest, server: Span, at_ns: int, random: Random) -> int:
    """A search that has not answered after 10 ms is sent again; the loser runs on."""
    first = attempt(at_ns, random)
    second = attempt(at_ns + 10 * MS, random)
    if first.answered_ns <= second.sent_ns:
        second = first
    done_ns = min(first.answered_ns, second.answered_ns)
    alone_ns = done_ns if done_ns == first.answered_ns else second.sent_ns
    spend(request, *first.until(alone_ns))
    if alone_ns < done_ns:
        spend(request, *second.until(done_ns))
    for one in dict.fromkeys((first, second)):
        call(request, server, one)
    return rerank(request, server, done_ns, random)


def first_of_three(request: SimulatedRequest, server: Span, at_ns: int, random: Random) -> int:
    """Three indexes are asked; the first answer is ranked while the losers run on."""
    attempts = [attempt(at_ns, random) for _ in range(3)]
    winner = min(attempts, key=lambda one: one.answered_ns)
    spend(request, *winner.until(winner.answered_ns))
    for one in attempts:
        call(request, server, one)
    return rerank(request, server, winner.answered_ns, random)


def streams(request: SimulatedRequest, server: Span, at_ns: int, random: Random) -> int:
    """Passages are ranked as they stream in: from the first on, all waits for the ranking."""
    first_ns = at_ns + random.randint(1, 10) * MS
    last_ns = first_ns + random.randint(1, 20) * MS
    done_ns = last_ns + random.randint(1, 10) * MS
    request.span(GPU, "passages", at_ns, last_ns, server, stage=Stage.RETRIEVE)
    request.span(GPU, "ranking", first_ns, done_ns, server, stage=Stage.RERANK)
    request.spend(Stage.RETRIEVE, first_ns - at_ns)
    request.spend(Stage.RERANK, done_ns - first_ns)
    return done_ns


def failing(request: SimulatedRequest, server: Span, at_ns: int, random: Random) -> int:
    """A search fails up to three times and is made again after a pause, longer each time."""
    for number in range(random.randint(0, 3)):
        failed = attempt(at_ns, random)
        call(request, server, failed, failed=True)
        pause_ns = (10 << number) * MS + random.randint(0, 5 * MS)
        request.spend(Stage.RETRY, failed.answered_ns - at_ns + pause_ns)
        at_ns = failed.answered_ns + pause_ns
    last = attempt(at_ns, random)
    call(request, server, last)
    spend(request, *last.until(last.answered_ns))
    return rerank(request, server, last.answered_ns, random)


def failing_beside_work(
    request: SimulatedRequest, server: Span, at_ns: int, random: Random
) -> int:
    """While a failed search waits for its next attempt, something is looked up in a cache."""
    failed = attempt(at_ns, random)
    call(request, server, failed, failed=True)
    looked_up_ns = failed.answered_ns + random.randint(0, 2 * MS)
    found_ns = looked_up_ns + random.randint(1 * MS, 10 * MS)
    again_ns = found_ns + random.randint(1 * MS, 10 * MS)
    request.span(GPU, "look up", looked_up_ns, found_ns, server, stage=Stage.CACHE)
    request.spend(Stage.RETRY, again_ns - at_ns - (found_ns - looked_up_ns))
    request.spend(Stage.CACHE, found_ns - looked_up_ns)
    last = attempt(again_ns, random)
    call(request, server, last)
    spend(request, *last.until(last.answered_ns))
    return last.answered_ns


def traced_database(request: SimulatedRequest, server: Span, at_ns: int, random: Random) -> int:
    """A search of a database that traces itself, and says of no span what it is for.

    The way there is the network's, and all else the search's.
    """
    one = attempt(at_ns, random)
    search = request.span(
        GPU, "query_points", one.sent_ns, one.answered_ns, server, stage=Stage.RETRIEVE
    )
    client = request.span(
        GPU, "POST", one.sent_ns, one.answered_ns, search,
        kind=SpanKind.CLIENT, attributes={semconv.HTTP_REQUEST_METHOD: "POST"},
    )  # fmt: skip
    begin_ns = one.sent_ns + one.there_ns
    end_ns = begin_ns + one.work_ns
    served = request.span(
        VECTORS, "POST /collections/{name}/points/query", begin_ns, end_ns, client,
        kind=SpanKind.SERVER,
    )  # fmt: skip
    scored_ns = random.randint(begin_ns, end_ns)
    request.span(VECTORS, "score segments", begin_ns, scored_ns, served)
    spend(request, *one.until(one.answered_ns))
    return one.answered_ns


def consumer(
    request: SimulatedRequest,
    server: Span,
    at_ns: int,
    random: Random,
    *,
    linked: bool = False,
) -> int:
    """A message asks a worker on another host to embed; the server waits for the result."""
    sent_ns = at_ns + random.randint(50, 500) * US
    taken_ns = sent_ns + random.randint(1, 60) * MS
    done_ns = taken_ns + random.randint(5, 80) * MS
    producer = request.span(GPU, "send embed", at_ns, sent_ns, server, kind=SpanKind.PRODUCER)
    worker = request.span(
        VECTORS, "process embed", taken_ns, done_ns, None if linked else producer,
        kind=SpanKind.CONSUMER,
        links=(Link(trace_id=request.trace_id, span_id=producer.span_id),) if linked else (),
    )  # fmt: skip
    request.span(VECTORS, "embed", taken_ns, done_ns, worker, stage=Stage.EMBED)
    request.spend(Stage.QUEUE, taken_ns - at_ns)
    request.spend(Stage.EMBED, done_ns - taken_ns)
    return done_ns


def linked_consumer(request: SimulatedRequest, server: Span, at_ns: int, random: Random) -> int:
    """The worker has no parent and links to the producer instead."""
    return consumer(request, server, at_ns, random, linked=True)


def unawaited_consumer(request: SimulatedRequest, server: Span, random: Random) -> None:
    """A message asks a worker for what nobody waits for."""
    sent_ns = request.ready_ns - random.randint(0, 100) * US
    producer = request.span(
        GPU, "send audit", sent_ns, request.ready_ns, server, kind=SpanKind.PRODUCER
    )
    taken_ns = random.randint(request.ready_ns, server.end_ns)
    until_ns = server.end_ns + random.randint(100, 900) * MS
    worker = request.span(
        VECTORS, "process audit", taken_ns, until_ns, producer, kind=SpanKind.CONSUMER
    )
    request.span(VECTORS, "audit", taken_ns, until_ns, worker, stage=Stage.DATABASE)


def lost_server(request: SimulatedRequest, server: Span, random: Random) -> None:
    """The worker's server span never comes, and when sends were blocked is lost with it.

    So what it was blocked goes to what ran meanwhile, and what it sent last to the way back.
    """
    del random
    respond_ns = request.truth.pop(Stage.RESPOND)
    for span in request.spans:
        if span.name in {Stage.QUEUE.value, Stage.PREFILL.value, Stage.DECODE.value}:
            blocked_ns = blocked(server, span)
            request.spend(Stage(span.name), blocked_ns)
            respond_ns -= blocked_ns
    request.spend(Stage.NETWORK, respond_ns)
    request.spans.remove(server)


def lost_framework_span(request: SimulatedRequest, server: Span, random: Random) -> None:
    """The span around queue, prefill and decode never comes."""
    del server, random
    request.spans.remove(named(request, "generate"))


def lost_call(request: SimulatedRequest, server: Span, random: Random) -> None:
    """The gateway's call to the worker never comes: what was the network's is nobody's."""
    del server, random
    call_span = named(request, "POST")
    request.spans.remove(call_span)
    ways_ns = request.truth[Stage.NETWORK]
    served = named(request, "POST /generate")
    outside_ns = call_span.end_ns - call_span.start_ns - (served.end_ns - served.start_ns)
    request.truth[Stage.NETWORK] = ways_ns - outside_ns
    request.spend(Stage.UNATTRIBUTED, outside_ns)


def lost_shard(request: SimulatedRequest, server: Span, random: Random) -> None:
    """The server span of one of the shards never comes; its search does."""
    del server
    request.spans.remove(random.choice([one for one in request.spans if one.name == "Search"]))


def lost_consumer(request: SimulatedRequest, server: Span, random: Random) -> None:
    """Of the worker that took a message only what it worked comes."""
    del server, random
    request.spans.remove(named(request, "process embed"))


def named(request: SimulatedRequest, name: str) -> Span:
    """The span of a name."""
    return next(span for span in request.spans if span.name == name)


def blocked(server: Span, span: Span) -> int:
    """How long sends were blocked while a span ran."""
    sends = unpack_intervals(str(server.attributes[semconv.INTERVALS]), server.start_ns)
    return sum(
        max(0, min(send.end_ns, span.end_ns) - max(send.start_ns, span.start_ns)) for send in sends
    )


def began_ns(request: SimulatedRequest) -> int:
    """When the retrieval began."""
    return min(span.start_ns for span in request.spans if span.name.startswith("search"))


def attempt(sent_ns: int, random: Random) -> Attempt:
    """A search, mostly fast."""
    slow = random.random() < 0.3
    work_ns = random.randint(20 * MS, 80 * MS) if slow else random.randint(1 * MS, 9 * MS)
    there_ns, back_ns = (random.randint(50 * US, 1_500 * US) for _ in range(2))
    return Attempt(sent_ns, there_ns, work_ns, back_ns)


def call(request: SimulatedRequest, server: Span, one: Attempt, *, failed: bool = False) -> None:
    """Record an attempt: the call here, and the search there."""
    attributes: dict[str, AttributeValue] = {
        semconv.RPC_SYSTEM_NAME: "grpc",
        semconv.SERVER_ADDRESS: "vectors.local",
        semconv.RPC_METHOD: "Vectors/Search",
    }
    if failed:
        attributes[semconv.RPC_RESPONSE_STATUS_CODE] = "UNAVAILABLE"
        attributes[semconv.ERROR_TYPE] = "UNAVAILABLE"
    client = request.span(
        GPU, "ask", one.sent_ns, one.answered_ns, server,
        kind=SpanKind.CLIENT, attributes=attributes,
    )  # fmt: skip
    begin_ns = one.sent_ns + one.there_ns
    end_ns = begin_ns + one.work_ns
    served = request.span(VECTORS, "Search", begin_ns, end_ns, client, kind=SpanKind.SERVER)
    request.span(VECTORS, "index", begin_ns, end_ns, served, stage=Stage.RETRIEVE)


def rerank(request: SimulatedRequest, server: Span, at_ns: int, random: Random) -> int:
    """Rank what was found; returns when that is done."""
    done_ns = at_ns + random.randint(2, 20) * MS
    request.span(GPU, "rerank", at_ns, done_ns, server, stage=Stage.RERANK)
    request.spend(Stage.RERANK, done_ns - at_ns)
    return done_ns


def spend(request: SimulatedRequest, network_ns: int, work_ns: int) -> None:
    """Note the truth of an attempt."""
    request.spend(Stage.NETWORK, network_ns)
    request.spend(Stage.RETRIEVE, work_ns)


WAYS = {
    "a log from before the generation until after the answer": Aside(beside=log),
    "a lease beside everything, given back 50 µs before the last step ends": Aside(beside=lease),
    "an unawaited prefetch that ends inside the generation": Aside(beside=prefetch),
    "moderation beside search and prefill": Aside(beside=moderation),
    "a hedged search whose loser runs on": Aside(before=hedge),
    "the first of three whose losers run on, then reranking": Aside(before=first_of_three),
    "overlapping streams": Aside(before=streams),
    "a search that fails up to three times before it answers": Aside(before=failing),
    "a failed search beside whose wait other work runs": Aside(before=failing_beside_work),
    "a vector database that traces itself": Aside(before=traced_database),
    "a consumer below a short producer": Aside(before=consumer),
    "a consumer joined to its producer by a link alone": Aside(before=linked_consumer),
    "a consumer that nobody waits for": Aside(beside=unawaited_consumer),
    "a lost span: the worker's server span": Aside(beside=lost_server),
    "a lost span: the one around the generation": Aside(beside=lost_framework_span),
    "a lost span: the gateway's call": Aside(beside=lost_call),
    "a lost span: the server span of one of three shards": Aside(beside=lost_shard),
    "a lost span: the consumer's": Aside(before=consumer, beside=lost_consumer),
}


def wrong_ratios(served: Iterable[tuple[SimulatedRequest, dict[Stage, int]]]) -> list[float]:
    """The share of each request's time that its ledger has in a wrong stage, in order."""
    return sorted(
        sum(abs(ledger.get(stage, 0) - request.truth.get(stage, 0)) for stage in Stage)
        / 2
        / sum(request.truth.values())
        for request, ledger in served
    )
