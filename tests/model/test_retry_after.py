"""The pause that `Retry-After` asks for."""

import pytest

from latencytrace.model.texts.retry_after import retry_after_s

NOW = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("20", 20),
        ("0", 0),
        ("Sun, 06 Nov 1994 08:50:07 GMT", 30),
        ("Sun, 06 Nov 1994 08:49:07 GMT", 0),
        ("Sunday, 06-Nov-94 08:50:07 GMT", 30),
        ("Sun Nov  6 08:50:07 1994", 30),
        ("-1", None),
        ("1.5", None),
        ("9" * 10, None),
        ("soon", None),
        ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ("", None),
    ],
)
def test_the_pause_that_an_answer_asks_for_is_seconds_or_a_moment(
    asked: str, seconds: float | None
) -> None:
    assert retry_after_s(asked, NOW) == seconds


def test_a_moment_without_the_answers_own_says_nothing() -> None:
    assert retry_after_s(NOW, "") is None


def test_a_moment_is_held_against_the_answers_clock_before_our_own() -> None:
    later = "Sun, 06 Nov 1994 08:50:07 GMT"
    now_ns = 784_111_800 * 10**9  # 08:50:00

    assert retry_after_s(later, NOW, now_ns) == 30
    assert retry_after_s(later, "", now_ns) == 7
