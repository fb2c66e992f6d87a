"""Bandwidth that NVIDIA's exporter tells, for GPUs that tell none themselves."""

import pytest
from prometheus_client import CollectorRegistry

from latencytrace.errors import ScrapeError
from latencytrace.model.gpu import GpuMetric, Reading
from latencytrace.service.answers import gpu_answers
from latencytrace.service.reports.device_works import DeviceWorks
from latencytrace.service.reports.engine_scraper import EngineScraper
from latencytrace.service.reports.gpus import SILENT_NS, DcgmReading, GpuReports, dcgm_readings
from tests.support.builders.gpu_requests import request, sample
from tests.support.fakes.contracts import GPU, FakeClock

LABELS = (
    'gpu="0",UUID="GPU-a",pci_bus_id="00000000:07:00.0",device="nvidia0",'
    'modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1",DCGM_FI_DRIVER_VERSION="550.54.15"'
)
TEXT = f"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{{LABELS}}} 97
# HELP DCGM_FI_PROF_DRAM_ACTIVE Ratio of cycles the device memory interface is active.
# TYPE DCGM_FI_PROF_DRAM_ACTIVE gauge
DCGM_FI_PROF_DRAM_ACTIVE{{{LABELS}}} 0.423000
DCGM_FI_PROF_DRAM_ACTIVE{{{LABELS},GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"}} 0.9
"""
PEAK = 2.0e12
BUSY = Reading(GpuMetric.MEMORY_CONTROLLER_BUSY, 0.5)
PEAK_READ = Reading(GpuMetric.BANDWIDTH_PEAK, PEAK)
SHARE = "latencytrace_gpu_memory_bandwidth_utilization_ratio"
RATE = "latencytrace_gpu_memory_bandwidth_bytes_per_second"


def reports(*readings: Reading, estimates: bool = False) -> GpuReports:
    """The reports of one GPU of which an agent read just these."""
    found = GpuReports(FakeClock(1000_000_000_000), estimates=estimates)
    only = sample()
    found.take(request([type(only)(device=GPU, start_ns=None, end_ns=1, readings=readings)]))
    return found


def shown(gpus: GpuReports, metric: str, method: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(gpus)
    about = {"gpu": "0", "uuid": "GPU-a", "name": GPU.name, "method": method}
    return registry.get_sample_value(metric, about)


def test_a_whole_gpu_is_read_and_an_instance_of_a_divided_one_is_not() -> None:
    assert dcgm_readings(TEXT) == (
        DcgmReading("GPU-a", "0", "NVIDIA A100-SXM4-80GB", bandwidth_ratio=0.423),
    )


def test_the_newer_name_is_known_too() -> None:
    renamed = TEXT.replace("PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO")

    assert [reading.bandwidth_ratio for reading in dcgm_readings(renamed)] == [0.423]


@pytest.mark.parametrize("value", ["NaN", "-1", "1.5", "+Inf"])
def test_what_is_no_share_is_no_reading(value: str) -> None:
    with pytest.raises(ScrapeError, match="DCGM_FI_PROF_DRAM_ACTIVE"):
        dcgm_readings(TEXT.replace("0.423000", value))


def test_the_text_of_an_engine_says_nothing_of_gpus() -> None:
    assert dcgm_readings("vllm:num_requests_waiting 3\n") == ()


def test_a_scraped_bandwidth_stands_beside_its_method_and_is_in_no_window() -> None:
    gpus = reports(PEAK_READ)

    gpus.receive(TEXT)

    assert shown(gpus, SHARE, "dcgm") == 0.423
    assert shown(gpus, RATE, "dcgm") == pytest.approx(0.423 * PEAK)
    assert gpus.windows("GPU-a") == ()
    (gpu,) = gpu_answers.gpus(gpus, DeviceWorks())["gpus"]
    assert gpu["bandwidth"] == {
        "method": "dcgm",
        "utilization_ratio": 0.423,
        "bytes_per_second": pytest.approx(0.423 * PEAK),
        "peak_bytes_per_second": PEAK,
    }


def test_a_gpu_that_no_agent_reads_is_shown_without_bytes() -> None:
    gpus = GpuReports(FakeClock())

    gpus.receive(TEXT)

    (gpu,) = gpu_answers.gpus(gpus, DeviceWorks())["gpus"]
    assert (gpu["uuid"], gpu["name"]) == ("GPU-a", "NVIDIA A100-SXM4-80GB")
    assert gpu["bandwidth"] is not None
    assert gpu["bandwidth"]["bytes_per_second"] is None


def test_what_the_gpu_counts_itself_comes_first() -> None:
    gpus = GpuReports(FakeClock(1))
    gpus.take(request([sample(1, 0.61)]))

    gpus.receive(TEXT)

    (gpu,) = gpu_answers.gpus(gpus, DeviceWorks())["gpus"]
    assert gpu["bandwidth"] is not None
    assert gpu["bandwidth"]["method"] == "gpm"


def test_an_exporter_that_is_gone_leaves_no_value_behind() -> None:
    clock = FakeClock(1)
    gpus = GpuReports(clock)
    gpus.receive(TEXT)

    clock.now_ns += SILENT_NS + 1

    assert shown(gpus, SHARE, "dcgm") is None


def test_an_exporter_is_scraped_as_engines_are() -> None:
    gpus = reports(PEAK_READ)
    scraper = EngineScraper(("http://h:9400/metrics",), lambda _: TEXT, FakeClock(1), gpus.receive)
    registry = CollectorRegistry()
    registry.register(scraper)

    scraper.step()

    assert shown(gpus, SHARE, "dcgm") == 0.423
    assert registry.get_sample_value("latencytrace_engine_up", {"target": "h:9400"}) == 1


def test_an_estimate_is_made_only_when_asked_for() -> None:
    assert shown(reports(BUSY, PEAK_READ), SHARE, "estimated") is None


def test_an_estimate_is_the_time_that_memory_was_busy_at_its_peak() -> None:
    gpus = reports(BUSY, PEAK_READ, estimates=True)

    assert shown(gpus, SHARE, "estimated") == 0.5
    assert shown(gpus, RATE, "estimated") == 0.5 * PEAK


def test_where_it_is_counted_or_memory_says_nothing_there_is_no_estimate() -> None:
    counted = reports(BUSY, estimates=True)
    counted.receive(TEXT)

    assert shown(counted, SHARE, "estimated") is None
    assert shown(reports(PEAK_READ, estimates=True), SHARE, "estimated") is None
