"""A receiver, and the settings of an agent that sends to it."""

from tests.agent.conftest import agent, receiver, settings

__all__ = ["agent", "receiver", "settings"]
