"""Profiles of this process by torch's own profiler, ordered by a receiver's answer."""

import gzip
import json
import resource
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, schedule

from latencytrace.agent.guard import raise_fault
from latencytrace.agent.profiling import orders as profiling
from latencytrace.agent.profiling.torch_profiler import TorchProfiler
from latencytrace.agent.start import start, uninstrument
from latencytrace.model.profile import (
    AGENT_HEADER,
    ORDER_HEADER,
    ProfileOrder,
    ProfilerState,
    ProfilingAgent,
)
from latencytrace.settings import AgentSettings
from tests.support.agent.receiving import Receiver, TracedProgram
from tests.support.models.generating import generating
from tests.support.models.tiny_chat import TinyChat, tiny_chat
from tests.support.servers.command_line import environment, python
from tests.support.waiting import until

pytestmark = pytest.mark.long

ID = "0123456789abcdef0123456789abcdef"
SHORT = ProfileOrder(profile_id=ID, steps=7, seconds=30.0)
LONG = ProfileOrder(profile_id=ID, steps=1000, seconds=30.0)
IN_USE = "the program profiles itself: try again when it is done"


@pytest.fixture(scope="module")
def chat() -> TinyChat:
    return tiny_chat()


@pytest.fixture(autouse=True)
def nothing_stays_in_the_way() -> Iterator[None]:
    """The program's profilers are as they were."""
    original = torch.autograd.profiler.profile._prepare_trace
    yield
    assert torch.autograd.profiler.profile._prepare_trace is original


def order(receiver: Receiver, wanted: ProfileOrder) -> None:
    """Give an order in the answer to the next post."""
    receiver.answers.append((200, {ORDER_HEADER: wanted.header()}))


def sent(receiver: Receiver, number: int = 0) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What a profile that arrives is about, and its trace."""
    until(lambda: len(receiver.profiles) > number)
    _, body = receiver.profiles[number]
    line, _, packed = body.partition(b"\n")
    return json.loads(line), json.loads(gzip.decompress(packed)) if packed else None


def reported(receiver: Receiver) -> ProfilingAgent | None:
    """What the last post said of the agent."""
    if not receiver.post_headers:
        return None
    return ProfilingAgent.parse(receiver.post_headers[-1][AGENT_HEADER])


def is_recording(receiver: Receiver) -> bool:
    """Whether the last post says so."""
    agent = reported(receiver)
    return agent is not None and agent.phase == "recording"


def ready_again(receiver: Receiver) -> None:
    """Wait for a post that says so, which is made after this."""
    before = len(receiver.post_headers)
    until(
        lambda: (
            len(receiver.post_headers) > before
            and getattr(reported(receiver), "state", None) is ProfilerState.READY
        )
    )


def generate(chat: TinyChat) -> None:
    """One request."""
    chat.model.generate(chat.prompt(), max_new_tokens=4, do_sample=False)


def begun(chat: TinyChat, receiver: Receiver) -> bool:
    """Whether it records, by a post made after one more request: so it takes few steps."""
    before = len(receiver.post_headers)
    generate(chat)
    until(lambda: len(receiver.post_headers) > before)
    return is_recording(receiver)


def operators(run: profile) -> int:
    """How many calls of operators the program's own profile has."""
    return len(run.key_averages())


def test_so_many_steps_are_recorded_as_were_ordered(
    agent: TracedProgram, receiver: Receiver, chat: TinyChat
) -> None:
    order(receiver, SHORT)

    with generating(chat):
        about, trace = sent(receiver)

    assert (about["steps"], about["ended_by"], about["service"]) == (7, "steps", "program")
    assert receiver.profiles[0][0] == ID
    assert trace is not None
    names = [event["name"] for event in trace["traceEvents"] if event.get("cat") == "cpu_op"]
    assert names.count("aten::scaled_dot_product_attention") >= 7
    assert about["held_ns"] > 0
    requests = {span.trace_id for span in agent.spans() if span.name == "request"}
    assert about["trace_ids"]
    assert set(about["trace_ids"]) <= requests


