"""The contract of a device's events: what the device timer needs of one vendor's library."""

from contextlib import AbstractContextManager
from typing import Any, Protocol, Self


class DeviceEvent(Protocol):
    """A mark in a device's queue of work, which the device stamps when it comes to it.

    As CUDA's: never recorded it counts as complete; the time between two raises unless
    both were recorded and are complete.
    """

    def query(self) -> bool:
        """Tell whether the device has come to it."""
        ...

    def elapsed_time(self, end: Self, /) -> float:
        """Milliseconds on the device's clock from this event to another, in float32."""
        ...


class DeviceEvents(Protocol):
    """The events of one device; used by whichever thread has it compute."""

    @property
    def device_id(self) -> str:
        """Return the device: a UUID where there is one."""
        ...

    def event(self) -> Any:
        """A new event that takes the time."""
        ...

    def record(self, event: Any) -> None:
        """Put it behind all work that the current stream has now."""
        ...

    def is_capturing(self) -> bool:
        """Tell whether work is captured into a graph and not done: nothing may be recorded."""
        ...

    def asking(self) -> AbstractContextManager[object]:
        """Around questions to events, so that no graph that another thread captures breaks."""
        ...
