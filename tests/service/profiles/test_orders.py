"""Agents are ordered to take profiles, which are kept."""

import gzip
import json
from pathlib import Path

import pytest

from latencytrace.errors import NotFoundError, ProfileError, StoreError
from latencytrace.model.profile import ProfileOrder, ProfilerState, ProfilingAgent
from latencytrace.service.alerting.document import AlertLinks, alert_document
from latencytrace.service.profiles.folder import ProfileFolder
from latencytrace.service.profiles.orders import Profile, Profiles
from tests.support.builders.notices import made_alert
from tests.support.fakes.contracts import FakeClock

TRACE = gzip.compress(b'{"traceEvents": []}')
ABOUT = {
    "service": "rag",
    "instance": "a",
    "began": "1000",
    "ended": "3000",
    "steps": 10,
    "ended_by": "steps",
    "held_ns": 500,
    "with_gpu": False,
    "torch": "2.13",
    "trace_ids": ["f" * 32],
}


class Service:
    """The part of a service that profiles are asked of."""

    def __init__(self, folder: Path, *, on_alert: bool = False, most: int = 20) -> None:
        self.clock = FakeClock(1_000_000_000_000)
        self.folder = folder
        kept = ProfileFolder(folder, most=most)
        self.profiles = Profiles(kept, self.clock, self.clock, on_alert=on_alert)

    def post(
        self,
        instance: str = "a",
        service: str = "rag",
        state: ProfilerState = ProfilerState.READY,
        profile_id: str | None = None,
    ) -> ProfileOrder | None:
        """An agent posts spans; the order that it gets."""
        phase = None if profile_id is None else "recording"
        agent = ProfilingAgent(
            service=service, instance=instance, state=state, profile_id=profile_id, phase=phase
        )
        header = self.profiles.received(agent.header())
        return None if header is None else ProfileOrder.parse(header)

    def ask(self, service: str | None = "rag") -> Profile:
        """Somebody wants one."""
        return self.profiles.ask(service, steps=10, seconds=2.0)

    def send(self, profile_id: str, about: object = ABOUT, packed: bytes = TRACE) -> None:
        """An agent sends what it took."""
        self.clock.move_s(1)
        self.profiles.take(profile_id, json.dumps(about).encode() + b"\n" + packed)


@pytest.fixture
def service(tmp_path: Path) -> Service:
    served = Service(tmp_path / "profiles")
    served.post()
    return served


def test_the_first_process_of_the_service_that_posts_is_told(service: Service) -> None:
    asked = service.ask()

    assert service.post(service="other") is None
    assert service.post("b") == ProfileOrder(profile_id=asked.id, steps=10, seconds=2.0)
    assert service.post("a") is None
    assert service.profiles.one(asked.id).instance == "b"


def test_an_answer_that_was_lost_is_given_again(service: Service) -> None:
    asked = service.ask()
    service.post()

    again = service.post()

    assert again is not None
    assert again.profile_id == asked.id


def test_what_it_does_is_known_by_its_posts(service: Service) -> None:
    asked = service.ask()
    service.post()

    assert service.post(state=ProfilerState.BUSY, profile_id=asked.id) is None
    assert service.profiles.one(asked.id).phase == "recording"


def test_one_whose_upload_was_lost_is_given_up(service: Service) -> None:
    asked = service.ask()
    service.post()
    service.post(state=ProfilerState.BUSY, profile_id=asked.id)

    assert service.post() is None
    assert service.profiles.one(asked.id).state == "refused"


def test_what_was_sent_is_kept_and_found_by_its_requests(service: Service) -> None:
    asked = service.ask()
    service.post()

    service.send(asked.id)

    found = service.profiles.one(asked.id)
    assert (found.state, found.steps, found.bytes) == ("kept", 10, len(TRACE))
    assert service.profiles.trace(asked.id) == TRACE
    assert service.profiles.of_trace("f" * 32) == [asked.id]
    assert service.profiles.of_trace("e" * 32) == []


def test_it_is_still_known_after_a_restart(service: Service) -> None:
    asked = service.ask()
    service.send(asked.id)

    restarted = Service(service.folder)

    assert restarted.profiles.one(asked.id) == service.profiles.one(asked.id)
    assert restarted.profiles.trace(asked.id) == TRACE


@pytest.mark.parametrize(
    "torn",
    [b"", b"{", b"[]", b'{"id": 1}', b'{"id": "x", "trace_ids": 5, "asked": "1", "service": 1}'],
)
def test_a_torn_file_is_left_out(service: Service, torn: bytes) -> None:
    asked = service.ask()
    service.send(asked.id)
    (service.folder / f"{asked.id}.about.json").write_bytes(torn)

    assert Service(service.folder).profiles.all() == []


def test_the_oldest_make_room(tmp_path: Path) -> None:
    service = Service(tmp_path / "profiles", most=2)
    service.post()
    ids = []
    for _ in range(3):
        ids.append(service.ask().id)
        service.send(ids[-1])

    assert [one.id for one in Service(service.folder).profiles.all()] == [ids[2], ids[1]]
    with pytest.raises(NotFoundError, match="has been deleted"):
        service.profiles.trace(ids[0])


