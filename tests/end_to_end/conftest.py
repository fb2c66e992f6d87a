"""What the servers of these tests need."""

from collections.abc import Iterator

import pytest

from tests.support.agent.receiving import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Takes spans."""
    with receiving() as receiver:
        yield receiver