def test_time_ends_it_where_steps_do_not(
    agent: TracedProgram, receiver: Receiver, chat: TinyChat
) -> None:
    assert agent.status.running
    order(receiver, replace(LONG, seconds=0.01))  # in which no machine takes a thousand

    with generating(chat):
        about, _ = sent(receiver)

    assert about["ended_by"] == "time"
    assert int(about["ended"]) - int(about["began"]) >= 10_000_000


def test_time_ends_it_where_no_more_steps_come(
    agent: TracedProgram, receiver: Receiver, chat: TinyChat
) -> None:
    assert agent.status.running
    order(receiver, replace(LONG, seconds=2.0))
    until(lambda: begun(chat, receiver) or receiver.profiles)

    about, trace = sent(receiver)

    assert about["ended_by"] == "time"
    assert trace is not None


def test_all_threads_are_recorded(
    agent: TracedProgram, receiver: Receiver, chat: TinyChat
) -> None:
    assert agent.status.running
    order(receiver, replace(SHORT, steps=200))

    with generating(chat), generating(chat):
        _, trace = sent(receiver)

    assert trace is not None
    calls = [event for event in trace["traceEvents"] if event.get("cat") == "cpu_op"]
    assert len({event["tid"] for event in calls}) >= 2


def test_looking_for_the_programs_profilers_harms_no_other_thread() -> None:
    ours, done, faults = TorchProfiler(), threading.Event(), list[BaseException]()
    ours.prepare()
    ours.let_go()

    def build() -> None:
        while not done.is_set():
            try:
                tuple(number for number in range(1000))
            except SystemError as fault:  # what CPython raises where another refers to the tuple
                faults.append(fault)

    builder = threading.Thread(target=build)
    builder.start()
    switched_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        for _ in range(20):
            ours.prepare()
            ours.let_go()
    finally:
        sys.setswitchinterval(switched_s)
        done.set()
        builder.join()

    assert faults == []


def test_an_order_while_one_is_under_way_is_not_taken(
    agent: TracedProgram, receiver: Receiver, chat: TinyChat
) -> None:
    assert agent.status.running
    order(receiver, replace(LONG, steps=200))
    until(lambda: begun(chat, receiver))
    order(receiver, replace(SHORT, profile_id="f" * 32))
    until(lambda: begun(chat, receiver) and not receiver.answers)
    assert begun(chat, receiver)  # after it had the second

    with generating(chat):
        sent(receiver)
        ready_again(receiver)

    assert [profile_id for profile_id, _ in receiver.profiles] == [ID]


def test_it_does_not_begin_beside_the_programs_own(
    agent: TracedProgram, receiver: Receiver, chat: TinyChat
) -> None:
    assert agent.status.running
    with profile(activities=[ProfilerActivity.CPU]) as own:
        order(receiver, SHORT)
        with generating(chat):
            about, trace = sent(receiver)
        generate(chat)

    assert (about["refused"], trace) == (IN_USE, None)
    assert operators(own) > 0


def test_it_does_not_begin_beside_one_that_is_prepared(
    agent: TracedProgram, receiver: Receiver, chat: TinyChat
) -> None:
    assert agent.status.running
    turns = schedule(wait=0, warmup=1, active=1, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=turns, acc_events=True) as own:
        order(receiver, SHORT)
        with generating(chat):
            about, _ = sent(receiver)
        own.step()
        generate(chat)
        own.step()

    assert about["refused"] == IN_USE
    assert operators(own) > 0


def test_it_is_over_before_the_programs_own_begins(
    agent: TracedProgram, receiver: Receiver, chat: TinyChat
) -> None:
    assert agent.status.running
    order(receiver, LONG)
    until(lambda: begun(chat, receiver))
    with profile(activities=[ProfilerActivity.CPU]) as own:
        generate(chat)

    about, trace = sent(receiver)

    assert about["ended_by"] == "the program's own profiler"
    assert trace is not None
    assert operators(own) > 0


