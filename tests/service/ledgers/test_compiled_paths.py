"""The compiled critical path takes over from the plain one, and gives the same."""

import pytest

from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.model import Stage
from latencytrace.service.ledgers import compiled_paths as kernels
from latencytrace.service.ledgers.compiled_paths import WORTH_COLUMNS_SPANS, CriticalPaths
from tests.support.builders.trees import request, span

TRACES = [
    request(span("search", 10, 30 + number % 60, stage=Stage.RETRIEVE))
    for number in range(WORTH_COLUMNS_SPANS)
]
PLAIN = [critical_path(trace) for trace in TRACES]


def test_nobody_waits_for_the_compiler() -> None:
    paths = CriticalPaths()

    assert paths(TRACES) == PLAIN
    assert not paths.is_compiled


def test_once_it_pays_the_path_is_compiled_and_gives_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "WORTH_COMPILING_SPANS", 2 * WORTH_COLUMNS_SPANS)
    paths = CriticalPaths()
    paths(TRACES)
    paths.compile().join()

    assert paths.is_compiled
    assert paths(TRACES) == PLAIN
    assert paths(TRACES[:1]) == PLAIN[:1]
