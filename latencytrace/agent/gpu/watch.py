"""GPUs read and reported on, put together: what the agent starts, asks and stops."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.export.transport import Sender
from latencytrace.agent.gpu.reader import installed_gpu_readers
from latencytrace.agent.gpu.report import STUCK_AFTER_NS, GpuReport
from latencytrace.agent.gpu.sampler import GpuSampler
from latencytrace.agent.guard import OnFault, logger
from latencytrace.model.gpu import GpuDevice, GpuSample


class MachineLock:
    """Held from `take` until `release`, or the end of the process however it ends.

    Args:
        name: What it is for; None of its holders may need another's.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        folder = folder or Path(tempfile.gettempdir())
        self._path = folder / f"latencytrace-{name}-{os.getuid()}.lock"
        self._file: int | None = None

    def take(self) -> bool:
        """Take it if it is free; where no such file can be, every process takes it."""
        if self._file is not None:
            return True
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            file = os.open(self._path, flags, 0o600)
        except OSError:
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self._file = file
        return True

    def release(self) -> None:
        """Let others have it."""
        self.forget()

    def forget(self) -> None:
        """In a forked child: leave it with the parent; closing is no unlocking there."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def visible_gpus(
    text: str | None, gpus: Sequence[GpuDevice], *, in_bus_order: bool
) -> tuple[GpuDevice, ...] | None:
    """The GPUs that a program sees, in its own numbering, as CUDA reads the variable.

    Once CUDA runs its own answer is better; this one needs no CUDA.

    Args:
        text: Value of the variable; None: it is not set.
        gpus: All that the driver shows, instances of partitioned ones too.
        in_bus_order: CUDA numbers as the driver does (`CUDA_DEVICE_ORDER=PCI_BUS_ID`); else
            the fastest first, which only CUDA knows of GPUs that differ.

    Returns:
        None: it cannot be known without CUDA.
    """
    whole = [gpu for gpu in gpus if gpu.parent_uuid is None]
    alike = in_bus_order or len({gpu.name for gpu in whole}) <= 1
    if text is None:
        return tuple(whole) if alike else None
    seen: list[GpuDevice] = []
    for name in (part.strip() for part in text.split(",")):
        if name.isdecimal():
            if not alike:
                return None
            found = [gpu for gpu in whole if gpu.index == int(name)]
        else:  # the beginning of a UUID is enough, as long as it is of one GPU alone
            found = [gpu for gpu in gpus if name and gpu.uuid.startswith(name)]
        if len(found) != 1:  # CUDA stops at the first that it does not find
            break
        if found[0] in seen:  # and sees none at all where one is named twice
            return ()
        seen.append(found[0])
        if found[0].parent_uuid is not None:  # and one instance at most
            return (found[0],)
    return tuple(seen)


if TYPE_CHECKING:
    from latencytrace.agent.gpu.port import GpuPort

SeenBy = Callable[[Sequence[GpuDevice]], Sequence[GpuDevice] | None]

STOP_S: Final = 1.0  # a call that hangs is not waited for


class GpuWatch:
    """Reads the GPUs of this machine until it is stopped.

    Args:
        sender: Carries metrics away; None: nowhere.
        port: Where a Prometheus may ask; None: nowhere.
        interval_s: Between two readings.
        is_wanted: The user asked for it: say in the log why it cannot be.
        seen_by: From all GPUs to the ones that this program sees; None: unknown.
    """

    def __init__(
        self,
        resource: Mapping[str, object],
        sender: Sender | None,
        *,
        port: tuple[str, int] | None = None,
        interval_s: float,
        is_wanted: bool,
        seen_by: SeenBy,
        on_fault: OnFault,
    ) -> None:
        self._resource = resource
        self._sender = sender
        self._is_wanted = is_wanted
        self._seen_by = seen_by
        self._report = self._new_report()
        self._port = None if port is None else self._new_port(port, on_fault)
        self._sampler = GpuSampler(
            lambda: installed_gpu_readers(on_fault),
            self._take,
            lock=MachineLock("gpu"),
            interval_ns=round(interval_s * 1e9),
            now_ns=monotonic_ns,
            on_fault=on_fault,
        )
        self._sampler.start()

    def report(self) -> None:
        """Send what was read; called on the exporter's thread.

        Many children that are forked never come here: they read none.
        """
        self._sampler.start()
        state = self._sampler.state
        if self._is_wanted and state.is_over:
            self._is_wanted = False
            logger.warning("latencytrace reads no GPU: %s", state.why_not)
        if self._report is None:
            return
        self._report.send(state)
        if not self._report.is_taken and self._port is None:
            self._sampler.end()  # without a last report; where none is running it does nothing

    def _take(self, samples: Sequence[GpuSample]) -> None:
        if self._report is not None:
            self._report.add(samples)  # the one of now: a fork replaces it
        if self._port is not None:
            self._port.take(samples)

    def _new_report(self) -> GpuReport | None:
        if self._sender is None:
            return None
        return GpuReport(self._resource, self._sender, monotonic_ns)

    def _new_port(self, address: tuple[str, int], on_fault: OnFault) -> "GpuPort":
        from latencytrace.agent.gpu.port import GpuPort

        return GpuPort(address, lambda: self._sampler.state, monotonic_ns, on_fault)

    def stop(self) -> None:
        """End; what was read last is sent."""
        self._sampler.stop(STOP_S)
        if self._port is not None:
            self._port.close()
        if self._report is not None:
            self._report.send(self._sampler.state)
            self._report.close()

    def reset_after_fork(self) -> None:
        """In a forked child: nothing of the parent's came along."""
        if self._report is not None:
            self._report.close()
        self._report = self._new_report()
        if self._port is not None:
            self._port.reset_after_fork()
        self._sampler.reset_after_fork()

    def status(self) -> str:
        """Return what it does, in words."""
        state = self._sampler.state
        since_ns = state.tick_since_ns
        if since_ns is not None and monotonic_ns() - since_ns > STUCK_AFTER_NS:
            return f"a call has hung for {(monotonic_ns() - since_ns) / 1e9:.0f} s"
        if state.why_not is not None:
            return f"none is read: {state.why_not}"
        if self._report is not None and not self._report.is_taken and self._port is None:
            return "none is read: the receiver takes no metrics"
        names = ", ".join(sorted({gpu.name for gpu in state.gpus}))
        read = f"{len(state.gpus)} read every {state.interval_ns / 1e9:.3g} s: {names}"
        shown_at = None if self._port is None else self._port.listens_at
        if shown_at is not None:
            read += f", shown at {shown_at[0]}:{shown_at[1]}"
        seen = self._seen_by(state.gpus)
        if seen is None or len(seen) == len(state.gpus):
            return read
        return f"{read}; of them this program sees {', '.join(gpu.uuid for gpu in seen) or 'none'}"
