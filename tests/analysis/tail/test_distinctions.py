"""What is said to set bad requests apart."""

from latencytrace.analysis.tail.distinctions import Traits, distinctions, traits_of
from latencytrace.model import RequestStatus
from tests.support.builders.made_requests import made_request


def test_an_instance_that_most_bad_requests_share_sets_them_apart() -> None:
    bad = [{"instance": "rag-2"}] * 18 + [{"instance": "rag-1"}] * 2
    good = [{"instance": "rag-1"}] * 15 + [{"instance": "rag-2"}] * 5

    [found] = distinctions(bad, good)
    assert (found.trait, found.value) == ("instance", "rag-2")
    assert (found.bad_ratio, found.good_ratio) == (0.9, 0.25)


def test_more_tokens_than_good_requests_have_set_bad_ones_apart() -> None:
    bad = [{"input_tokens": 8000}] * 20
    good = [{"input_tokens": number * 10} for number in range(1, 101)]

    [found] = distinctions(bad, good)
    assert (found.trait, found.value, found.bad_ratio) == ("input_tokens", "over 900", 1)
    assert found.good_ratio == 0.1


def test_what_good_requests_have_as_often_says_nothing() -> None:
    requests: list[Traits] = [
        {"instance": "rag-1", "input_tokens": number} for number in range(20)
    ]

    assert distinctions(requests, requests) == ()


def test_of_a_few_requests_nothing_is_said() -> None:
    assert distinctions([{"instance": "a"}] * 9, [{"instance": "b"}] * 100) == ()


def test_the_strongest_three_are_said() -> None:
    bad = [{"instance": "a", "version": "2", "model": "m", "route": "r"}] * 20
    good = [{"instance": "b", "version": "1", "model": "m", "route": "s"}] * 20
    good += [{"instance": "b", "version": "2", "model": "n", "route": "s"}] * 20

    assert [one.trait for one in distinctions(bad, good)] == ["instance", "route", "version"]


def test_what_is_unknown_of_a_request_is_no_trait() -> None:
    traits = traits_of(made_request(model=None, status=RequestStatus.ERROR))

    assert "model" not in traits
    assert traits["status"] == "error"


def test_names_are_fit_to_be_shown() -> None:
    traits = traits_of(made_request(instance="rag\x1b[2J\n1", version="9" * 500))

    assert traits["instance"] == "rag?[2J?1"
    assert traits["version"] == "9" * 100
