"""Profiles of this process, taken when the service that spans go to asks for one.

It asks in the response to a request; nothing polls. All but the steps themselves happens in a
thread of its own, which lives as long as one profile does.
"""

import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from zlib import compressobj

from opentelemetry.context import Context, attach

from latencytrace.agent.clock import ANCHOR_NS, monotonic_ns
from latencytrace.agent.context import leave
from latencytrace.agent.export.transport import Sender
from latencytrace.agent.guard import OnFault, guarded
from latencytrace.agent.native import open_file
from latencytrace.agent.process.forks import whole_imports
from latencytrace.agent.profiling.capture import (
    LONGEST_STEP_S,
    Capture,
    CapturePhase,
    EndedBy,
)
from latencytrace.agent.profiling.torch_profiler import ProfilerInUseError, TorchProfiler
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.model import semconv
from latencytrace.model.profile import (
    AGENT_HEADER,
    ARMED_S,
    COOLDOWN_S,
    MAX_PROFILE_BYTES,
    ORDER_HEADER,
    ProfileOrder,
    ProfilerState,
    ProfilingAgent,
)

_GZIP: Final = 31  # zlib's name for a gzip file
_READ_BYTES: Final = 1 << 20
EXIT_S: Final = 2.0

_IN_USE: Final = "the program profiles itself: try again when it is done"
_ENDED: Final = "the program ended, or torch failed"
_NO_STEP: Final = (
    f"no step began within {ARMED_S:.0f} s: send requests meanwhile, or name the model's class "
    "in LATENCYTRACE_TORCH_MODULES"
)


class Refused(Exception):  # noqa: N818 - no error: nothing is taken, and this is why
    """There is no profile; the message says why."""


