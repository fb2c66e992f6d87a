"""A data folder with two requests, for questions with filters."""

from collections.abc import Iterator

import pytest

from latencytrace.cli.importing.files import import_files
from latencytrace.cli.source.folder import FolderSource, open_folder
from latencytrace.model import Span, SpanKind, semconv
from tests.support.builders.spans.otlp_messages import SPAN, START_NS, message, one_span


def two_requests() -> tuple[Span, ...]:
    """One that every filter finds, with a task; one that none does, but for `since` alone."""
    return (
        one_span(attributes={
            semconv.HTTP_REQUEST_METHOD: "POST",
            semconv.HTTP_ROUTE: "/chat",
            semconv.GEN_AI_RESPONSE_MODEL: "tiny",
            semconv.GEN_AI_USAGE_INPUT_TOKENS: 15,
            semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 3,
            semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: 5e-7,
            "tenant": "acme",
        }),
        one_span("f" * 32, name="GET /", start_ns=START_NS + 86_400_000_000_000,
                 end_ns=START_NS + 86_400_000_000_001,
                 attributes={semconv.HTTP_RESPONSE_STATUS_CODE: 500,
                             semconv.DETAIL: "no_intervals"}),
        one_span(span_id="e" * 16, parent_id=SPAN, name="title", kind=SpanKind.INTERNAL,
                 end_ns=START_NS + 50_000_000),
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FolderSource]:
    """The two of them."""
    path = tmp_path_factory.mktemp("filters")
    sent = message(two_requests())
    for pair in sent.resource_spans[1].resource.attributes:
        pair.value.string_value = "another"
    (path / "file").write_bytes(sent.SerializeToString())
    import_files([str(path / "file")], url=None, endpoint=None, data=path / "data", as_json=True)
    with open_folder(path / "data") as opened:
        yield opened
