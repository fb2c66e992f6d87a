"""A GPU over time."""

from dataclasses import replace

import pytest

from latencytrace.analysis.gpu.over_time import COLUMNS, LONGEST_NS, over_time
from latencytrace.model import Stage
from latencytrace.model.gpu import DeviceWork, GpuWindow

SECOND_NS = 10**9


def window(start_s: float, *, throttled: bool | None = None, **ratios: float) -> GpuWindow:
    start_ns = round(start_s * SECOND_NS)
    return GpuWindow(
        start_ns=start_ns, end_ns=start_ns + SECOND_NS // 2, throttled=throttled, **ratios
    )


def work(start_s: float, end_s: float, device_s: float) -> DeviceWork:
    return DeviceWork(
        trace_id="a" * 32,
        span_id="b" * 16,
        service="rag",
        model=None,
        stage=Stage.DECODE,
        gpu="GPU-a",
        start_ns=round(start_s * SECOND_NS),
        end_ns=round(end_s * SECOND_NS),
        device_ns=round(device_s * SECOND_NS),
        wall_ns=round((end_s - start_s) * SECOND_NS),
        launch_ns=0,
    )


def test_nothing_is_known_of_a_gpu_without_windows_and_work() -> None:
    assert over_time([], []) is None


def test_a_column_has_the_mean_of_its_windows_and_none_where_nothing_was_read() -> None:
    found = over_time(
        [
            window(0, sm_ratio=0.2),
            window(0.5, sm_ratio=0.6),
            window(10, sm_ratio=1.0, throttled=True),
            window(59.5, sm_ratio=0.0),
        ],
        [],
    )

    assert found is not None
    assert (found.since_ns, found.column_ns) == (0, SECOND_NS)
    assert found.ratios["sm_ratio"][0] == pytest.approx(0.4)
    assert found.ratios["sm_ratio"][1] is None
    assert found.ratios["sm_ratio"][59] == 0.0
    assert found.ratios["bandwidth_ratio"] == [None] * COLUMNS
    assert [place for place, held in enumerate(found.throttled) if held] == [10]


def test_the_device_time_of_work_is_apportioned_to_its_columns() -> None:
    found = over_time([], [work(0, 60, 30), work(5.5, 6.5, 1)])

    assert found is not None
    assert found.device_ns[0] == SECOND_NS // 2
    assert found.device_ns[5] == found.device_ns[6] == SECOND_NS
    assert sum(found.device_ns) == 31 * SECOND_NS
    assert [place for place, begun in enumerate(found.works) if begun] == [0, 5]


def test_at_most_the_last_hour_is_laid_out() -> None:
    late_s = 2 * LONGEST_NS / SECOND_NS
    found = over_time([window(0, sm_ratio=1.0), window(late_s, sm_ratio=0.5)], [])
    longer = over_time([], [replace(work(0, late_s, late_s), stage=Stage.PREFILL)])

    assert found is not None
    assert longer is not None
    assert found.until_ns - found.since_ns == LONGEST_NS
    assert [ratio for ratio in found.ratios["sm_ratio"] if ratio is not None] == [0.5]
    assert sum(longer.device_ns) == LONGEST_NS
    assert sum(longer.works) == 0
