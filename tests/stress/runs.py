"""One run under stress, from the first post to the account."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.stress.accounts import Account, accounted
from tests.stress.hogs import hogs
from tests.stress.sender import Sender
from tests.stress.stressed_service import stressed_service
from tests.stress.trouble import fill_the_disk, kill_again_and_again, small_disk
from tests.stress.workload import BATCH_SPANS, Workload, workload

KILLED_BATCH_SPANS: Final = 128  # more posts, so that more lie between two kills


@dataclass(frozen=True, slots=True, kw_only=True)
class Stress:
    """What a service is put under."""

    requests: int
    rate: float
    hogs: int = 0
    slow_ms: float = 0.0
    services: int = 1
    kills: int = 0
    seed: int = 1

    def workload(self) -> Workload:
        """What is sent."""
        return workload(
            requests=self.requests,
            rate=self.rate,
            services=self.services,
            seed=self.seed,
            batch_spans=KILLED_BATCH_SPANS if self.kills else BATCH_SPANS,
        )


def account_of(stress: Stress, folder: Path) -> Account:
    """Put a service on a new folder under stress, and count."""
    sent = stress.workload()
    with hogs(stress.hogs), stressed_service(folder, stress.slow_ms) as service:
        sender = Sender(sent, lambda: service.otlp)
        sender.start()
        if not stress.kills:
            return accounted(service, sent, sender.wait())
        changed = kill_again_and_again(service, sender, sent, stress.kills, stress.seed)
        record = sender.wait()
        damaged = changed.post.trace_ids if changed is not None else ()
        account = accounted(service, sent, record, killed=True, damaged=damaged)
        said = ["no kill left a block in the journal"] if changed is None else changed.faults
        return replace(account, faults=(*account.faults, *said))


def account_of_full_disk(stress: Stress, folder: Path) -> Account:
    """Put a service on a small disk that is full for a while, and count.

    Raises:
        CannotMountError: This machine lets us make no small disk.
    """
    sent = stress.workload()
    with (
        small_disk(folder),
        hogs(stress.hogs),
        stressed_service(folder, stress.slow_ms) as service,
    ):
        sender = Sender(sent, lambda: service.otlp)
        sender.start()
        full = fill_the_disk(service, sender, len(sent.posts) // 4)
        account = accounted(service, sent, sender.wait())
        return replace(account, faults=(*account.faults, *full.faults))
