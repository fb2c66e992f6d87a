"""OpenInference for LangChain: spans made by callbacks, which are never the current span.

What another instrumentation sees inside them is hung beside them, below the same parent.
"""

from latencytrace.analysis.dialects.engine import Engine
from latencytrace.model import Span, semconv


def _knows(span: Span) -> bool:
    return bool(span.scope) and semconv.OPENINFERENCE_SPAN_KIND in span.attributes


ENGINE = Engine(
    name="OpenInference for LangChain",
    scopes=("openinference.instrumentation.langchain",),
    knows=_knows,
    never_current=True,
)
