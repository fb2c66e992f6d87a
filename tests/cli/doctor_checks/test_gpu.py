"""What the doctor says of GPUs."""

import threading
from collections.abc import Iterator, Sequence

import pytest

from latencytrace.cli.doctor_checks.environment import gpu_findings, judged
from latencytrace.errors import GpuUnavailableError
from latencytrace.model.gpu import GpuDevice
from latencytrace.service.answers.findings.finding import Verdict
from tests.support.fakes.contracts import FakeClock, ScriptedGpuReader


@pytest.fixture
def reader() -> ScriptedGpuReader:
    return ScriptedGpuReader(FakeClock())


def test_gpus_that_can_be_read_are_named_and_given_back(reader: ScriptedGpuReader) -> None:
    finding = judged(reader, wanted=False)

    assert finding.verdict is Verdict.FINE
    assert finding.what == "1 GPU can be read: NVIDIA H200, driver 580.1"
    assert reader.calls == ["open", "close"]


@pytest.mark.parametrize(
    ("is_absent", "wanted", "verdict"),
    [(True, False, Verdict.NOTE), (True, True, Verdict.WRONG), (False, False, Verdict.WRONG)],
    ids=["no such GPUs here", "asked for", "there and broken"],
)
def test_why_none_can_be_read_is_said(
    reader: ScriptedGpuReader, verdict: Verdict, *, is_absent: bool, wanted: bool
) -> None:
    reader.refusals = [GpuUnavailableError("because", is_final=True, is_absent=is_absent)]

    finding = judged(reader, wanted=wanted)

    assert (finding.verdict, finding.what) == (verdict, "none is read: because")


def test_a_driver_that_shows_none_is_said(reader: ScriptedGpuReader) -> None:
    reader.devices = []

    assert judged(reader, wanted=False).what == "the driver shows none to this user"


@pytest.fixture
def going_on() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


class HangingReader(ScriptedGpuReader):
    """Does not open until it is told to."""

    def __init__(self, going_on: threading.Event) -> None:
        super().__init__(FakeClock())
        self._going_on = going_on

    def open(self) -> Sequence[GpuDevice]:
        """Hang."""
        self._going_on.wait(30)
        return super().open()


def test_a_driver_that_hangs_is_not_waited_for(going_on: threading.Event) -> None:
    finding = judged(HangingReader(going_on), wanted=False, patience_s=0.05)

    assert finding.verdict is Verdict.WRONG
    assert "has not answered" in finding.what


def test_left_out_by_a_setting_nothing_is_touched() -> None:
    (finding,) = gpu_findings(wanted=False)

    assert finding.what == "left out by LATENCYTRACE_GPU"
