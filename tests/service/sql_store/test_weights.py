"""When a store learns that some requests stand for several."""

from collections.abc import Mapping

from latencytrace.service.sql_store.weights import ALL_NS, LOOK_NS, Weights
from tests.support.fakes.contracts import FakeClock


class Rows:
    """When rows with a weight were written, and what was asked."""

    def __init__(self) -> None:
        self.written_ns: list[int] = []
        self.asked: list[int] = []

    def __call__(self, _: str, __: str, bound: Mapping[str, object]) -> bytes:
        """Whether there is a row with a weight that was written since."""
        since_ns = bound["since"]
        assert isinstance(since_ns, int)
        self.asked.append(since_ns)
        return b"%d" % any(one >= since_ns for one in self.written_ns)


def test_weights_that_were_moved_here_are_found_within_ten_minutes() -> None:
    clock, rows = FakeClock(), Rows()
    clock.move_s(100_000)
    weights = Weights(rows, clock, alone=False)
    assert not weights.found()
    rows.written_ns.append(1)  # elsewhere, long ago

    found = []
    for _ in range(ALL_NS // LOOK_NS):
        clock.move_s(LOOK_NS / 1e9)
        found.append(weights.found())

    assert found == [False] * (ALL_NS // LOOK_NS - 1) + [True]
    assert rows.asked[0] == rows.asked[-1] == 0 < min(rows.asked[1:-1])


def test_weights_that_were_moved_here_are_found_by_one_who_asks_seldom() -> None:
    clock, rows = FakeClock(), Rows()
    weights = Weights(rows, clock, alone=False)
    assert not weights.found()
    rows.written_ns.append(1)

    clock.move_s(3600)

    assert weights.found()


def test_one_that_is_written_during_a_look_is_known() -> None:
    clock = FakeClock()

    def ask(*_: object) -> bytes:
        weights.note()
        return b"0"

    weights = Weights(ask, clock, alone=True)

    assert weights.found()
    assert weights.found()
