"""Modules that users name."""

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """One inside of another."""

    def forward(self, x: Tensor) -> Tensor:
        """Compute."""
        return torch.relu(x)


class Encoder(nn.Module):
    """A module with one inside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Block()

    def forward(self, x: Tensor) -> Tensor:
        """Compute."""
        inner: Tensor = self.inner(x)
        return inner + 1


class WideEncoder(Encoder):
    """A subclass that nobody names."""


class Fails(nn.Module):
    """Cannot be computed."""

    def forward(self, _: Tensor) -> Tensor:
        """Raise."""
        raise LookupError("a secret")


class CallsItself(nn.Module):
    """Has a `__call__` of its own."""

    def __call__(self, x: Tensor) -> Tensor:
        """Compute twice as much."""
        once: Tensor = super().__call__(x)
        return once * 2

    def forward(self, x: Tensor) -> Tensor:
        """Compute."""
        return x