def test_a_second_one_for_an_alert_within_ten_minutes_is_refused(
    agent: TracedProgram, receiver: Receiver, chat: TinyChat
) -> None:
    assert agent.status.running
    order(receiver, replace(SHORT, triggered=True))
    with generating(chat):
        sent(receiver)
        ready_again(receiver)
        order(receiver, replace(SHORT, triggered=True))
        about, _ = sent(receiver, 1)

    assert about["refused"] == "an alert had one taken within the last 10 min"


def test_uninstrument_gives_up_what_is_under_way(
    settings: AgentSettings, receiver: Receiver, chat: TinyChat
) -> None:
    start(settings, raise_fault)
    order(receiver, LONG)
    until(lambda: begun(chat, receiver))
    uninstrument()

    assert not torch.autograd.profiler._is_profiler_enabled
    assert "latencytrace-profile" not in {thread.name for thread in threading.enumerate()}


def test_a_program_that_forbids_profiles_takes_none(
    settings: AgentSettings, receiver: Receiver, chat: TinyChat
) -> None:
    start(settings._replace(profile=False), raise_fault)
    try:
        order(receiver, SHORT)
        with generating(chat):
            until(lambda: len(receiver.posts) > 3)
    finally:
        uninstrument()

    assert getattr(reported(receiver), "state", None) is ProfilerState.OFF
    assert receiver.profiles == []


def test_one_that_is_too_large_is_dropped_and_it_is_said(
    agent: TracedProgram, receiver: Receiver, chat: TinyChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert agent.status.running
    monkeypatch.setattr(profiling, "MAX_PROFILE_BYTES", 10)
    order(receiver, SHORT)

    with generating(chat):
        about, trace = sent(receiver)

    assert "it has more than" in about["refused"]
    assert trace is None


@pytest.mark.parametrize(("limit", "whole"), [(1000, False), (resource.RLIM_INFINITY, True)])
def test_a_full_disk_is_noticed(tmp_path: Path, limit: int, whole: bool) -> None:
    run = TorchProfiler()
    run.prepare()
    run.start()
    torch.ones(2) + torch.ones(2)
    run.stop()

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))  # as the disk, the system refuses
    try:
        saved = run.save(tmp_path / "trace.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert saved is whole


def test_a_receiver_that_is_gone_does_no_harm(
    settings: AgentSettings, receiver: Receiver, chat: TinyChat
) -> None:
    start(settings, raise_fault)
    try:
        order(receiver, SHORT)
        receiver.refuses_profiles = True
        with generating(chat):
            until(lambda: receiver.refused_profiles)
            ready_again(receiver)
            receiver.refuses_profiles = False
            order(receiver, SHORT)
            about, _ = sent(receiver)
    finally:
        uninstrument()

    assert about["steps"] == 7


@pytest.mark.parametrize("header", ["", "id=1", "id=../x&steps=1&seconds=1", "\xff", "steps=x"])
def test_an_order_that_makes_no_sense_is_passed_over(header: str) -> None:
    assert ProfileOrder.parse(header) is None


@pytest.mark.parametrize(
    ("how", "code"), [("end", 0), ("exit", 3), ("fork", 0)], ids=["end", "exit", "fork"]
)
def test_a_program_that_ends_while_it_records_ends_as_it_would(
    receiver: Receiver, how: str, code: int
) -> None:
    order(receiver, LONG)

    done = python(
        "-m",
        "tests.support.programs.profiled_program",
        receiver.endpoint,
        how,
        env=environment(OTEL_BSP_SCHEDULE_DELAY="20"),
        cwd=Path(__file__).parents[3],
    )

    assert done.returncode == code, done.stderr
    assert done.stdout.split() == {"fork": ["recording", "child", "0"]}.get(how, ["recording"])
