"""MLflow: model and tokens as JSON in attributes, and an event for each chunk of an answer."""

from latencytrace.analysis.dialects.engine import Engine, Generation, count_of, json_of
from latencytrace.model import Span, semconv

_FIRST_CHUNK = "mlflow.chunk.item.0"


def _knows(span: Span) -> bool:
    return semconv.MLFLOW_TYPE in span.attributes


def _generation(span: Span) -> Generation:
    usage = json_of(span, semconv.MLFLOW_USAGE)
    counts = usage if isinstance(usage, dict) else {}
    model = json_of(span, semconv.MLFLOW_MODEL)
    began = next((event.time_ns for event in span.events if event.name == _FIRST_CHUNK), None)
    return Generation(
        first_token_ns=None if began is None else began - span.start_ns,
        model=model if isinstance(model, str) else None,
        input_tokens=count_of(counts, "input_tokens"),
        cached_input_tokens=count_of(counts, "cache_read_input_tokens"),
        output_tokens=count_of(counts, "output_tokens"),
    )


ENGINE = Engine(
    name="MLflow",
    scopes=("mlflow",),
    knows=_knows,
    generation=_generation,
    reported_in=frozenset({semconv.MLFLOW_USAGE, semconv.MLFLOW_MODEL}),
)
