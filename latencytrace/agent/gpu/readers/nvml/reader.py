"""NVIDIA's GPUs, through NVML and its binding `nvidia-ml-py`."""

import ctypes
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from latencytrace.agent.clock import wall_ns as wall_clock
from latencytrace.agent.gpu.reader import Detail
from latencytrace.agent.gpu.readers.nvml.calls import LIBRARY, GpuLostError, NvmlCalls, opened
from latencytrace.agent.gpu.readers.nvml.device import NvmlDevice
from latencytrace.agent.gpu.readers.nvml.gpm import GpmWindows
from latencytrace.errors import GpuUnavailableError
from latencytrace.model.gpu import GpuDevice, GpuSample

_XID: Final = 8  # the kind of event
_MOST_XIDS_A_TICK: Final = 16
_DRIVER = "driver"  # stands for a device where the driver answers


class NvmlReader:
    """Reads every NVIDIA GPU that the driver shows to this process.

    Args:
        wall_ns: Unix time.
    """

    def __init__(self, wall_ns: Callable[[], int] = wall_clock, library: str = LIBRARY) -> None:
        self._wall_ns = wall_ns
        self._library = library
        self._calls: NvmlCalls | None = None
        self._devices: dict[str, NvmlDevice] = {}
        self._errors: Counter[tuple[str, str]] = Counter()  # of times it was open before
        self._events: Any = None  # where Xids arrive

    @property
    def errors(self) -> Mapping[tuple[str, str], int]:
        now = self._calls.errors if self._calls else Counter()
        return self._errors + now

    def open(self) -> Sequence[GpuDevice]:
        self.close()  # of an opening that failed half-way
        calls = self._calls = opened(self._library)
        driver = calls.ask(_DRIVER, "nvmlSystemGetDriverVersion")
        number = calls.ask(_DRIVER, "nvmlDeviceGetCount") or 0
        for index in range(number):
            try:
                self._add(index, None if driver is None else str(driver))
            except GpuLostError:  # counted; the others are read
                continue
        self._listen()
        return [device.device for device in self._devices.values()]

    def read(self, detail: Detail) -> Sequence[GpuSample]:
        samples = []
        if detail >= Detail.SLOW:
            self._hear_xids()
        for uuid, device in list(self._devices.items()):
            try:
                samples.append(device.sample(detail))
            except GpuLostError:
                self._devices.pop(uuid).close()
        if not self._devices:
            raise GpuUnavailableError("no NVIDIA GPU answers any more", is_final=False)
        return samples

    def close(self) -> None:
        calls, self._calls = self._calls, None
        devices, self._devices = self._devices, {}
        events, self._events = self._events, None
        if calls is None:
            return
        try:
            for device in devices.values():
                device.close()
            if events is not None:
                calls.ask(_DRIVER, "nvmlEventSetFree", events)
            calls.ask(_DRIVER, "nvmlShutdown")
        except (GpuLostError, GpuUnavailableError):
            pass  # what is gone needs no closing; it was counted
        self._errors += calls.errors

    def reset_after_fork(self) -> None:
        self._calls = None
        self._devices = {}
        self._events = None
        self._errors = Counter()

    def _add(self, index: int, driver: str | None) -> None:
        """Begin to read one GPU, and the instances that it may be partitioned into."""
        calls = self._calls
        assert calls is not None  # noqa: S101 - open
        handle = calls.ask(f"gpu {index}", "nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            return
        whole = self._device(handle, index, driver, None)
        if whole is None:
            return
        mode = calls.ask(whole.uuid, "nvmlDeviceGetMigMode", handle)
        if not mode or not mode[0]:
            self._read_from(whole, handle)
            return
        self._read_from(whole, handle, is_partitioned=True)
        most = calls.ask(whole.uuid, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0
        for place in range(most):
            name = "nvmlDeviceGetMigDeviceHandleByIndex"
            instance = calls.ask(f"{whole.uuid} instance {place}", name, handle, place)
            if instance is not None:  # not every place is taken
                part = self._device(instance, index, driver, whole.uuid)
                if part is not None:
                    self._read_from(part, instance)

    def _device(
        self,
        handle: Any,
        index: int,
        driver: str | None,
        parent_uuid: str | None,
    ) -> GpuDevice | None:
        calls = self._calls
        assert calls is not None  # noqa: S101 - open
        of = f"gpu {index}" if parent_uuid is None else f"{parent_uuid} {handle}"
        uuid = calls.ask(of, "nvmlDeviceGetUUID", handle)
        if uuid is None:
            return None
        name = calls.ask(of, "nvmlDeviceGetName", handle)
        return GpuDevice(
            uuid=str(uuid),
            index=index,
            name="NVIDIA GPU" if name is None else str(name),
            vendor="nvidia",
            driver=driver,
            parent_uuid=parent_uuid,
        )

    def _read_from(
        self, device: GpuDevice, handle: object, *, is_partitioned: bool = False
    ) -> None:
        assert self._calls is not None  # noqa: S101 - open
        windows = GpmWindows(self._calls, device.uuid, handle, self._wall_ns)
        counts = not is_partitioned and windows.open()
        self._devices[device.uuid] = NvmlDevice(
            self._calls, device, handle, windows if counts else None, self._wall_ns
        )

    def _listen(self) -> None:
        """Ask for the driver's reports of faults."""
        calls = self._calls
        assert calls is not None  # noqa: S101 - open
        events = calls.ask(_DRIVER, "nvmlEventSetCreate")
        if events is None:
            return
        self._events = events
        for uuid, device in list(self._devices.items()):
            if device.device.parent_uuid is None:
                try:
                    calls.ask(uuid, "nvmlDeviceRegisterEvents", device.handle, _XID, events)
                except GpuLostError:
                    del self._devices[uuid]

    def _hear_xids(self) -> None:
        """Note the faults that were reported since the last time, without waiting for any."""
        calls = self._calls
        if calls is None or self._events is None:
            return
        wait = getattr(calls.binding, "nvmlEventSetWait_v2", calls.binding.nvmlEventSetWait)
        for _ in range(_MOST_XIDS_A_TICK):
            try:
                event = wait(self._events, 0)
            except calls.error_types:  # nothing more, as a rule
                return
            self._note_xid(event.device, int(event.eventData))

    def _note_xid(self, handle: Any, xid: int) -> None:
        for device in self._devices.values():
            if _address(device.handle) == _address(handle):
                device.xids[str(xid)] += 1


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
