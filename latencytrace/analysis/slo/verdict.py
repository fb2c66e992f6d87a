"""The verdict on one request: whether it met an objective."""

from typing import assert_never

from latencytrace.model import Measure, Objective, Request, RequestStatus


def is_good(objective: Objective, request: Request) -> bool | None:
    """Judge a request of the objective's cohort.

    What fails is bad however fast it failed, or an outage would look like speed. A
    client that gives up before the threshold says nothing about us.

    Returns:
        None: it is not counted: it was cancelled in time, or has nothing of
        what is measured.
    """
    value_ns = measured_ns(objective, request)
    match request.status:
        case RequestStatus.OK:
            return None if value_ns is None else value_ns <= objective.threshold_ns
        case RequestStatus.CANCELLED:
            return _cancelled_is_good(objective, request, value_ns)
        case RequestStatus.ERROR | RequestStatus.TIMEOUT | RequestStatus.REJECTED:
            # A failed request that never came to the stage says nothing about it.
            absent = objective.measure is Measure.STAGE and value_ns is None
            return None if absent else False
        case unknown:
            assert_never(unknown)


def measured_ns(objective: Objective, request: Request) -> int | None:
    """Return how long what is measured took; None: the request has nothing of it."""
    match objective.measure:
        case Measure.DURATION:
            return request.duration_ns
        case Measure.UNTIL_IDLE:
            return request.duration_ns + request.after_ns
        case Measure.TIME_TO_FIRST_TOKEN:
            return request.time_to_first_token_ns
        case Measure.TIME_PER_OUTPUT_TOKEN:
            return request.time_per_output_token_ns
        case Measure.STAGE:
            return None if objective.stage is None else request.ledger.get(objective.stage)
        case unknown:
            assert_never(unknown)


def _cancelled_is_good(
    objective: Objective, request: Request, value_ns: int | None
) -> bool | None:
    if objective.measure is Measure.UNTIL_IDLE:
        return None if value_ns is None or value_ns <= objective.threshold_ns else False
    if objective.measure is Measure.DURATION or (
        objective.measure is Measure.TIME_TO_FIRST_TOKEN and value_ns is None
    ):
        # It waited this long and got nothing more: bad once that is past the threshold.
        return None if request.duration_ns <= objective.threshold_ns else False
    if value_ns is None:
        return None
    if value_ns > objective.threshold_ns:
        return False
    return None if objective.measure is Measure.STAGE else True  # a stage may be cut short
