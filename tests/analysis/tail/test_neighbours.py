"""What requests waited for others' work, on steps whose costs are known."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from latencytrace.analysis.tail.neighbours import (
    LEAST_REQUESTS,
    LEAST_STEPS,
    Labels,
    Member,
    Neighbours,
    Step,
    Wait,
    neighbours,
)

MS = 1_000_000
FIXED_MS, TOKEN_MS = 20, 0.05  # what a step takes, and each token in it
Waits = dict[str, list[Wait]]


class Engine:
    """Steps that prefill four prompts together: those of `chat` short, those of `batch` long."""

    def __init__(self, seed: int = 1, *, token_ms: float = TOKEN_MS) -> None:
        self._random = np.random.default_rng(seed)
        self._token_ms = token_ms
        self.true_ms: dict[str, float] = {}  # what others cost each request of `chat`
        self._made = 0

    def waits(self, requests: int, neighbour_ratio: float) -> Waits:
        """Requests of `chat`, each through two steps, some of which they share with `batch`."""
        found: Waits = {}
        for _ in range(requests):
            own = self._member("chat")
            found[own.trace_id] = [self._wait(own, neighbour_ratio) for _ in range(2)]
        return found

    def _wait(self, own: Member, neighbour_ratio: float) -> Wait:
        others = [
            self._member("batch" if self._random.random() < neighbour_ratio else "chat")
            for _ in range(3)
        ]
        work = own.work + sum(one.work for one in others)
        took_ms = FIXED_MS + self._token_ms * work
        wall_ns = round(took_ms * MS * np.exp(self._random.normal(0, 0.03)))
        cost_ms = self._token_ms * (work - own.work)
        self.true_ms[own.trace_id] = self.true_ms.get(own.trace_id, 0.0) + cost_ms
        step = Step(kind="prefill", wall_ns=wall_ns, work=work, members=(own, *others))
        return Wait(trace_id=own.trace_id, step=step, held_up_ns=wall_ns)

    def _member(self, tenant: str) -> Member:
        self._made += 1
        tokens = int(self._random.integers(3_000, 9_000 if tenant == "batch" else 3_001))
        work = tokens if tenant == "batch" else int(self._random.integers(100, 500))
        labels: Labels = (("route", "POST /chat"), ("tenant", tenant))
        return Member(trace_id=f"{self._made:032x}", work=work, labels=labels)


def mean_ms(engine: Engine, waits: Mapping[str, Sequence[Wait]]) -> float:
    return float(np.mean([engine.true_ms[trace_id] for trace_id in waits]))


def found(tail: Waits, usual: Waits) -> Neighbours:
    answer = neighbours(tail, usual)
    assert answer is not None
    return answer


@pytest.mark.parametrize("seed", range(5))
def test_what_others_cost_is_what_steps_would_be_shorter_by(seed: int) -> None:
    engine = Engine(seed)
    tail, usual = engine.waits(60, 0.6), engine.waits(60, 0.05)

    answer = found(tail, usual)

    assert answer.tail_mean_ns == pytest.approx(mean_ms(engine, tail) * MS, rel=0.05)
    assert answer.reference_mean_ns == pytest.approx(mean_ms(engine, usual) * MS, rel=0.1)
    assert 0 < answer.low_ns < answer.tail_mean_ns - answer.reference_mean_ns < answer.high_ns
    assert answer.steps == 240


def test_the_tenant_whose_work_it_was_is_named_and_the_route_of_all_is_not() -> None:
    engine = Engine()

    answer = found(engine.waits(60, 0.5), engine.waits(60, 0.05))

    (culprit,) = answer.culprits
    assert (culprit.key, culprit.value) == ("tenant", "batch")
    assert culprit.cost_share_ratio > 0.85
    assert culprit.member_share_ratio == pytest.approx(0.5, abs=0.1)


def test_neighbours_that_bring_as_much_as_all_others_are_not_named() -> None:
    engine = Engine()

    answer = found(engine.waits(60, 0.0), engine.waits(60, 0.0))

    assert answer.low_ns < 0 < answer.high_ns
    assert answer.culprits == ()


def test_where_more_work_takes_no_longer_nobody_costs_anything() -> None:
    engine = Engine(token_ms=0.0)

    answer = found(engine.waits(60, 0.5), engine.waits(60, 0.05))

    assert (answer.tail_mean_ns, answer.reference_mean_ns, answer.culprits) == (0.0, 0.0, ())


def test_who_waited_for_half_of_a_step_is_charged_half() -> None:
    engine = Engine()
    tail, usual = engine.waits(60, 0.5), engine.waits(60, 0.05)
    half = {
        trace_id: [
            Wait(trace_id=trace_id, step=one.step, held_up_ns=one.held_up_ns // 2) for one in waits
        ]
        for trace_id, waits in tail.items()
    }

    assert found(half, usual).tail_mean_ns == pytest.approx(found(tail, usual).tail_mean_ns / 2)


def test_too_few_steps_or_requests_are_no_answer() -> None:
    engine = Engine()
    some = engine.waits(LEAST_REQUESTS, 0.5)
    free: Waits = {f"{number}": [] for number in range(LEAST_REQUESTS)}
    more = engine.waits(LEAST_STEPS, 0.5)

    assert neighbours(more, free) is not None
    assert neighbours(some, free) is None  # two steps each
    assert neighbours(more, engine.waits(LEAST_REQUESTS - 1, 0.5)) is None
    assert neighbours({}, {}) is None


def test_those_that_were_never_served_with_others_count_as_free() -> None:
    engine = Engine()
    alone: Waits = {f"{number}": [] for number in range(60)}

    assert found(engine.waits(60, 0.5), alone).reference_mean_ns == 0.0
