"""A program on a machine that reaches no service: its spans go to a file, which is imported later.

python examples/offline_import/program.py spans.pb
latencytrace import spans.pb --data traces
latencytrace breakdown --data traces

It knows nothing of latencytrace: any program that OpenTelemetry's SDK traces can do the same.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

TEXTS = (
    "A request waits in a queue until a batch has room for it.",
    "The prefill reads the whole prompt, and gives the first token.",
    "The decode gives one token after the other.",
)


class FileExporter(SpanExporter):
    """Appends spans to a file: requests of OTLP one after the other are one request."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._path.open("ab") as file:
            file.write(encode_spans(spans).SerializeToString())
        return SpanExportResult.SUCCESS


def main(path: Path) -> None:
    provider = TracerProvider(resource=Resource({"service.name": "offline"}))
    provider.add_span_processor(BatchSpanProcessor(FileExporter(path)))
    trace.set_tracer_provider(provider)
    tracer = trace.get_tracer("offline")
    for text in TEXTS:
        with tracer.start_as_current_span("document"):
            with tracer.start_as_current_span("tokenize", attributes=stage("tokenize")):
                words = re.findall(r"\w+", text.lower())
            with tracer.start_as_current_span("embed", attributes=stage("embed")):
                vector = [hash(word) % 1000 / 1000 for word in words]
        print(f"{len(vector)} words")
    provider.shutdown()


def stage(name: str) -> dict[str, str]:
    return {"latencytrace.stage": name}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
