"""gevent: greenlets go on with the request, patched before us, after us or not at all."""

import sys
from importlib.util import find_spec

import pytest

from tests.support.agent.greenlets import ORDERS, check_greenlets
from tests.support.agent.receiving import Receiver

# Not imported: it would look after forks of all tests.
pytestmark = pytest.mark.skipif(find_spec("gevent") is None, reason="gevent is not installed")


# gevent's own fault at a fork, traced or not, where a thread began before it patched.
BROKEN = pytest.mark.xfail(sys.version_info >= (3, 13), reason="gevent's _ThreadHandle._set_done")


@pytest.mark.parametrize(
    "order", [pytest.param(one, marks=BROKEN if one == "patched-last" else ()) for one in ORDERS]
)
def test_what_a_request_hands_to_greenlets_and_threads_is_part_of_it(
    receiver: Receiver, order: str
) -> None:
    assert check_greenlets(receiver, "gevent", order) == ""
