"""What a batcher's hook promises, read off the spans of a real server's requests."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from latencytrace.model import Stage, semconv
from tests.support.agent.receiving import ReceivedSpan, Receiver
from tests.support.servers.traced_server import TracedServer


@dataclass(frozen=True)
class Member:
    """A request, its wait for a batch, and what the batch was to it."""

    request: ReceivedSpan
    queue: ReceivedSpan
    work: ReceivedSpan
    step: ReceivedSpan


def ask_together(server: TracedServer, path: str, *bodies: object) -> list[object]:
    """Post all of them at once; what is answered, or the status of what is no success."""

    def ask(body: object) -> object:
        answer = server.client.post(path, json=body)
        return answer.json() if answer.is_success else answer.status_code

    with ThreadPoolExecutor(len(bodies)) as clients:
        return list(clients.map(ask, bodies))


def members(
    server: TracedServer, receiver: Receiver, request: str, count: int, stage: Stage
) -> list[Member]:
    """The members of batches among so many requests of this name, once all of it is there."""
    found: list[Member] = []

    def complete() -> bool:
        found[:] = _members(receiver.spans, request, stage)
        return len(found) == count

    server.wait_until(complete)
    for one in found:
        assert one.queue.stage == Stage.QUEUE
        assert one.queue.parent_id == one.work.parent_id
        assert one.request.start_ns <= one.queue.start_ns
        assert one.queue.end_ns == one.work.start_ns
        assert one.work.end_ns <= one.request.end_ns
        assert one.step.trace_id not in {other.request.trace_id for other in found}
        assert one.work.span_id in one.step.links
        size = one.step.attributes[semconv.BATCH_SIZE]
        assert size == one.work.attributes[semconv.BATCH_SIZE] == len(one.step.links)
    return sorted(found, key=lambda one: one.request.start_ns)


def _members(spans: list[ReceivedSpan], request: str, stage: Stage) -> list[Member]:
    requests = {span.trace_id: span for span in spans if span.name == request}
    steps = {span.span_id: span for span in spans if span.attributes.get(semconv.SHARED) is True}
    queues = {(span.trace_id, span.end_ns): span for span in spans if span.name == "queue"}
    return [
        Member(requests[work.trace_id], queues[work.trace_id, work.start_ns], work, steps[step_id])
        for work in spans
        for step_id in work.links
        if work.stage == stage
        and work.trace_id in requests
        and step_id in steps
        and (work.trace_id, work.start_ns) in queues
    ]
