"""Where did the milliseconds go? Latency observability for machine-learning inference."""

from latencytrace.agent.start import (
    AgentStatus,
    agent_status,
    flush,
    instrument,
    stage,
    uninstrument,
)

__all__ = ["AgentStatus", "agent_status", "flush", "instrument", "stage", "uninstrument"]
