"""What the load generator sends."""

from latencytrace.cli.load_test.generator import generate
from latencytrace.cli.load_test.plan import Step
from latencytrace.cli.load_test.record import LoadRecord
from latencytrace.cli.load_test.target import Target
from tests.support.servers.recording import RecordingServer


def test_paths_and_bodies_are_sent_in_turn() -> None:
    record = LoadRecord()
    step = Step(rate_per_s=1, warm_up_due_ns=(), due_ns=tuple(range(6)), length_ns=6)
    with RecordingServer() as server:
        target = Target(
            url=server.url,
            method="POST",
            headers={},
            bodies=[b"1", b"2", b"3"],
            timeout_s=50,
            max_in_flight=6,
            paths=["/a", "/b"],
        )
        generate(target, [step], None, record, lambda _: None)

    sent = sorted((received.path, received.body) for received in server.received)
    assert sent == [(path, body) for path in ("/a", "/b") for body in (b"1", b"2", b"3")]
    assert record.steps[0].failed == 0
