"""Stand-ins that keep our own contracts, for what cannot be had in a test."""


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        """What time it is."""
        return self.now_ns

    def move_s(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ns += round(seconds * 1e9)
