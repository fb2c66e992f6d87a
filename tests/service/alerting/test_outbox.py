"""Notifications are sent at least once, in order, however long a sink refuses."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from latencytrace.model import Alert
from latencytrace.service.alerting.outbox import Outbox
from latencytrace.service.objectives.memory import ObjectiveMemory
from latencytrace.service.sink import Notification
from tests.support.builders.made_objectives import SECOND_NS
from tests.support.builders.notices import LINKS, made_alert
from tests.support.builders.traffic import START_NS
from tests.support.fakes.contracts import FakeClock, RecordingSink
from tests.support.waiting import PATIENCE_S, until

ENDED_NS = START_NS + 300 * SECOND_NS
BEGAN, ENDED = made_alert(), made_alert(ended_ns=ENDED_NS)


class Rig:
    """An outbox with one sink, and a clock to move."""

    def __init__(self, folder: Path, sink: RecordingSink) -> None:
        self.folder = folder
        self.sink = sink
        self.clock = FakeClock(START_NS)
        self.start()

    def start(self) -> None:
        """Begin, as after a kill."""
        self.memory = ObjectiveMemory.open(self.folder, self.clock())
        self.outbox = Outbox(
            {"it": self.sink}, LINKS, self.memory, self.clock, self.clock, lambda: 1.0
        )

    def tell(self, *alerts: Alert, send: bool = True) -> None:
        """Keep and send, as the watch does."""
        notifications = self.outbox.notifications(alerts)
        self.memory.keep({}, {}, {}, notifications)
        self.outbox.add(notifications)
        if send:
            self.send()

    def send(self) -> int:
        """Send what is due; how many tries that took."""
        tries = 0
        while self.outbox.step("it"):
            tries += 1
        return tries

    def after(self, seconds: float) -> int:
        """Send what is due then."""
        self.clock.move_s(seconds)
        return self.send()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, RecordingSink())


def test_a_beginning_and_an_end_are_sent_once_each(rig: Rig) -> None:
    rig.tell(BEGAN)
    rig.tell(ENDED)

    assert rig.sink.keys() == ["began", "ended"]
    assert (rig.send(), rig.memory.notifications()) == (0, [])


def test_a_refused_notice_is_tried_again_at_ever_longer_intervals(rig: Rig) -> None:
    rig.sink.refuses = True
    rig.tell(BEGAN)
    tries = [rig.after(1) for _ in range(20)]

    assert [second for second, count in enumerate(tries, 1) if count] == [1, 3, 7, 15]


def test_the_longest_pause_is_five_minutes(rig: Rig) -> None:
    rig.sink.refuses = True
    rig.tell(BEGAN)
    for _ in range(15):
        rig.after(300)

    assert (rig.after(299), rig.after(1)) == (0, 1)


def test_a_receiver_is_left_alone_for_as_long_as_it_asks(rig: Rig) -> None:
    rig.sink.refuses, rig.sink.retry_after_s = True, 20
    rig.tell(BEGAN)
    rig.tell(made_alert("another"))
    tries = [rig.after(1) for _ in range(50)]

    assert [second for second, count in enumerate(tries, 1) if count] == [20, 40]


def test_no_receiver_is_left_alone_for_more_than_five_minutes(rig: Rig) -> None:
    rig.sink.refuses, rig.sink.retry_after_s = True, 86_400
    rig.tell(BEGAN)

    assert (rig.after(299), rig.after(1)) == (0, 1)


def test_a_short_pause_that_a_receiver_asks_for_shortens_no_other(rig: Rig) -> None:
    rig.sink.refuses, rig.sink.retry_after_s = True, 1
    rig.tell(BEGAN)
    tries = [rig.after(1) for _ in range(20)]

    assert [second for second, count in enumerate(tries, 1) if count] == [1, 3, 7, 15]


def test_an_end_waits_for_its_beginning(rig: Rig) -> None:
    rig.sink.refuses = True
    rig.tell(BEGAN)
    rig.tell(ENDED)
    rig.sink.refuses = False
    rig.after(60)

    assert rig.sink.keys() == ["began", "ended"]


def test_another_alert_does_not_wait_for_a_refused_one(rig: Rig) -> None:
    rig.sink.refuses = True
    rig.tell(BEGAN)
    rig.sink.refuses = False
    rig.tell(made_alert("another"))

    assert [notice.alert["labels"]["slo"] for notice in rig.sink.sent] == ["another"]


def test_what_was_not_sent_is_sent_after_a_restart(rig: Rig) -> None:
    rig.tell(BEGAN, send=False)
    rig.start()
    rig.send()
    rig.start()

    assert rig.sink.keys() == ["began"]
    assert rig.send() == 0


def test_the_same_notice_has_the_same_key_after_a_restart(rig: Rig) -> None:
    rig.tell(BEGAN, send=False)
    [before] = rig.memory.notifications()
    rig.start()
    rig.send()

    assert rig.sink.sent == [before]


def test_a_notice_is_given_up_after_a_day(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.sink.refuses = True
    rig.tell(BEGAN)
    rig.after(86_401)

    assert "given up after a day" in caplog.text
    assert (rig.outbox.dropped(), rig.memory.notifications()) == ({"it": 1}, [])


def test_no_more_than_a_thousand_notices_wait(rig: Rig) -> None:
    rig.tell(*(made_alert(f"slo-{number}") for number in range(1005)), send=False)

    assert rig.outbox.waiting() == {"it": 1000}
    assert len(rig.memory.notifications()) == 1000


def test_what_still_fires_is_sent_again_where_the_sink_wants_that(tmp_path: Path) -> None:
    rig = Rig(tmp_path, RecordingSink(repeat_s=60))
    rig.tell(BEGAN)
    for _ in range(13):
        rig.outbox.repeat([BEGAN])
        rig.after(10)

    assert rig.sink.keys() == ["began", "continues:1", "continues:2"]


def test_a_restart_repeats_nothing_before_its_time(tmp_path: Path) -> None:
    rig = Rig(tmp_path, RecordingSink(repeat_s=3600))
    rig.tell(BEGAN)
    rig.clock.move_s(3 * 3600 + 60)
    rig.start()
    rig.outbox.repeat([BEGAN])

    assert rig.send() == 0


def test_only_the_sinks_that_an_objective_names_are_told(tmp_path: Path) -> None:
    clock = FakeClock(START_NS)
    memory = ObjectiveMemory.open(tmp_path, clock())
    sinks = {"slack": RecordingSink(), "webhook": RecordingSink()}
    outbox = Outbox(sinks, LINKS, memory, clock, clock, lambda: 1.0)

    def receivers(*named: str) -> list[str]:
        alert = made_alert()
        objective = replace(alert.standing.objective, receivers=named)
        told = replace(alert, standing=replace(alert.standing, objective=objective))
        return [one.sink for one in outbox.notifications([told])]

    assert receivers("slack") == ["slack"]
    assert receivers() == ["slack", "webhook"]
    assert receivers("alertmanager") == ["slack", "webhook"]  # which is not there: all are told


def test_an_end_is_sent_as_often_as_the_sink_wants(tmp_path: Path) -> None:
    rig = Rig(tmp_path, RecordingSink(ends=3))
    rig.tell(ENDED)
    sent = [rig.after(30) for _ in range(6)]

    assert sent == [0, 1, 0, 1, 0, 0]
    assert rig.sink.keys() == ["ended", "ended:2", "ended:3"]


def test_copies_of_an_end_do_not_end_the_next_alert(tmp_path: Path) -> None:
    rig = Rig(tmp_path, RecordingSink(ends=3))
    rig.tell(ENDED)
    rig.tell(made_alert(started_ns=ENDED_NS + 1))
    rig.after(600)

    assert rig.sink.keys() == ["ended", "began"]


def test_a_fault_of_a_sink_is_a_refusal(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(RecordingSink):
        def send(self, notice: Notification, now_ns: int) -> None:
            raise KeyError(notice.sink, now_ns)

    rig.sink = Faulty()
    rig.start()
    rig.tell(BEGAN)

    assert "it: KeyError('it', " in caplog.text
    assert rig.outbox.waiting() == {"it": 1}


def test_notices_to_a_sink_that_is_gone_are_struck_off(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.tell(BEGAN, send=False)
    Outbox({}, LINKS, rig.memory, rig.clock, rig.clock, lambda: 1.0)

    assert rig.memory.notifications() == []
    assert "sinks that are gone" in caplog.text


def test_threads_send_what_is_added(rig: Rig) -> None:
    rig.outbox.start()
    rig.tell(BEGAN, send=False)
    until(lambda: rig.sink.keys() == ["began"])
    rig.outbox.close()

    assert rig.outbox.sent == {"it": 1}


def test_a_sink_that_hangs_delays_no_other(rig: Rig) -> None:
    let_go = threading.Event()

    class Hanging(RecordingSink):
        def send(self, notice: Notification, now_ns: int) -> None:
            let_go.wait(2 * PATIENCE_S)
            super().send(notice, now_ns)

    sinks = {"hangs": Hanging(), "it": rig.sink}
    outbox = Outbox(sinks, LINKS, rig.memory, rig.clock, rig.clock, lambda: 1.0)
    outbox.start()
    outbox.add(outbox.notifications([BEGAN]))
    until(lambda: rig.sink.keys() == ["began"])
    waiting = outbox.waiting()
    let_go.set()
    outbox.close()

    assert waiting["hangs"] == 1


def test_an_amendment_goes_to_those_who_were_told_of_the_beginning(rig: Rig) -> None:
    other = RecordingSink()
    outbox = Outbox(
        {"it": rig.sink, "other": other}, LINKS, rig.memory, rig.clock, rig.clock, lambda: 1.0
    )
    objective = replace(BEGAN.standing.objective, receivers=("it",))
    alert = replace(BEGAN, standing=replace(BEGAN.standing, objective=objective))

    told = outbox.notifications([alert], [alert])
    assert {one.sink for one in told} == {"it"}
    assert len(told) == 2


@pytest.mark.parametrize("is_over", [True, False])
def test_a_receiver_that_was_away_for_an_hour_is_reported_in_order_and_once(
    tmp_path: Path, *, is_over: bool
) -> None:
    rig = Rig(tmp_path, RecordingSink(repeat_s=60, ends=3))
    rig.sink.refuses = True
    rig.tell(BEGAN)
    for minute in range(60):
        rig.after(60)
        rig.outbox.repeat([] if is_over and minute > 20 else [BEGAN])
        if is_over and minute == 20:
            rig.tell(ENDED)
    waiting = rig.outbox.waiting()["it"]
    rig.sink.refuses = False
    rig.after(300)
    rig.outbox.repeat([] if is_over else [BEGAN])
    rig.send()

    assert waiting == (4 if is_over else 1)
    back = ["ended", "ended:2", "ended:3"] if is_over else ["continues:65"]
    assert rig.sink.keys() == ["began", *back]
