"""The documents of profiles, typed for the API's OpenAPI description."""

from typing_extensions import TypedDict


class ProfileDocument(TypedDict):
    """A profile that was asked for, and what has become of it."""

    id: str
    state: str  # waiting | taken | kept | refused
    phase: str  # where it is, in words
    service: str | None  # None: any, and none has begun
    instance: str | None
    cause: str | None  # the fingerprint of the alert that asked for it
    asked: str  # Unix nanoseconds, like the others
    began: str | None
    ended: str | None
    steps: int | None
    ended_by: str | None  # steps | time
    held_ns: int | None  # that the program stood still at its end
    with_gpu: bool | None
    torch: str | None  # its version
    trace_ids: list[str]  # of requests that it saw, 64 at most
    bytes: int | None
    url: str  # of the trace


class ProfilesDocument(TypedDict):
    """All that are known, the newest first."""

    profiles: list[ProfileDocument]
