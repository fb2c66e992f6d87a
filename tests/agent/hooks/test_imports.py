"""The hook of Python's own `import`, with modules that a test writes."""

import importlib
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from latencytrace.agent.guard import raise_fault
from latencytrace.agent.hooks.imports import ImportsHook
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked, in_request

HOOKS = (ImportsHook,)
MODULES = {
    "imported_outer": "import imported_inner\nVALUE = imported_inner.VALUE",
    "imported_inner": "VALUE = 1",
    "imported_old": "import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=2)",
    "imported_failing": "1 / 0",
}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules that nobody has imported yet."""
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


pytestmark = pytest.mark.usefixtures("modules")


def test_an_import_that_a_request_waits_for_is_one_span_with_all_that_it_imports(
    spans: Spans,
) -> None:
    def work() -> None:
        import imported_outer  # type: ignore[import-not-found]

        assert imported_outer.VALUE == 1

    in_request(spans, work)
    in_request(spans, work)

    assert spans.names == ["import imported_outer", "request", "request"]
    assert dict(spans.all[0].attributes) == {semconv.STAGE: Stage.LOAD}


def test_outside_of_a_request_nothing_is_timed(spans: Spans) -> None:
    importlib.import_module("imported_outer")

    assert spans.names == []


def test_a_module_that_is_there_already_is_not_timed(spans: Spans) -> None:
    in_request(spans, lambda: importlib.import_module("json"))

    assert spans.names == ["request"]


class Importing(SpanProcessor):
    """A processor of the program's own, which imports whenever a span starts or ends."""

    def on_start(self, span: object, parent_context: object = None) -> None:
        """Import what is not there, so that it is looked for each time."""
        del span, parent_context
        with suppress(ModuleNotFoundError):
            importlib.import_module("imported_from_nowhere")

    def on_end(self, span: ReadableSpan) -> None:
        """Import it once more."""
        self.on_start(span)


def test_what_starting_or_ending_a_span_imports_is_no_span_itself() -> None:
    own, program, kept = Spans(), TracerProvider(), InMemorySpanExporter()
    program.add_span_processor(Importing())
    program.add_span_processor(SimpleSpanProcessor(kept))
    own.recorder = Recorder(program.get_tracer("program"), raise_fault)

    with hooked(ImportsHook, spans=own):
        in_request(own, lambda: importlib.import_module("imported_outer"))

    names = [span.name for span in kept.get_finished_spans()]
    assert names == ["import imported_outer", "request"]


def test_a_module_that_is_not_there_is_no_error(spans: Spans) -> None:
    def work() -> None:
        with suppress(ModuleNotFoundError):
            importlib.import_module("imported_from_nowhere.at_all")

    in_request(spans, work)

    assert spans.names == ["import imported_from_nowhere", "request"]
    assert semconv.ERROR_TYPE not in spans.all[0].attributes


def test_a_module_that_is_looked_for_in_each_request_makes_the_first_one_only_a_cold_start(
    spans: Spans,
) -> None:
    def work() -> None:
        with suppress(ModuleNotFoundError):
            importlib.import_module("imported_from_nowhere")

    in_request(spans, work)
    in_request(spans, work)

    assert spans.names == ["import imported_from_nowhere", "request", "request"]


def test_a_warning_of_a_module_comes_from_whoever_imports_it(spans: Spans) -> None:
    def work() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import imported_old  # type: ignore[import-not-found]  # noqa: F401
        assert [Path(each.filename).name for each in caught] == ["test_imports.py"]

    in_request(spans, work)

    assert spans.names == ["import imported_old", "request"]


def test_a_traceback_shows_the_same_frames_as_without_the_hook(spans: Spans) -> None:
    def frames() -> list[str]:
        try:
            import imported_failing  # type: ignore[import-not-found]  # noqa: F401
        except ZeroDivisionError as error:
            return [
                Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)
            ]
        raise AssertionError("it was imported")

    in_request(spans, frames)

    assert frames() == ["test_imports.py", "imported_failing.py"]
    assert spans.names == ["import imported_failing", "request"]


def test_the_imports_of_one_span_are_bounded(spans: Spans) -> None:
    def work() -> None:
        for number in range(100):
            with suppress(ModuleNotFoundError):
                importlib.import_module(f"imported_from_nowhere_{number}")

    in_request(spans, work)

    assert len(spans.of(Stage.LOAD)) == 64
