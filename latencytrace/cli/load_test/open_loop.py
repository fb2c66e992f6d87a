"""Sends requests when they are due, however slow the answers are (an open loop).

A closed loop waits for answers, so that a slow server is asked less: its slowest
moments are the least measured. Here latency counts from when a request was due.
Source: Schroeder et al., "Open Versus Closed", NSDI 2006.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import httpx

ANSWER_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to be sent."""

    path: str
    body: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the client saw of one call, by its own clock."""

    call: Call
    answered: bool  # to the end, and with success
    latency_ns: int  # from when the call was due


def poisson_times(rate_per_s: float, seconds: float, chance: random.Random) -> Iterator[float]:
    """When calls are due: independent of each other, as those of many users are."""
    at_s = chance.expovariate(rate_per_s)
    while at_s < seconds:
        yield at_s
        at_s += chance.expovariate(rate_per_s)


def send(
    base_url: str,
    due: Sequence[tuple[float, Call]],
    on_progress: Callable[[float, int], None],
) -> list[Outcome]:
    """Send every call when it is due, and wait for the last answer.

    Args:
        base_url: Of the server.
        due: Seconds from now, ascending, and what is due then.
        on_progress: Told the seconds gone by and the answers so far, ten times a second.
    """
    return asyncio.run(_send(base_url, due, on_progress))


async def _send(
    base_url: str,
    due: Sequence[tuple[float, Call]],
    on_progress: Callable[[float, int], None],
) -> list[Outcome]:
    start_s = time.monotonic()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=16)
    async with (
        httpx.AsyncClient(
            base_url=base_url, limits=limits, timeout=ANSWER_TIMEOUT_S, trust_env=False
        ) as client,
        asyncio.TaskGroup() as group,
    ):
        tasks = [group.create_task(_call(client, call, start_s + at_s)) for at_s, call in due]
        while not all(task.done() for task in tasks):
            on_progress(time.monotonic() - start_s, sum(task.done() for task in tasks))
            await asyncio.sleep(0.1)
    return [task.result() for task in tasks]


async def _call(client: httpx.AsyncClient, call: Call, due_s: float) -> Outcome:
    await asyncio.sleep(due_s - time.monotonic())
    answered = False
    try:
        async with client.stream("POST", call.path, json=call.body) as response:
            async for _ in response.aiter_raw():
                pass
            answered = response.is_success
    except httpx.HTTPError:
        pass  # counted as unanswered
    latency_ns = int((time.monotonic() - due_s) * 1e9)
    return Outcome(call=call, answered=answered, latency_ns=latency_ns)
