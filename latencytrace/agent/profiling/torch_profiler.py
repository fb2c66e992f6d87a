"""One run of torch's profiler over all threads, that never meets one of the program's own.

Two runs at once end in a crash of the process (torch 2.13): whichever stops second reads what
is gone. So ours does not begin while one of the program's runs, and is over before one begins.
What it costs the program, per operation recorded: `docs/pages/profile.md`.
"""

import gc
import importlib
import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from latencytrace.agent.native import open_file
from latencytrace.agent.process.forks import whole_imports

NEEDED: Final = "torch 2.7"  # the first that profiles all threads
_OLDEST_CUDA: Final = 12  # before, replaying a graph that was captured earlier may hang
_warmed_up: Final = threading.Event()


class ProfilerInUseError(Exception):
    """The program profiles itself."""


class TorchProfiler:
    """Runs once: `prepare`, `start`, `stop` and `save`, each from any thread.

    Attributes:
        interrupted: Called when the program's own profiler is about to begin; ours must
            have stopped when it returns.
        on_cuda: Whether a GPU is recorded, too.

    Raises:
        LookupError: This torch cannot do it; the message says why.
    """

    def __init__(self) -> None:
        self.interrupted: Callable[[], None] = self.stop
        with whole_imports.lock:
            self._module = importlib.import_module("torch.profiler")
            self._base = importlib.import_module("torch.autograd.profiler")
        self._torch = sys.modules["torch"]
        self._original: Any = None  # `_prepare_trace`, while ours stands in its place
        self._beginning: int | None = None  # the thread that begins a run of ours
        self.on_cuda = _has_cuda(self._torch)
        self._run = self._new_run(cuda=self.on_cuda)

    def prepare(self) -> None:
        """Load what a process's first run loads, which takes a second or two.

        From here on until `stop` or `let_go`, ours makes way for one of the program's.

        Raises:
            ProfilerInUseError: The program profiles itself.
        """
        self._stand_in()
        if self._is_in_use():
            raise ProfilerInUseError
        if not _warmed_up.is_set():
            run = self._new_run(cuda=False)
            self._begin(run)
            run.stop()
            _warmed_up.set()

    def start(self) -> None:
        """Begin to record."""
        self._begin(self._run)

    def stop(self) -> None:
        """End the recording; the interpreter stands still for about 10 µs an operation."""
        try:
            self._run.stop()
        finally:
            self.let_go()

    def save(self, path: Path) -> bool:
        """Write the trace.

        Returns:
            Whether it is all there; torch itself does not notice that a disk is full.
        """
        self._run.export_chrome_trace(str(path))
        with open_file(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 8))
            return file.read().rstrip().endswith(b"}")

    def is_capturing(self) -> bool:
        """Tell whether this thread captures a CUDA graph."""
        cuda = self._torch.cuda
        return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())

    def let_go(self) -> None:
        """Have the program's profilers begin without asking."""
        if self._original is not None:
            self._base.profile._prepare_trace = self._original
            self._original = None

    @property
    def version(self) -> str:
        return str(self._torch.__version__)

    def _new_run(self, *, cuda: bool) -> Any:
        with whole_imports.lock:
            bindings = importlib.import_module("torch._C._profiler")
        try:
            all_threads = bindings._ExperimentalConfig(profile_all_threads=True)
        except (AttributeError, TypeError):
            raise LookupError(
                f"torch {self._torch.__version__} profiles one thread only: {NEEDED} is needed"
            ) from None
        kinds = self._module.ProfilerActivity
        activities = [kinds.CPU, kinds.CUDA] if cuda else [kinds.CPU]
        return self._module.profile(activities=activities, experimental_config=all_threads)

    def _begin(self, run: Any) -> None:
        self._beginning = threading.get_ident()
        try:
            run.start()
        finally:
            self._beginning = None

    def _is_in_use(self) -> bool:
        """Tell whether the program's profiler runs, or has been prepared to."""
        if self._base._is_profiler_enabled:  # `torch.profiler` tells of one thread
            return True
        profile = self._base.profile
        # Never `gc.get_objects()`: a tuple that another thread is about to make of a generator
        # would be in it, and CPython fails that thread for being referred to.
        return any(
            getattr(one, "entered", False) and getattr(one, "kineto_results", None) is None
            for one in gc.get_referrers(profile)
            if type(one) is profile
        )

    def _stand_in(self) -> None:
        """Have whatever prepares another run end ours first."""
        original = inspect.getattr_static(self._base.profile, "_prepare_trace")

        def _prepare_trace(run: Any) -> None:
            if self._beginning != threading.get_ident():
                self.interrupted()
            original(run)

        self._original = original
        self._base.profile._prepare_trace = _prepare_trace  # restored by `let_go`


def _has_cuda(torch: Any) -> bool:
    """Tell whether the program works on a GPU that can be profiled."""
    version = str(getattr(torch.version, "cuda", None) or "")
    major = version.partition(".")[0]
    return torch.cuda.is_initialized() and major.isdecimal() and int(major) >= _OLDEST_CUDA
