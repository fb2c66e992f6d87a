"""One run under stress, from the first post to the account."""

from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.stress.accounts import Account, accounted
from tests.stress.hogs import hogs
from tests.stress.sender import Sender
from tests.stress.stressed_service import stressed_service
from tests.stress.trouble import fill_the_disk, kill_again_and_again, small_disk
from tests.stress.workload import BATCH_SPANS, Workload, workload

TROUBLED_BATCH_SPANS: Final = 128  # more posts, so that more lie between two troubles


@dataclass(frozen=True, slots=True, kw_only=True)
class Stress:
    """Everything that a service is put under."""

    requests: int
    rate: float
    hogs: int = 0
    slow_ms: float = 0.0
    services: int = 1
    kills: int = 0
    full_disk: bool = False
    seed: int = 1

    def workload(self) -> Workload:
        """All that is sent."""
        return workload(
            requests=self.requests,
            rate=self.rate,
            services=self.services,
            seed=self.seed,
            batch_spans=TROUBLED_BATCH_SPANS if self.kills or self.full_disk else BATCH_SPANS,
        )


def account_of(stress: Stress, folder: Path) -> Account:
    """Put a service on a new folder under stress, and count.

    Raises:
        CannotMountError: The disk is to be full, and this machine lets us make no small one.
    """
    sent = stress.workload()
    disk = small_disk(folder) if stress.full_disk else nullcontext()
    with disk, hogs(stress.hogs), stressed_service(folder, stress.slow_ms) as service:
        sender = Sender(sent, lambda: service.otlp)
        sender.start()
        faults: list[str] = []
        damaged: Collection[str] = ()
        if stress.full_disk:
            faults += fill_the_disk(service, sender, len(sent.posts) // 4).faults
        if stress.kills:
            changed = kill_again_and_again(service, sender, sent, stress.kills, stress.seed)
            if changed is None:
                faults.append("no kill left a block in the journal")
            else:
                faults += changed.faults
                damaged = changed.post.trace_ids
        record = sender.wait()
        account = accounted(service, sent, record, killed=stress.kills > 0, damaged=damaged)
        return replace(account, faults=(*account.faults, *faults))
