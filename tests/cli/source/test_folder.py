"""A data folder answers as a service would, without one: the same application, in this process."""

import threading
from typing import cast

import pytest

from latencytrace.cli.source.folder import FolderSource
from latencytrace.errors import LatencytraceError
from tests.support.builders.filtered_folder import folder
from tests.support.builders.spans.otlp_messages import TRACE
from tests.support.servers.command_line import python
from tests.support.waiting import PATIENCE_S

__all__ = ["folder"]


@pytest.mark.parametrize(
    ("path", "asked", "says"),
    [
        ("/requests", {"order": "best"}, "order: .*'slowest' or 'newest'"),
        ("/requests", {"limit": "0"}, "limit: .*greater than or equal to 1"),
        ("/requests", {"limit": "1000000"}, "limit: .*less than or equal to 10000"),
        ("/ledgers", {"format": "xml"}, "format: .*'csv' or 'parquet'"),
        ("/breakdown", {"since": "yesterday"}, "^'yesterday' is not a valid time. Try 15m"),
        ("/breakdown", {"status": "fine"}, "^status 'fine' is not known: use ok, error"),
        ("/breakdown", {"input_tokens": "4-1"}, r"^'4-1' is not a range of tokens. Try 1000\.\."),
        ("/requests/abc", {}, "^'abc' is not a trace ID .needs 32 hex digits.$"),
        (f"/requests/{'0' * 32}", {}, "it never arrived, or is no longer kept"),
        ("/objectives", {}, "there is nothing at /api/v1/objectives"),
    ],
)
def test_a_question_without_an_answer_says_why(
    folder: FolderSource, path: str, asked: dict[str, str], says: str
) -> None:
    with pytest.raises(LatencytraceError, match=says):
        folder.document(path, asked)


def test_what_only_a_service_knows_is_empty(folder: FolderSource) -> None:
    request = cast("dict[str, object]", folder.document(f"/requests/{TRACE}", {}))

    assert request["profiles"] == []
    assert folder.document("/gpu", {}) == {"gpus": [], "stages": []}


def test_a_question_leaves_no_thread_behind(folder: FolderSource) -> None:
    before = set(threading.enumerate())
    folder.document("/services", {})

    for begun in set(threading.enumerate()) - before:
        begun.join(PATIENCE_S)
        assert not begun.is_alive(), begun.name


def test_reading_a_folder_loads_nothing_that_listens_or_writes() -> None:
    script = "import latencytrace.cli.source.folder, sys; print('\\n'.join(sys.modules))"
    loaded = python("-c", script, check=True).stdout.splitlines()

    listening = {"uvicorn", "grpc", "latencytrace.service.app", "latencytrace.service.ingest"}
    writing = {"latencytrace.service.ledgers", "latencytrace.service.reports"}
    assert (listening | writing).isdisjoint(loaded)


def test_a_baseline_is_kept_in_the_folder_without_a_service(folder: FolderSource) -> None:
    cohort = "since=2000-01-01T00:00:00Z"

    saved = folder.send("PUT", "/baselines/one", {"cohort": cohort})
    listed = folder.document("/baselines", {})
    deleted = folder.send("DELETE", "/baselines/one", None)

    assert isinstance(saved, dict)
    assert (saved["name"], saved["cohort"], saved["requests"]) == ("one", cohort, 2)
    assert listed == {"baselines": [saved]}
    assert deleted == saved
    assert folder.document("/baselines", {}) == {"baselines": []}
