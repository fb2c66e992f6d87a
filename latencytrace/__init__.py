"""Where did the milliseconds go? Latency observability for machine-learning inference."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from latencytrace.agent.api.requests import batch, enqueue, request
    from latencytrace.agent.api.stages import stage
    from latencytrace.agent.reporting.status import AgentStatus
    from latencytrace.agent.start import agent_status, flush, instrument, uninstrument
    from latencytrace.agent.toolkit.batching import Ticket

__all__ = [
    "AgentStatus",
    "Ticket",
    "agent_status",
    "batch",
    "enqueue",
    "flush",
    "instrument",
    "request",
    "stage",
    "uninstrument",
]

_HOMES = {
    "AgentStatus": "latencytrace.agent.reporting.status",
    "Ticket": "latencytrace.agent.toolkit.batching",
    "batch": "latencytrace.agent.api.requests",
    "enqueue": "latencytrace.agent.api.requests",
    "request": "latencytrace.agent.api.requests",
    "stage": "latencytrace.agent.api.stages",
}


def __getattr__(name: str) -> object:
    """Load the agent when it is first used: the service and the command line never need it."""
    if name in {"load_ipython_extension", "unload_ipython_extension"}:  # `%load_ext latencytrace`
        return getattr(import_module("latencytrace.notebook.extension"), name)
    if name not in __all__:
        raise AttributeError(f"module 'latencytrace' has no attribute {name!r}")
    home = import_module(_HOMES.get(name, "latencytrace.agent.start"))
    return globals().setdefault(name, getattr(home, name))  # to ask each time costs a span's half


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