def test_two_at_once_are_not_asked_for(service: Service) -> None:
    asked = service.ask()

    with pytest.raises(ProfileError, match=f"a profile is under way: {asked.id}"):
        service.ask()


def test_one_that_is_cancelled_is_told_to_nobody(service: Service) -> None:
    asked = service.ask()

    service.profiles.cancel(asked.id)

    assert service.post() is None
    with pytest.raises(NotFoundError, match="was given up"):
        service.send(asked.id)
    service.ask()


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (ProfilerState.NO_TORCH, "no torch is loaded there"),
        (ProfilerState.OFF, "LATENCYTRACE_PROFILE=0"),
    ],
)
def test_who_can_take_none_is_not_asked(tmp_path: Path, state: ProfilerState, why: str) -> None:
    service = Service(tmp_path)
    service.post(state=state)

    with pytest.raises(ProfileError, match=why):
        service.ask()


def test_nobody_is_asked_where_nobody_is_heard_of(service: Service) -> None:
    with pytest.raises(ProfileError, match="no process of 'other' has posted"):
        service.ask("other")
    service.clock.move_s(100)
    with pytest.raises(ProfileError, match="has posted"):
        service.ask(None)


def test_one_that_nobody_takes_is_given_up(service: Service) -> None:
    asked = service.ask()

    service.clock.move_s(601)

    assert service.profiles.one(asked.id).phase == "no process took it"


def test_a_process_that_dies_with_it_is_not_waited_for(service: Service) -> None:
    asked = service.ask()
    service.post()

    service.clock.move_s(301)

    assert service.profiles.one(asked.id).phase == "its process fell silent"


def test_why_an_agent_took_none_is_said(service: Service) -> None:
    asked = service.ask()
    service.post()

    service.send(asked.id, {"refused": "the program profiles itself"}, b"")

    with pytest.raises(NotFoundError, match="the program profiles itself"):
        service.profiles.trace(asked.id)


@pytest.mark.parametrize("body", [b"", b"\n", b"[]\n", b"{}\nno gzip", b"x" * 100_000 + b"\n"])
def test_what_is_no_profile_is_refused(service: Service, body: bytes) -> None:
    asked = service.ask()

    with pytest.raises(ProfileError, match="a line of JSON"):
        service.profiles.take(asked.id, body)


def test_an_empty_profile_is_none(service: Service) -> None:
    asked = service.ask()

    service.send(asked.id, {}, b"")

    assert service.profiles.one(asked.id).phase == "nothing was sent"


def test_values_of_other_types_are_unknown(service: Service) -> None:
    asked = service.ask()

    service.send(asked.id, {**ABOUT, "steps": "many", "began": 5, "trace_ids": {"a": 1}})

    found = service.profiles.one(asked.id)
    assert (found.steps, found.began, found.trace_ids) == (None, None, ())


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "profiles").write_text("no folder")
    service = Service(tmp_path / "profiles")
    service.post()
    asked = service.ask()

    with pytest.raises(StoreError, match="cannot be kept"):
        service.send(asked.id)

    assert service.profiles.one(asked.id).state == "refused"
    assert "cannot be kept" in service.profiles.one(asked.id).phase


def test_an_alert_has_one_taken_and_links_to_it(tmp_path: Path) -> None:
    service = Service(tmp_path, on_alert=True)
    service.post()
    alert = made_alert()
    links = AlertLinks(
        service="http://lt:8321", dashboard=None, is_profile=service.profiles.is_known
    )

    service.profiles.alerted([alert])

    order = service.post()
    assert order is not None
    assert (order.profile_id, order.triggered) == (alert.fingerprint, True)
    document = alert_document(alert, links)
    assert document["profile_url"] == (f"http://lt:8321/api/v1/profiles/{alert.fingerprint}/trace")
    assert document["description"][-1].endswith(document["profile_url"])


def test_a_second_alert_within_ten_minutes_has_none_taken(tmp_path: Path) -> None:
    service = Service(tmp_path, on_alert=True)
    service.post()
    first, second = made_alert("one"), made_alert("two")
    service.profiles.alerted([first])
    service.send(first.fingerprint)
    service.clock.move_s(500)
    service.post()

    service.profiles.alerted([second])

    assert not service.profiles.is_known(second.fingerprint)
    service.clock.move_s(101)
    service.post()
    service.profiles.alerted([second])
    assert service.profiles.is_known(second.fingerprint)


@pytest.mark.parametrize("on_alert", [True, False], ids=["an_end", "not_wanted"])
def test_neither_an_end_nor_an_unwanted_one_asks(tmp_path: Path, on_alert: bool) -> None:
    service = Service(tmp_path, on_alert=on_alert)
    service.post()

    service.profiles.alerted([made_alert(ended_ns=2**62 if on_alert else None)])

    assert service.profiles.all() == []
