"""A cohort by a label or an attribute, and routes whose connections stay open."""

import pytest

from latencytrace.errors import NotFoundError, QuestionError
from latencytrace.model import Request, RequestStatus, Stage
from latencytrace.service.answers.groups import attribute_keys, groups
from latencytrace.service.answers.overview_documents import overview
from latencytrace.service.cohort import Cohort
from tests.support.builders.listed_requests import Listed
from tests.support.builders.made_requests import START_NS, made_request

SECOND_NS = 10**9
COHORT = Cohort(since_ns=START_NS)
NOW_NS = START_NS + 3600 * SECOND_NS


def of(tenant: str | None, duration_ns: int = 100, **more: object) -> Request:
    attributes = () if tenant is None else (("tenant", tenant), ("tier", "gold"))
    return made_request(duration_ns, None, attributes=attributes, **more)


def test_each_value_has_its_share_and_the_rows_add_up() -> None:
    store = Listed(
        [of("acme", 300), of("acme", 100, status=RequestStatus.ERROR), of("globex", 50), of(None)]
    )

    found = groups(store, COHORT, "tenant", NOW_NS, 1)

    assert [(one["value"], one["requests"], one["failed"]) for one in found["groups"]] == [
        ("acme", 2, 1)
    ]
    assert found["others"] is not None
    assert found["without"] is not None
    assert (found["others"]["requests"], found["other_values"]) == (1, 1)
    assert found["without"]["requests"] == 1
    assert found["requests"] == 4
    assert found["groups"][0]["share_ratio"] == 0.5


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("tennant", "none of 2 requests has the attribute 'tennant'; nearest: tenant"),
        ("zzz", "none of 2 requests has the attribute 'zzz'; most have: tenant, tier"),
    ],
)
def test_of_an_attribute_that_no_request_has_the_nearest_names_are_said(
    by: str, said: str
) -> None:
    store = Listed([of("acme"), of("globex")])

    with pytest.raises(NotFoundError, match=said):
        groups(store, COHORT, by, NOW_NS)


def test_where_no_request_has_any_attribute_labels_are_offered() -> None:
    with pytest.raises(NotFoundError, match="nor any other: group by service, route, model"):
        groups(Listed([of(None)]), COHORT, "tenant", NOW_NS)


def test_without_requests_there_are_no_rows() -> None:
    found = groups(Listed([]), COHORT, "tenant", NOW_NS)

    assert (found["requests"], found["groups"], found["others"]) == (0, [], None)


def test_a_label_that_no_request_has_is_one_row() -> None:
    found = groups(Listed([of("acme", model=None)]), COHORT, "model", NOW_NS)

    assert found["groups"] == []
    assert found["without"] is not None
    assert found["without"]["requests"] == 1


def test_labels_are_known_by_the_names_of_the_conventions() -> None:
    store = Listed([of("acme", version="2"), of("acme", version="3")])

    found = groups(store, COHORT, "service.version", NOW_NS)

    assert (found["by"], {one["value"] for one in found["groups"]}) == ("version", {"2", "3"})


def test_what_is_no_attribute_is_refused() -> None:
    with pytest.raises(QuestionError, match="not kept as an attribute"):
        groups(Listed([of("acme")]), COHORT, "url.path", NOW_NS)


def test_attributes_are_counted_by_request() -> None:
    store = Listed([of("acme"), of(None), of("globex")])

    found = attribute_keys(store, COHORT)

    assert found["attributes"] == [
        {"key": "tenant", "requests": 2},
        {"key": "tier", "requests": 2},
    ]


def test_connections_that_stay_open_come_after_routes_that_answer() -> None:
    store = Listed(
        [
            made_request(3 * SECOND_NS),
            made_request(
                stages={Stage.UNATTRIBUTED: 600 * SECOND_NS, Stage.RESPOND: SECOND_NS},
                route="GET /heartbeat",
            ),
            made_request(stages={Stage.DECODE: 60 * SECOND_NS}, route="POST /long"),
            made_request(60 * SECOND_NS, route="POST /streamed", time_to_first_token_ns=SECOND_NS),
        ]
    )

    found = overview(store, COHORT, NOW_NS)["routes"]

    assert [(one["route"], one["long_lived"]) for one in found] == [
        ("POST /long", False),
        ("POST /streamed", False),
        ("POST /chat", False),
        ("GET /heartbeat", True),
    ]
