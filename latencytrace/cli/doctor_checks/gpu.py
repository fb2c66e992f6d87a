"""GPUs: whether programs of this user can read them, and why not."""

import threading
from collections.abc import Iterator, Sequence
from typing import Final

from latencytrace.agent.gpu.reader import GpuReader, installed_gpu_readers
from latencytrace.agent.guard import FaultCounter
from latencytrace.errors import GpuUnavailableError
from latencytrace.model.gpu.sample import GpuDevice
from latencytrace.model.texts.units import count
from latencytrace.service.answers.findings.finding import Finding, Verdict

GPUS = "GPUs"
PATIENCE_S: Final = 10.0  # a driver of a failing GPU may not answer for a minute


def gpu_findings(*, wanted: bool | None) -> Iterator[Finding]:
    """Judge the GPUs that are installed.

    Args:
        wanted: What the settings say of reading them; None: where there are any.
    """
    if wanted is False:
        yield Finding(about=GPUS, verdict=Verdict.NOTE, what="left out by LATENCYTRACE_GPU")
        return
    for reader in installed_gpu_readers(FaultCounter()):
        yield judged(reader, wanted=wanted is True)


def judged(reader: GpuReader, *, wanted: bool, patience_s: float = PATIENCE_S) -> Finding:
    """Open a vendor's GPUs once, on a thread that is left behind if that hangs."""
    found: list[Sequence[GpuDevice] | GpuUnavailableError] = []

    def look() -> None:
        try:
            found.append(reader.open())
        except GpuUnavailableError as error:
            found.append(error)
        reader.close()

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(patience_s)
    if not found:
        return Finding(
            about=GPUS,
            verdict=Verdict.WRONG,
            what=f"the driver has not answered for {patience_s:g} s",
            fix="see the kernel's log, and LATENCYTRACE_GPU=0 until it does",
        )
    (answer,) = found
    if isinstance(answer, GpuUnavailableError):
        is_fine = answer.is_absent and not wanted
        verdict = Verdict.NOTE if is_fine else Verdict.WRONG
        return Finding(about=GPUS, verdict=verdict, what=f"none is read: {answer}")
    if not answer:
        verdict = Verdict.WRONG if wanted else Verdict.NOTE
        return Finding(about=GPUS, verdict=verdict, what="the driver shows none to this user")
    whole = [gpu for gpu in answer if gpu.parent_uuid is None]
    names = ", ".join(sorted({gpu.name for gpu in whole}))
    driver = f", driver {whole[0].driver}" if whole and whole[0].driver else ""
    what = f"{count(len(whole), 'GPU')} can be read: {names}{driver}"
    return Finding(about=GPUS, verdict=Verdict.FINE, what=what)
