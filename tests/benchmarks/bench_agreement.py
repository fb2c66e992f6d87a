"""Whether metrics, breakdowns and the store agree with what stock exporters sent.

    python tests/benchmarks/bench_agreement.py [REQUESTS] [PER_S]

Two and three services in processes of their own, with the SDK's own schedule of 5 s, started
seconds apart; the service with its own times. Every request is compared to the nanosecond, and
every bucket. With `LATENCYTRACE_SETTLE=0` beside it, to see what counting at once would cost.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.programs.agreement import (
    SDK_SCHEDULE_MS,
    Sent,
    System,
    disagreements,
    sent_by,
    told_by,
    wait_until_counted,
)
from tests.support.servers.running_service import RunningService

BY_DEFAULT = "10"  # LATENCYTRACE_SETTLE
APART_S = 1.7


def say(line: str) -> None:
    """Print it at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(services: Sequence[str], settle_s: str, requests: int, per_s: float) -> list[str]:
    """Serve, compare, and say how it went."""
    system = System(services=services, requests=requests, per_s=per_s, apart_s=APART_S)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with RunningService(data, env={"LATENCYTRACE_SETTLE": settle_s}) as service:
            sent: Sequence[Sent] = sent_by(system, service.otlp, Path(folder))
            waited_s = wait_until_counted(service, sent)
            wrong = disagreements(told_by(service, sent), sent)
            revised = service.metric("latencytrace_service_revised_total")
    spans = len(services) * 4 + 2
    say(
        f"{len(services) + 1} services, posts every {SDK_SCHEDULE_MS / 1000:g} s, settled after "
        f"{settle_s} s: {len(sent)} requests in {requests} traces of about {spans} spans, counted "
        f"{waited_s:.1f} s after the last post, {revised:.0f} changed after they were counted, "
        f"{len(wrong)} disagreements"
    )
    for line in wrong[:5]:
        say(f"  {line}")
    return wrong


def main(requests: int, per_s: float) -> None:
    """Both systems as they are, then counted at once."""
    wrong = [
        line
        for services in (["gpu"], ["search", "gpu"])
        for line in run(services, BY_DEFAULT, requests, per_s)
    ]
    run(["search", "gpu"], "0", requests, per_s)
    if wrong:
        sys.exit("they disagree")


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 1500,
        float(sys.argv[2]) if len(sys.argv) > 2 else 25.0,
    )
