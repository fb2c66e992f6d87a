"""`latencytrace gpu`, and the rows of GPUs elsewhere."""

import json

import pytest

from latencytrace.cli.commands import trace
from latencytrace.cli.commands.gpu import picture
from latencytrace.errors import ServiceUnreachableError
from latencytrace.model import Stage
from latencytrace.service.answers.gpu_documents import GpuDocument, GpusDocument
from tests.support.builders.documents import (
    MS,
    gpu_document,
    gpu_stage,
    gpus_document,
    request_document,
)
from tests.support.servers.recording_api import RecordingApi, recording_api
from tests.support.terminal import plain, printed_lines, said

__all__ = ["recording_api"]


def drawn(document: GpusDocument) -> list[str]:
    console = plain(160)
    return [" ".join(line.split()) for line in printed_lines(picture(document, console), console)]


def of(*gpus: GpuDocument) -> GpusDocument:
    return GpusDocument(gpus=list(gpus), stages=[])


def test_a_gpu_is_a_row_with_how_its_bandwidth_is_known() -> None:
    assert drawn(of(gpu_document()))[1] == (
        "0 NVIDIA H200 61.0 % 3.00 TB/s gpm 5.0 % 80.0 % 90.0 GB of 150 GB 512 W 61 1,980 MHz"
    )


def test_a_kind_of_work_is_a_row_with_its_intervals_and_what_bound_it() -> None:
    row = drawn(gpus_document())[-1]

    assert (
        row == "decode tiny rag 54.0 ms 90.0 % 61.0 % ± 0.4 % 5.0 % ± 0.2 % memory bandwidth high"
    )


def test_what_is_unknown_is_not_drawn_as_nothing_used() -> None:
    lines = drawn(of(gpu_document(bandwidth=None, power_watts=None, pipes={})))

    assert lines[1] == "0 NVIDIA H200 - - 80.0 % 90.0 GB of 150 GB - 61 1,980 MHz"
    assert "GPUs before Hopper do not tell it" in lines[2]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"clock_events": ["sw_power_cap"]}, "GPU 0: clocks held down by sw_power_cap"),
        ({"xid_errors": {"79": 2.0}}, "GPU 0: the driver reported Xid 79 (2)"),
        ({"silent_ns": 70_000 * MS}, "GPU 0: nothing received for 1 min 10 s"),
        ({"parent_uuid": "GPU-b"}, "* an instance of a partitioned GPU"),
    ],
    ids=["throttled", "faulty", "silent", "partitioned"],
)
def test_what_needs_a_look_is_said_below(changed: dict[str, object], says: str) -> None:
    assert says in drawn(of(gpu_document(**changed)))


def test_an_idle_gpu_is_not_called_held_down() -> None:
    assert len([line for line in drawn(of(gpu_document(clock_events=["idle"]))) if line]) == 2


def test_no_gpu_says_what_to_do() -> None:
    assert "pip install 'latencytrace[gpu]'" in drawn(of())[0]


def test_unknown_bounds_are_said_to_be_unknown() -> None:
    stage = gpu_stage(bound="unknown", confidence="none", used={}, notes=["foreign_load"])

    (_, row) = drawn(GpusDocument(gpus=[], stages=[stage]))

    assert row == "decode tiny rag 54.0 ms 90.0 % - - unknown others at work there"


def test_arithmetic_that_is_modelled_is_said_so() -> None:
    stage = gpu_stage(used={}, bound="compute", notes=["modelled"], modelled_tensor_ratio=0.7)
    stage["confidence"] = "low"

    (_, row) = drawn(GpusDocument(gpus=[], stages=[stage]))

    assert row.endswith("- at least 70.0 %, modelled arithmetic low modelled")


def test_what_is_modelled_is_said_to_be_at_least_that() -> None:
    stage = gpu_stage(used={}, confidence="medium", modelled_bandwidth_ratio=0.55)

    (_, row) = drawn(GpusDocument(gpus=[], stages=[stage]))

    assert row == (
        "decode tiny rag 54.0 ms 90.0 % at least 55.0 %, modelled - memory bandwidth medium"
    )


def test_piped_it_prints_once(recording_api: RecordingApi) -> None:
    assert "NVIDIA H200" in said("gpu", "--url", recording_api.url)
    assert [path for path, _ in recording_api.asked].count("/api/v1/gpu") == 1


def test_json_is_the_document(recording_api: RecordingApi) -> None:
    assert json.loads(said("gpu", "--json", "--url", recording_api.url)) == gpus_document()


def test_without_a_service_there_is_nothing_to_show() -> None:
    with pytest.raises(ServiceUnreachableError, match="no service answers") as refused:
        said("gpu", "--url", "http://127.0.0.1:1")
    assert "--data" not in str(refused.value)  # which `gpu` does not take


def test_a_breakdown_says_what_held_its_stages_up(recording_api: RecordingApi) -> None:
    assert "memory bandwidth" in said("breakdown", "--url", recording_api.url)


def test_a_breakdown_of_another_service_does_not(recording_api: RecordingApi) -> None:
    shown = said(
        "breakdown", "--model", "other", "--route", "POST /chat", "--url", recording_api.url
    )

    assert "memory bandwidth" not in shown


def test_a_request_on_a_gpu_shows_its_device_times() -> None:
    request = request_document()
    decode = request["spans"][2]
    decode["stage"] = Stage.DECODE
    decode["attributes"] = {"gen_ai.request.model": "tiny"}
    decode["device"] = {
        "gpu": "GPU-a",
        "start_ns": 26 * MS,
        "end_ns": 95 * MS,
        "device_ns": 63 * MS,
        "launch_ns": 7 * MS,
        "queue_ns": MS,
        "error_ns": 20_000,
    }
    console = plain(160)

    lines = printed_lines(trace.picture(request, console, [gpu_stage()]), console)

    row = next(line for line in lines if "20.0 µs" in line)
    assert " ".join(row.split()) == (
        "decode generate 63.0 ms 90.0 % 7.00 ms 1.00 ms 26.0 ms ± 20.0 µs memory bandwidth"
    )
