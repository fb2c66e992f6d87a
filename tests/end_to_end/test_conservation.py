"""Every request that was acknowledged is counted once, whatever happens to the service.

A sender with stock exporters' habits keeps its own record, and asks nothing meanwhile; each
ledger is compared with it to the nanosecond. The long form is `make stress`.
"""

from pathlib import Path

import pytest

from tests.stress.runs import Stress, account_of
from tests.stress.trouble import CannotMountError

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def test_every_acknowledged_request_is_counted_once_on_a_busy_machine(tmp_path: Path) -> None:
    stress = Stress(requests=600, rate=50, hogs=2, slow_ms=60, services=2)

    account = account_of(stress, tmp_path / "data")

    assert not account.faults, "\n".join(account.faults)
    assert account.acknowledged == account.requests == 1000  # of them 400 within the worker


def test_kills_lose_nothing_and_a_damaged_block_loses_only_itself(tmp_path: Path) -> None:
    stress = Stress(requests=400, rate=40, slow_ms=600, kills=6)

    account = account_of(stress, tmp_path / "data")

    assert not account.faults, "\n".join(account.faults)
    assert account.unanswered > 0  # it was away


def test_a_full_disk_is_said_and_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    stress = Stress(requests=250, rate=40, slow_ms=60, full_disk=True)

    try:
        account = account_of(stress, tmp_path / "data")
    except CannotMountError as error:
        pytest.skip(f"no small disk can be made here: {error}")

    assert not account.faults, "\n".join(account.faults)
    assert account.acknowledged == account.requests == 250
