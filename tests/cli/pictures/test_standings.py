"""`latencytrace objectives` of a service that runs."""

import json
from dataclasses import replace
from typing import cast

from latencytrace.cli.pictures.standings import NONE_WATCHED, picture
from latencytrace.model import Calendar
from latencytrace.model.objective import EACH_ROUTE
from latencytrace.service.alerting.document import objective_document
from latencytrace.service.alerting.text import description
from latencytrace.service.answers.documents import ObjectiveDocument
from latencytrace.service.objectives.alerts import first_standing
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.made_requests import TRACE
from tests.support.builders.notices import made_alert
from tests.support.servers.recording_api import RecordingApi, recording_api
from tests.support.terminal import said

__all__ = ["recording_api"]
TIMES = "\N{MULTIPLICATION SIGN}"


def test_it_shows_how_objectives_stand_and_what_fires(recording_api: RecordingApi) -> None:
    assert said("objectives", "--url", recording_api.url).splitlines() == [
        "chat-e2e  99 % under 2 s",
        "99 % of rag · POST /chat: duration within 2.00 s, over 30 d",
        "100 requests, 20 bad; budget left: 80.0 %, runs out in 1 h 00 min at this rate",
        "alert  threshold  long window  now  short window  now",
        "page       14.4X          1 h  20X         5 min  30X  firing".replace("X", TIMES),
        "",
        "page since 2025-11-21 01:53:20 UTC",
        (
            "  chat-e2e: 20.0 % of POST /chat took over 2.00 s or failed in the last 1 h, "
            "burning budget 20\N{MULTIPLICATION SIGN} too fast"
        ),
        "  Since about 2025-11-21 01:43:20 UTC.",
        "  Budget left: 80.0 % of 30 d, runs out in 1 h 00 min at this rate.",
        "  Slow stage: retrieve, 1.00 s more than in good requests, 90.0 % of the extra time.",
        "  Who: instance rag-2, 90.0 % of bad requests, 30.0 % of good ones.",
        "  Who: version 1.0 <beta>, 80.0 % of bad requests, 30.0 % of good ones.",
        f"  latencytrace acknowledge {made_alert().fingerprint[:8]}",
        *[f"  latencytrace trace {TRACE}  3.00 s (ok), retrieve 2.00 s"] * 3,
        (
            "  http://127.0.0.1:8321/breakdown?service=rag&route=POST+%2Fchat"
            "&since=2025-11-21T00%3A38%3A20Z"
        ),
        "",
        "Budget left counts time without requests as equally busy, and all good.",
        "1 objective. 1 alert firing.",
    ]


def test_a_burn_that_does_not_alert_yet_says_what_it_takes() -> None:
    document = objective_document(made_alert().standing)
    quiet = [{**rate, "firing": False} for rate in document["burn_rates"]]
    slow = [{**rate, "long": 14.0} for rate in quiet]
    said_of = [
        "\n".join(
            str(part) for part in picture([cast(ObjectiveDocument, {**document, **rates})], [])
        )
        for rates in ({"burn_rates": quiet}, {"burn_rates": slow}, {})
    ]

    assert (
        f"No alert yet: at 20{TIMES} it takes 43 min 12 s of such requests, and enough"
        in said_of[0]
    )
    assert not any("No alert yet" in other for other in said_of[1:])


def test_a_calendars_budget_is_told_with_the_beginning_of_its_period() -> None:
    monthly = Calendar(start="2026-01-01T00:00:00", zone="UTC", months=1)
    standing = replace(
        made_alert().standing,
        objective=made_objective(calendar=monthly),
        budget_since_ns=1_761_955_200 * 10**9,
    )
    document = objective_document(standing)
    drawn = [str(part) for part in picture([document], [])]

    assert (
        "99 % of rag · POST /chat: duration within 2.00 s, "
        "over the calendar's period since 2025-11-01 00:00:00 UTC"
    ) in drawn
    assert "Budget left: 80.0 % of this calendar month" in "\n".join(
        description(replace(made_alert(), standing=standing))
    )


def test_one_of_each_route_is_shown_before_its_first_request() -> None:
    standing = first_standing(made_objective(route=EACH_ROUTE), 0)
    drawn = [str(part) for part in picture([objective_document(standing)], [])]

    assert "no request yet; each route is shown here from its first one on" in drawn
    assert drawn[-2:] == ["", "1 objective. No alert firing."]


def test_where_none_is_watched_the_way_to_one_is_told() -> None:
    assert picture([], []) == [NONE_WATCHED]


def test_as_json_it_is_the_documents_of_the_api(recording_api: RecordingApi) -> None:
    document = json.loads(said("objectives", "--url", recording_api.url, "--json"))

    assert document["objectives"][0]["name"] == "chat-e2e"
    assert document["alerts"][0]["guilty"]["stage"] == "retrieve"
    assert recording_api.asked[1:] == [("/api/v1/objectives", {}), ("/api/v1/alerts", {})]


def test_an_objective_of_a_route_that_nobody_has_says_which_there_are(
    recording_api: RecordingApi,
) -> None:
    recording_api.promised = made_alert(route="POST /chatt", requests=0)

    assert said("objectives", "--url", recording_api.url).splitlines()[-1] == (
        "chat-e2e has no request. No route is called 'POST /chatt'. There are: POST /chat."
    )
