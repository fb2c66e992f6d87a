"""Profiles ordered of agents: which agents can take one, which took one, and the results."""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final
from uuid import uuid4

import orjson

from latencytrace.errors import NotFoundError, ProfileError, StoreError
from latencytrace.model import Alert, AlertKind
from latencytrace.model.profile import (
    COOLDOWN_S,
    MAX_ABOUT_BYTES,
    ProfileOrder,
    ProfilerState,
    ProfilingAgent,
)
from latencytrace.service.profiles.folder import ProfileFolder
from latencytrace.service.storage.private_files import read_private

MAX_KNOWN: Final = 100  # profiles
MAX_AGENTS: Final = 1000
SILENT_NS: Final = 90_000_000_000  # an agent reports each minute at the latest
WAITING_NS: Final = 600_000_000_000
TAKEN_NS: Final = 300_000_000_000

_WHY_NOT: Final = {
    ProfilerState.IDLE: "torch is loaded, but no step of a model was seen yet",
    ProfilerState.NO_TORCH: "no torch is loaded there",
    ProfilerState.OFF: "it was started with LATENCYTRACE_PROFILE=0",
    ProfilerState.BUSY: "it takes a profile at the moment",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One that was asked for."""

    id: str
    state: str = "waiting"  # waiting | taken | kept | refused
    phase: str = "waiting for a process to take it"
    service: str | None
    instance: str | None = None
    cause: str | None = None
    asked: str
    began: str | None = None
    ended: str | None = None
    steps: int | None = None
    ended_by: str | None = None
    held_ns: int | None = None
    with_gpu: bool | None = None
    torch: str | None = None
    trace_ids: tuple[str, ...] = ()
    bytes: int | None = None


@dataclass(slots=True)
class _Open:
    """An order that has not ended."""

    order: ProfileOrder
    since_ns: int
    taker: tuple[str, str] | None = None
    is_begun: bool = False


class Profiles:
    """Hands orders to agents when they post, one at a time each, and keeps what they send.

    Args:
        now_ns: A monotonic clock.
        wall_ns: The time of day.
    """

    def __init__(
        self,
        folder: ProfileFolder,
        now_ns: Callable[[], int],
        wall_ns: Callable[[], int],
        *,
        on_alert: bool = False,
    ) -> None:
        self._folder = folder
        self._now_ns = now_ns
        self._wall_ns = wall_ns
        self._on_alert = on_alert
        self._lock = threading.Lock()
        self._agents: dict[tuple[str, str], tuple[ProfilingAgent, int]] = {}
        self._open: dict[str, _Open] = {}
        self._alerted_ns: dict[str, int] = {}  # by service
        self._profiles: dict[str, Profile] = {
            found.id: found for found in sorted(_kept(folder), key=lambda one: one.asked)
        }

    def received(self, header: str) -> str | None:
        """Note a process that posts.

        Returns:
            What the agent shall profile, as the answer's header says it; None: nothing.
        """
        agent = ProfilingAgent.parse(header)
        if agent is None:
            return None
        now_ns, key = self._now_ns(), (agent.service, agent.instance)
        with self._lock:
            self._agents.pop(key, None)
            self._agents[key] = agent, now_ns  # the one that reported last stands last
            if len(self._agents) > MAX_AGENTS:
                del self._agents[next(iter(self._agents))]
            if not self._open:
                return None
            self._give_up_old(now_ns)
            self._note_phase(agent, key)
            return self._order_for(agent, key, now_ns)

    def ask(
        self, service: str | None, *, steps: int, seconds: float, cause: str | None = None
    ) -> Profile:
        """Have the next process that can take a profile.

        Args:
            service: Service to profile; None: any.
            seconds: How long at most.
            cause: The fingerprint of the alert that asks; None: a caller waits for it.

        Raises:
            ProfileError: No process can take one, or one is under way.
        """
        profile = Profile(
            id=cause or uuid4().hex, service=service, cause=cause, asked=str(self._wall_ns())
        )
        order = ProfileOrder(
            profile_id=profile.id, steps=steps, seconds=seconds, triggered=cause is not None
        )
        with self._lock:
            now_ns = self._now_ns()
            self._give_up_old(now_ns)
            for under_way in self._open:
                raise ProfileError(
                    f"a profile is under way: {under_way} ({self._profiles[under_way].phase}); "
                    "wait for it, or cancel it with `latencytrace profile --cancel`"
                )
            self._refuse_in_vain(service, now_ns)
            self._note(profile)
            self._open[profile.id] = _Open(order, now_ns)
        return profile

    def alerted(self, alerts: Iterable[Alert]) -> None:
        """Ask for one for each alert that began, where that is wanted and not too often."""
        if not self._on_alert:
            return
        for alert in alerts:
            if alert.kind is not AlertKind.BURN or alert.ended_ns is not None:
                continue
            service, now_ns = alert.standing.objective.service, self._now_ns()
            last_ns = self._alerted_ns.get(service)
            if last_ns is not None and now_ns - last_ns < COOLDOWN_S * 1e9:
                continue
            order = ProfileOrder(profile_id=alert.fingerprint)
            try:
                self.ask(
                    service, steps=order.steps, seconds=order.seconds, cause=alert.fingerprint
                )
            except ProfileError:
                continue
            self._alerted_ns[service] = now_ns

    def take(self, profile_id: str, body: bytes) -> None:
        """Keep what an agent sends: a line of JSON, then the trace, if there is one.

        Raises:
            NotFoundError: No such profile was asked for.
            ProfileError: It is not what an agent sends.
            StoreError: The profile cannot be written.
        """
        about, packed = _read(body)
        with self._lock:
            if profile_id not in self._open:
                raise NotFoundError(f"profile {profile_id} was not asked for, or was given up")
            reported = _reported(self._profiles[profile_id], about, packed)
        try:
            if reported.state == "kept":  # without the lock, which every post waits for
                self._folder.keep(profile_id, asdict(reported), packed)
        except StoreError as error:
            reported = replace(reported, state="refused", phase=str(error))
            raise
        finally:
            with self._lock:
                self._end(profile_id, reported)

    def cancel(self, profile_id: str) -> Profile:
        """Cancel it: a process that has not taken it will not.

        Raises:
            NotFoundError: There is none.
        """
        with self._lock:
            found = self._profiles.get(profile_id)
            if found is None:
                raise _unknown(profile_id)
            if profile_id in self._open:
                self._end(profile_id, replace(found, state="refused", phase="cancelled"))
            return self._profiles[profile_id]

    def all(self) -> list[Profile]:
        """Known profiles, the newest first."""
        with self._lock:
            self._give_up_old(self._now_ns())
            return list(self._profiles.values())[::-1]

    def one(self, profile_id: str) -> Profile:
        """One.

        Raises:
            NotFoundError: There is none.
        """
        for profile in self.all():
            if profile.id == profile_id:
                return profile
        raise _unknown(profile_id)

    def trace(self, profile_id: str) -> bytes:
        """The trace of one, gzipped.

        Raises:
            NotFoundError: There is none, or not yet.
        """
        profile = self.one(profile_id)
        if profile.state != "kept":
            raise NotFoundError(f"profile {profile_id} is not there: {profile.phase}")
        try:
            return read_private(self._folder.trace(profile_id))
        except OSError:
            raise NotFoundError(
                f"profile {profile_id} has been deleted: the latest are kept"
            ) from None

    def is_known(self, profile_id: str) -> bool:
        """Return whether it was asked for."""
        return profile_id in self._profiles

    def of_trace(self, trace_id: str) -> list[str]:
        """Ids of the profiles that saw a request."""
        with self._lock:
            return [one.id for one in self._profiles.values() if trace_id in one.trace_ids]

    def _refuse_in_vain(self, service: str | None, now_ns: int) -> None:
        """Refuse what no agent that reports could take, now or soon."""
        reporting = [
            agent
            for agent, received_ns in self._agents.values()
            if now_ns - received_ns < SILENT_NS and service in {None, agent.service}
        ]
        of = f"of {service!r} " if service is not None else ""
        if not reporting:
            raise ProfileError(
                f"no process {of}has posted to this service over HTTP within the last "
                f"{SILENT_NS // 10**9} s: trace one with `latencytrace run -- COMMAND`"
            )
        if all(agent.state in {ProfilerState.NO_TORCH, ProfilerState.OFF} for agent in reporting):
            reasons = sorted({_WHY_NOT[agent.state] for agent in reporting})
            raise ProfileError(f"no process {of}can take a profile: {'; '.join(reasons)}")

    def _order_for(self, agent: ProfilingAgent, key: tuple[str, str], now_ns: int) -> str | None:
        if agent.state is not ProfilerState.READY:
            return None
        for profile_id, one in self._open.items():
            profile = self._profiles[profile_id]
            if one.taker == key:
                return self._again(profile, one)
            if one.taker is None and profile.service in {None, agent.service}:
                one.taker, one.since_ns = key, now_ns
                self._profiles[profile_id] = replace(
                    profile,
                    state="taken",
                    phase="a process has the order",
                    service=agent.service,
                    instance=agent.instance,
                )
                return one.order.header()
        return None

    def _again(self, profile: Profile, one: _Open) -> str | None:
        """The order for an agent that has it and does nothing: the answer may have been lost."""
        if not one.is_begun:
            return one.order.header()
        lost = "its process began it, but what it recorded did not arrive: see its log"
        self._end(profile.id, replace(profile, state="refused", phase=lost))
        return None

    def _note_phase(self, agent: ProfilingAgent, key: tuple[str, str]) -> None:
        one = self._open.get(agent.profile_id or "")
        if one is not None and one.taker == key and agent.phase is not None:
            one.is_begun = True
            known = self._profiles[one.order.profile_id]
            self._profiles[known.id] = replace(known, phase=agent.phase)

    def _give_up_old(self, now_ns: int) -> None:
        for profile_id, one in list(self._open.items()):
            profile = self._profiles[profile_id]
            longest_ns = WAITING_NS if one.taker is None else TAKEN_NS
            if now_ns - one.since_ns > longest_ns:
                why = "no process took it" if one.taker is None else "its process fell silent"
                self._end(profile_id, replace(profile, state="refused", phase=why))

    def _note(self, profile: Profile) -> None:
        self._profiles[profile.id] = profile
        while len(self._profiles) > MAX_KNOWN:
            del self._profiles[next(iter(self._profiles))]

    def _end(self, profile_id: str, profile: Profile) -> None:
        self._open.pop(profile_id, None)
        self._profiles[profile_id] = profile


def _unknown(profile_id: str) -> NotFoundError:
    return NotFoundError(f"no profile is called {profile_id!r}: `latencytrace profile --list`")


def _kept(folder: ProfileFolder) -> Iterator[Profile]:
    for _, about in folder.load():
        try:
            yield Profile(**{**about, "trace_ids": tuple(about["trace_ids"])})  # type: ignore[arg-type]  # checked by use
        except (KeyError, TypeError):  # of another version
            continue


def _read(body: bytes) -> tuple[dict[str, Any], bytes]:
    line, _, packed = body.partition(b"\n")
    try:
        about = orjson.loads(line) if len(line) <= MAX_ABOUT_BYTES else None
    except orjson.JSONDecodeError:
        about = None
    if not isinstance(about, dict) or (packed and packed[:2] != b"\x1f\x8b"):
        raise ProfileError("a profile is a line of JSON, then a gzip file")
    return about, packed


def _reported(asked: Profile, about: dict[str, Any], packed: bytes) -> Profile:
    """The profile as an agent reports it, each field of the type that it must have."""

    def number(name: str) -> int | None:
        value = about.get(name)
        return value if type(value) is int else None

    def text(name: str) -> str | None:
        value = about.get(name)
        return value if isinstance(value, str) else None

    refused = text("refused")
    traces = about.get("trace_ids")
    return replace(
        asked,
        state="kept" if packed and refused is None else "refused",
        phase=refused or ("kept" if packed else "nothing was sent"),
        service=text("service") or asked.service,
        instance=text("instance") or asked.instance,
        began=text("began"),
        ended=text("ended"),
        steps=number("steps"),
        ended_by=text("ended_by"),
        held_ns=number("held_ns"),
        with_gpu=about.get("with_gpu") is True,
        torch=text("torch"),
        trace_ids=tuple(map(str, traces[:64])) if isinstance(traces, list) else (),
        bytes=len(packed) or None,
    )
