"""Several services on one ClickHouse server: what any of them acknowledged is there once."""

from pathlib import Path

import pytest

from tests.stress.fleet import SPLIT_EVERY, Trouble, account_of


@pytest.mark.long
@pytest.mark.timeout(400)
def test_kills_and_a_server_away_lose_nothing_that_a_fleet_acknowledged(tmp_path: Path) -> None:
    trouble = Trouble(requests=240, kills=2, away=1)

    outcome = account_of(trouble, tmp_path)

    assert outcome.acknowledged == trouble.requests
    assert outcome.split == trouble.requests // SPLIT_EVERY
    assert outcome.mended > 0
    assert outcome.refused[0] > 0  # members were away
