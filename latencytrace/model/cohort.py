"""Requests counted together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """The requests with these labels that started within this time; None: any."""

    service: str | None = None  # None: outermost requests only
    route: str | None = None
    model: str | None = None
    version: str | None = None
    instance: str | None = None
    since_ns: int | None = None  # since the Unix epoch, inclusive
    until_ns: int | None = None  # exclusive
