"""The cases that Jaeger and CRISP describe: ours is equal, or differs by what the rule says.

Written from the descriptions of Jaeger's critical path (its tests draw them as boxes of spans
A, B, C …) and of CRISP's paper (section 3: the last finishing child, then who finished before
it started). Root spans are moved to begin at 0.
"""

from latencytrace.analysis.critical_path import critical_path
from tests.trees import request, span, stretches


def test_jaeger_two_children_one_after_the_other() -> None:
    path = critical_path(request(span("D", 19, 39), span("E", 49, 59)))

    assert stretches(path) == [
        ("root", 0, 19),
        ("D", 19, 39),
        ("root", 39, 49),
        ("E", 49, 59),
        ("root", 59, 100),
    ]


def test_jaeger_leaves_the_start_of_an_overlapping_child_to_the_parent_and_we_do_not() -> None:
    path = critical_path(request(span("A", 9, 49), span("C", 19, 59)))

    # Jaeger: root to 19, C to 59, root. A was running from 9 on.
    assert stretches(path) == [("root", 0, 9), ("A", 9, 19), ("C", 19, 59), ("root", 59, 100)]


def test_jaeger_a_child_that_outlives_its_parent_is_cut_off() -> None:
    path = critical_path(request(span("B", 14, 134)))

    assert stretches(path) == [("root", 0, 14), ("B", 14, 100)]


def test_jaeger_a_child_that_starts_after_its_parent_is_left_out() -> None:
    path = critical_path(request(span("B", 114, 134)))

    assert stretches(path) == [("root", 0, 100)]


def test_jaeger_a_child_that_starts_before_its_parent_is_cut_off() -> None:
    path = critical_path(request(span("B", -10, 40), span("C", -20, 20, parent="B")))

    assert stretches(path) == [("C", 0, 20), ("B", 20, 40), ("root", 40, 100)]


def test_jaeger_a_grandchild_that_outlives_both_is_cut_off_at_the_nearest() -> None:
    path = critical_path(request(span("B", 10, 60), span("C", 20, 160, parent="B")))

    assert stretches(path) == [("root", 0, 10), ("B", 10, 20), ("C", 20, 60), ("root", 60, 100)]


def test_jaeger_loses_a_child_that_ends_as_its_sibling_starts_and_we_do_not() -> None:
    path = critical_path(request(span("B", 10, 50), span("C", 50, 90)))

    # Jaeger, which asks for an end before the start: root to 50, C to 90, root.
    assert stretches(path) == [("root", 0, 10), ("B", 10, 50), ("C", 50, 90), ("root", 90, 100)]


def test_crisp_of_parallel_children_the_last_finishing_one_is_followed() -> None:
    path = critical_path(request(span("B", 10, 40), span("C", 10, 70)))

    assert stretches(path) == [("root", 0, 10), ("C", 10, 70), ("root", 70, 100)]


def test_crisp_then_the_one_that_finished_last_before_it_started() -> None:
    path = critical_path(
        request(span("B", 5, 20), span("C", 5, 45), span("D", 50, 80), span("E", 50, 90))
    )

    assert stretches(path) == [
        ("root", 0, 5),
        ("C", 5, 45),
        ("root", 45, 50),
        ("E", 50, 90),
        ("root", 90, 100),
    ]


def test_crisp_within_a_child_the_same_again() -> None:
    path = critical_path(
        request(
            span("B", 10, 80),
            span("C", 20, 40, parent="B"),
            span("D", 45, 70, parent="B"),
            span("E", 15, 60, parent="B"),
        )
    )

    # CRISP: B to 20, C to 40, B to 45, D … E, which it skips, ran beside these gaps.
    assert stretches(path) == [
        ("root", 0, 10),
        ("B", 10, 15),
        ("E", 15, 20),
        ("C", 20, 40),
        ("E", 40, 45),
        ("D", 45, 70),
        ("B", 70, 80),
        ("root", 80, 100),
    ]
