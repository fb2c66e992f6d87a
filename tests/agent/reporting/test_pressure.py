"""Pressure of the machine and of a control group, as Linux tells it."""

from pathlib import Path

import pytest

from latencytrace.agent.reporting.own_cost import RESOURCES, pressure

LINES = "some avg10=1.00 avg60={share} avg300=3.00 total=4\nfull avg10=5.00 avg60=6.00 total=7\n"


def told(file: Path, share: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(LINES.format(share=share))


def test_a_control_group_is_asked_before_its_machine(tmp_path: Path) -> None:
    told(tmp_path / "proc/pressure/cpu", "80.00")
    told(tmp_path / "proc/pressure/io", "25.50")
    (tmp_path / "proc/self").mkdir()
    (tmp_path / "proc/self/cgroup").write_text("1:name=x:/y\n0::/pods/chat\n")
    told(tmp_path / "sys/fs/cgroup/pods/chat/cpu.pressure", "12.34")

    assert pressure(tmp_path) == {"cpu": pytest.approx(0.1234), "io": pytest.approx(0.255)}


@pytest.mark.parametrize("lines", ["", "full avg60=1.00\n", "some avg60=much\n", "some\n", "\xff"])
def test_what_cannot_be_read_is_absent(tmp_path: Path, lines: str) -> None:
    (tmp_path / "proc/pressure").mkdir(parents=True)
    (tmp_path / "proc/pressure/cpu").write_text(lines, encoding="latin-1")

    assert pressure(tmp_path) == {}
    assert pressure(tmp_path / "nowhere") == {}


def test_this_machine_tells_shares_of_time_if_any() -> None:
    assert {*pressure()} <= {*RESOURCES}
    assert all(0 <= share <= 1 for share in pressure().values())
