"""Profiles asked of a traced program: what the service and an agent tell each other of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self
from urllib.parse import parse_qsl, urlencode

AGENT_HEADER: Final = "latencytrace-agent"  # of an agent's posts: its id
ORDER_HEADER: Final = "latencytrace-profile"  # of the answers: what it shall profile
UPLOAD_PATH: Final = "/v1/latencytrace-profiles"  # where it posts what came of that, by id
MAX_PROFILE_BYTES: Final = 64 << 20  # compressed
MAX_ABOUT_BYTES: Final = 64 << 10
DEFAULT_STEPS: Final = 10
DEFAULT_SECONDS: Final = 2.0
MAX_STEPS: Final = 1000
MAX_SECONDS: Final = 30.0
ARMED_S: Final = 30.0  # that an agent waits for a step
COOLDOWN_S: Final = 600.0  # between two profiles that alerts ask for
_ID_DIGITS: Final = 32


class ProfilerState(StrEnum):
    """The state of an agent's profiler: what it could do now if it were asked."""

    READY = "ready"
    IDLE = "idle"  # torch is loaded, and no step was seen so far
    BUSY = "busy"
    NO_TORCH = "no_torch"  # none is loaded in its process
    OFF = "off"  # by a setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilingAgent:
    """The identity of an agent, as its posts say."""

    service: str
    instance: str
    state: ProfilerState
    profile_id: str | None = None  # the one under way
    phase: str | None = None  # in words, of that

    def header(self) -> str:
        """As a header's value: ASCII whatever the names are."""
        fields = {"service": self.service, "instance": self.instance, "state": self.state.value}
        if self.profile_id is not None and self.phase is not None:
            fields |= {"profile": self.profile_id, "phase": self.phase}
        return urlencode(fields)

    @classmethod
    def parse(cls, header: str) -> Self | None:
        """From a header's value; None: it is not understood."""
        fields = _fields(header)
        try:
            return cls(
                service=fields["service"],
                instance=fields["instance"],
                state=ProfilerState(fields["state"]),
                profile_id=fields.get("profile"),
                phase=fields.get("phase"),
            )
        except (KeyError, ValueError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOrder:
    """An order to profile so many steps or so long, whichever is over first."""

    profile_id: str
    steps: int = DEFAULT_STEPS
    seconds: float = DEFAULT_SECONDS
    triggered: bool = False  # by an alert: no caller waits for it

    def header(self) -> str:
        """As a header's value."""
        return urlencode(
            {
                "id": self.profile_id,
                "steps": self.steps,
                "seconds": self.seconds,
                "triggered": int(self.triggered),
            }
        )

    @classmethod
    def parse(cls, header: str) -> Self | None:
        """From a header's value; None: it is not understood, or asks for too much."""
        fields = _fields(header)
        try:
            order = cls(
                profile_id=fields["id"],
                steps=int(fields["steps"]),
                seconds=float(fields["seconds"]),
                triggered=fields.get("triggered") == "1",
            )
        except (KeyError, ValueError):
            return None
        bounded = 0 < order.steps <= MAX_STEPS and 0 < order.seconds <= MAX_SECONDS
        return order if bounded and is_profile_id(order.profile_id) else None


def is_profile_id(text: str) -> bool:
    """Return whether it can be a profile's id, and so a file's name."""
    return len(text) == _ID_DIGITS and set(text) <= set("0123456789abcdef")


def _fields(header: str) -> Mapping[str, str]:
    return dict(parse_qsl(header))
