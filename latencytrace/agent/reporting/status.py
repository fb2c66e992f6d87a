"""The status of the agent."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from latencytrace.agent.budget.keeper import Overhead
from latencytrace.agent.compiled.core import core
from latencytrace.agent.reporting.own_cost import OwnCost
from latencytrace.agent.timing.counts import BatchCounts
from latencytrace.agent.timing.patching import HookStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """State of the agent in this process, and what became of its spans."""

    running: bool
    provider: str | None  # "ours", or "the program's"; None: not running
    endpoint: str | None  # where traces are posted
    spans_made: int  # ended so far
    spans_sent: int
    spans_dropped: int
    spans_queued: int
    export_cpu_ns: int  # CPU time of the background thread, encoding and sending
    faults: int  # errors of our own that the program did not see
    last_error: str | None  # of the last post, None once one succeeded
    hooks: tuple[HookStatus, ...]
    obstacle: str | None = None  # why nothing is sent, and what to do; None: nothing is in the way
    gpu: str | None = None  # what is read of GPUs, or why not; None: nothing was asked for
    cost: OwnCost = field(default_factory=OwnCost)  # CPU time of hooks, encoder and exporter
    overhead: Overhead = field(default_factory=Overhead)  # its budget, what it leaves out for it
    compiled: bool = core is not None  # whether functions in C stand in for those in Python
    start_ns: Mapping[str, int] = field(default_factory=dict)  # phases of the process's start
    batches: BatchCounts = field(default_factory=BatchCounts)  # of `enqueue()` and `batch()`


def not_running(obstacle: str | None = None) -> AgentStatus:
    """Return the status of a process without an agent.

    Args:
        obstacle: Why none can run; None: none was started.
    """
    return AgentStatus(
        running=False,
        provider=None,
        endpoint=None,
        spans_made=0,
        spans_sent=0,
        spans_dropped=0,
        spans_queued=0,
        export_cpu_ns=0,
        faults=0,
        last_error=None,
        hooks=(),
        obstacle=obstacle,
    )
