"""Requests of three tenants and two versions, of which one tenant's become slow."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from latencytrace.model import Span, SpanKind, semconv
from tests.support.builders.spans.otlp_messages import one_span

MS, SECOND_NS = 10**6, 10**9


def chats(now_ns: int) -> Iterator[Span]:
    """Forty minutes of requests; of the last eight those of one tenant search for long."""
    random = Random(5)
    for number in range(1, 1_201):
        end_ns = now_ns - (1_201 - number) * 2 * SECOND_NS
        tenant = random.choice(("acme", "globex", "globex", "hooli"))
        slow = tenant == "globex" and number > 960
        search_ns = round((2_500 if slow else 60) * random.uniform(0.9, 1.2)) * MS
        start_ns = end_ns - search_ns - 400 * MS
        trace_id = f"{number:032x}"
        version = "1" if number < 600 else "2"
        attributes = {"http.route": "/chat", "http.request.method": "POST", "tenant": tenant}
        root = one_span(
            trace_id, f"{number:015x}1", start_ns=start_ns, end_ns=end_ns, attributes=attributes
        )
        yield replace(root, version=version)
        for place, (stage, from_ns, to_ns) in enumerate(
            (("retrieve", 0, search_ns), ("decode", search_ns, search_ns + 400 * MS)), 2
        ):
            yield replace(
                one_span(
                    trace_id,
                    f"{number:015x}{place}",
                    parent_id=root.span_id,
                    name=stage,
                    kind=SpanKind.INTERNAL,
                    start_ns=start_ns + from_ns,
                    end_ns=start_ns + to_ns,
                    attributes={semconv.STAGE: stage},
                ),
                version=version,
            )
