"""Counts of what was mended are bounded, however many send it."""

from collections import Counter

from latencytrace.service.metrics.cohorts import OVERFLOW
from latencytrace.service.metrics.telemetry import MAX_SENDERS, Telemetry
from latencytrace.service.otlp.mending.account import Mend


def test_senders_of_bad_values_are_named_up_to_a_bound() -> None:
    telemetry = Telemetry()

    for number in range(10 * MAX_SENDERS):
        telemetry.mended(Counter({Mend.TEXT: 2}), [f"service-{number}"])

    [posts] = (one for one in telemetry.registry.collect() if one.name.endswith("_mended_posts"))
    by_service = {sample.labels["service"]: sample.value for sample in posts.samples}
    assert len(by_service) == MAX_SENDERS + 1
    assert by_service[OVERFLOW] == 9 * MAX_SENDERS
    assert sum(by_service.values()) == 10 * MAX_SENDERS