class Profiling:
    """Takes one order at a time.

    Args:
        new_sender: Makes what carries the profile of an id away.
        is_on: Whether profiles are taken at all.
    """

    order_header = ORDER_HEADER

    def __init__(
        self,
        resource: Mapping[str, object],
        recorder: Recorder,
        new_sender: Callable[[str], Sender],
        *,
        is_on: bool,
        on_fault: OnFault,
    ) -> None:
        self._resource = resource
        self._recorder = recorder
        self._new_sender = new_sender
        self.is_on = is_on
        self._on_fault = on_fault
        self._order: ProfileOrder | None = None
        self._phase = ""
        self._capture: Capture | None = None
        self._triggered_ns: int | None = None  # when the last began that an alert asked for
        self._thread: threading.Thread | None = None

    def headers(self) -> Mapping[str, str]:
        """Return what a request says of us."""
        order = self._order
        agent = ProfilingAgent(
            service=str(self._resource.get(semconv.SERVICE_NAME, "")),
            instance=str(self._resource.get(semconv.SERVICE_INSTANCE_ID, "")),
            state=self._state(),
            profile_id=None if order is None else order.profile_id,
            phase=None if order is None else self._phase_now(),
        )
        return {AGENT_HEADER: agent.header()}

    def receive(self, header: str) -> None:
        """Take the order in a response."""
        order = ProfileOrder.parse(header)
        if order is None or self._state() is not ProfilerState.READY:
            return  # the service reads our state
        thread = threading.Thread(
            target=self._run, args=(order,), name="latencytrace-profile", daemon=True
        )
        self._order, self._phase, self._thread = order, "preparing", thread
        token = attach(Context())
        try:
            thread.start()
        except RuntimeError:  # no thread is to be had: of a program that ends, say
            self._order = self._thread = None
        finally:
            leave(token)

    def end(self) -> None:
        """Give up what is under way: a process that ends while torch records crashes."""
        self.is_on = False
        capture, thread = self._capture, self._thread
        if capture is not None:
            capture.give_up()
        if thread is not None and thread is not threading.current_thread():
            thread.join(EXIT_S)

    def reset_after_fork(self) -> None:
        """In a forked child: the parent's profile is not ours, but torch records here, too."""
        capture, self._capture = self._capture, None
        self._order, self._thread = None, None
        self._recorder.steps.listener = None
        if capture is not None:
            capture.end_after_fork()

    def _state(self) -> ProfilerState:
        if not self.is_on:
            return ProfilerState.OFF
        if "torch" not in sys.modules:
            return ProfilerState.NO_TORCH
        if self._order is not None:
            return ProfilerState.BUSY
        return ProfilerState.READY if self._recorder.steps.have_begun else ProfilerState.IDLE

    def _phase_now(self) -> str:
        capture = self._capture
        if capture is None or capture.over.is_set():
            return self._phase
        return capture.phase.value

    def _run(self, order: ProfileOrder) -> None:
        about: dict[str, object] = {"refused": "an error of latencytrace's own: see its log"}
        packed = b""
        with whole_imports.lock:  # late: each program's first post waits for this module
            from tempfile import TemporaryDirectory

        with guarded("taking a profile", self._on_fault), TemporaryDirectory() as folder:
            try:
                about, packed = self._taken(order, Path(folder) / "trace.json")
            except Refused as refusal:
                about = {"refused": str(refusal)}
            except OSError as error:
                about = {"refused": f"it could not be written: {error}"}
        self._recorder.steps.listener = self._capture = None
        self._phase = "sending"
        with guarded("sending a profile", self._on_fault):
            self._send(order, about, packed)
        self._order = None

    def _taken(self, order: ProfileOrder, path: Path) -> tuple[dict[str, object], bytes]:
        """Return what a profile is about, and its bytes.

        Raises:
            Refused: None was taken.
        """
        if order.triggered:
            self._cool_down()
        capture, profiler = self._captured(order)
        seen = capture.captured
        self._phase = "writing"
        saving_ns = monotonic_ns()
        if not profiler.save(path):
            raise Refused("it could not be written whole: is the temporary folder full?")
        seen.held_ns += monotonic_ns() - saving_ns
        about: dict[str, object] = {
            "began": str(seen.began_ns + ANCHOR_NS),
            "ended": str(seen.ended_ns + ANCHOR_NS),
            "steps": seen.steps,
            "ended_by": seen.ended_by,
            "held_ns": seen.held_ns,
            "with_gpu": profiler.on_cuda,
            "torch": profiler.version,
            "pid": self._resource.get("process.pid"),
            "trace_ids": [f"{trace_id:032x}" for trace_id in seen.trace_ids],
        }
        return about, _packed(path)

    def _cool_down(self) -> None:
        now_ns = monotonic_ns()
        last_ns = self._triggered_ns
        if last_ns is not None and now_ns - last_ns < COOLDOWN_S * 1e9:
            raise Refused(f"an alert had one taken within the last {COOLDOWN_S / 60:.0f} min")
        self._triggered_ns = now_ns

    def _captured(self, order: ProfileOrder) -> tuple[Capture, TorchProfiler]:
        """Wait until it is recorded.

        Raises:
            Refused: The profile was not recorded in time.
        """
        profiler = _profiler()
        capture = Capture(order, profiler, monotonic_ns, self._on_fault)
        profiler.interrupted = capture.interrupted
        self._capture = capture
        try:
            with capture.held():
                if not self.is_on:
                    raise Refused(_ENDED)
                profiler.prepare()
            self._recorder.steps.listener = capture
            if not capture.begun.wait(ARMED_S):
                capture.give_up()
                raise Refused(_NO_STEP)
            if not capture.over.wait(order.seconds) and not (
                profiler.on_cuda and capture.over.wait(LONGEST_STEP_S)
            ):
                capture.cut()
        except ProfilerInUseError:
            raise Refused(_IN_USE) from None
        finally:
            self._recorder.steps.listener = None
            if capture.phase is not CapturePhase.CAPTURED:
                capture.give_up()
        if capture.phase is not CapturePhase.CAPTURED:
            by_program = capture.captured.ended_by is EndedBy.PROGRAM
            raise Refused(_IN_USE if by_program else _ENDED)
        return capture, profiler

    def _send(self, order: ProfileOrder, about: Mapping[str, object], packed: bytes) -> None:
        named = {
            "service": self._resource.get(semconv.SERVICE_NAME),
            "instance": self._resource.get(semconv.SERVICE_INSTANCE_ID),
            **about,
        }
        with whole_imports.lock:
            import json

        sender = self._new_sender(order.profile_id)
        try:
            sender.send(json.dumps(named).encode() + b"\n" + packed)
        except OSError as error:
            self._phase = f"no receiver takes it: {error}"
        finally:
            sender.close()


def _profiler() -> TorchProfiler:
    try:
        return TorchProfiler()
    except LookupError as error:
        raise Refused(str(error)) from None


def _packed(path: Path) -> bytes:
    """A file, compressed.

    Raises:
        Refused: The compressed file is too large.
    """
    packer, parts, size = compressobj(6, wbits=_GZIP), [], 0
    with open_file(path, "rb") as file:
        while block := file.read(_READ_BYTES):
            parts.append(packer.compress(block))
            size += len(parts[-1])
            if size > MAX_PROFILE_BYTES:
                raise Refused(
                    f"it has more than {MAX_PROFILE_BYTES >> 20} MB, compressed: ask for fewer "
                    "steps, or for less time"
                )
    return b"".join((*parts, packer.flush()))
