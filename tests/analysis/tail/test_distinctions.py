"""What is said to set bad requests apart."""

from collections.abc import Sequence

from latencytrace.analysis.tail.distinctions import distinctions
from latencytrace.model import Request, RequestStatus, semconv
from tests.support.builders.made_requests import made_request


def many(count: int, **fields: object) -> list[Request]:
    return [
        made_request(start_ns=1_000 * place, **fields)  # type: ignore[arg-type] # any field
        for place in range(count)
    ]


def named(bad: Sequence[Request], good: Sequence[Request]) -> list[tuple[str, str]]:
    return [(one.trait, one.value) for one in distinctions(bad, good)]


def test_an_instance_that_most_bad_requests_share_sets_them_apart() -> None:
    bad = many(36, instance="rag-2") + many(4, instance="rag-1")
    good = many(45, instance="rag-1") + many(15, instance="rag-2")

    [found] = distinctions(bad, good)
    assert (found.trait, found.value) == ("instance", "rag-2")
    assert (found.bad_ratio, found.good_ratio) == (0.9, 0.25)


def test_an_attribute_that_most_bad_requests_share_sets_them_apart() -> None:
    bad = many(40, attributes=(("tenant", "globex"),), version="2")
    good = many(60, attributes=(("tenant", "acme"),), version="2")

    assert named(bad, good) == [("tenant", "globex")]


def test_more_tokens_than_good_requests_have_set_bad_ones_apart() -> None:
    bad = many(40, input_tokens=8000)
    good = [
        made_request(start_ns=n, input_tokens=number * 10) for n, number in enumerate(range(100))
    ]

    [(trait, value)] = named(bad, good)
    assert trait == "input_tokens"
    assert value.startswith("over ")


def test_what_good_requests_have_as_often_says_nothing() -> None:
    requests = [made_request(start_ns=number, input_tokens=number) for number in range(40)]

    assert distinctions(requests, requests) == ()


def test_what_chance_explains_says_nothing() -> None:
    bad = many(5, instance="rag-2") + many(5, instance="rag-1")
    good = many(4, instance="rag-2") + many(16, instance="rag-1")

    assert distinctions(bad, good) == ()


def test_of_a_few_requests_nothing_is_said() -> None:
    assert distinctions(many(9, instance="a"), many(100, instance="b")) == ()


def test_the_strongest_three_are_said() -> None:
    bad = many(40, instance="a", version="2", model="m", route="r")
    good = many(40, instance="b", version="1", model="m", route="s")
    good += many(40, instance="b", version="2", model="n", route="s")

    assert [one.trait for one in distinctions(bad, good)] == ["instance", "route", "version"]


def test_that_requests_failed_does_not_set_them_apart() -> None:
    code = ((semconv.HTTP_RESPONSE_STATUS_CODE, "500"), (semconv.ERROR_TYPE, "KeyError"))
    bad = many(40, status=RequestStatus.ERROR, attributes=code)

    assert distinctions(bad, many(60)) == ()


def test_names_are_fit_to_be_shown() -> None:
    bad = many(40, instance="rag\x1b[2J\n1", version="9" * 500)

    assert sorted(named(bad, many(60))) == [("instance", "rag?[2J?1"), ("version", "9" * 100)]
