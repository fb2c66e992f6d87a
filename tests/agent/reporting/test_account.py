"""What the agent says that it costs, against a count of all that it does."""

import pytest

from tests.benchmarks.bench_account import ROUTES, accounts

STREAM = "/stream"  # its chunks are priced as those of one where nothing else is done
MOST_OFF = 0.25


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_account_of_each_ordinary_route_is_within_a_quarter_of_the_work_done() -> None:
    found = accounts(ROUTES)

    off = {
        path: f"{one.ratio:.2f}" for path, one in found.items() if abs(one.ratio - 1) > MOST_OFF
    }
    assert off == {}
