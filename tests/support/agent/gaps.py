"""How long a request waited for its own process."""

from latencytrace.model import semconv
from latencytrace.model.packed import unpack_named
from tests.support.agent.receiving import ReceivedSpan


def gaps_ns(span: ReceivedSpan) -> dict[str, int]:
    """How long it waited, by what for."""
    packed = str(span.attributes.get(semconv.RUNTIME_GAPS, ""))
    found: dict[str, int] = {}
    for name, start_ns, end_ns in unpack_named(packed, span.start_ns):
        assert span.start_ns <= start_ns < end_ns <= span.end_ns
        found[name] = found.get(name, 0) + end_ns - start_ns
    return found
