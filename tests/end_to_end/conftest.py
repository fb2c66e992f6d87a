"""What the servers of these tests need."""

from collections.abc import Iterator

import pytest

from tests.support.agent.receiving import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Takes spans."""
    with Receiver() as receiver:
        yield receiver
