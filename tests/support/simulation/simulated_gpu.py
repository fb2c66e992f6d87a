"""A GPU of which we know what every stage uses, seen through windows as a real one is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from latencytrace.model.gpu import DeviceWork, GpuWindow
from latencytrace.model.stage import Stage

MS = 1_000_000
Truth = Mapping[Stage, Mapping[str, float]]

LLM: Truth = {
    Stage.PREFILL: {"tensor_ratio": 0.72, "bandwidth_ratio": 0.28, "sm_ratio": 0.95},
    Stage.DECODE: {"tensor_ratio": 0.05, "bandwidth_ratio": 0.61, "sm_ratio": 0.80},
}
LENGTHS_MS: Mapping[Stage, tuple[float, float]] = {
    Stage.PREFILL: (30, 120),
    Stage.DECODE: (150, 700),
}


@dataclass
class SimulatedGpu:
    """Works on one stage after the other, with pauses; counts with noise.

    Args:
        seed: Of the chance in lengths and noise.
        truth: What each stage uses while it works.
        window_ms: Of the counters.
        noise: Standard deviation of each window's ratios.
        start_ns: Unix time.
    """

    seed: int
    truth: Truth = field(default_factory=lambda: LLM)
    window_ms: float = 200.0
    noise: float = 0.015
    start_ns: int = 1_000_000_000_000_000_000

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.work: list[DeviceWork] = []

    def run(self, seconds: float, stages: Sequence[Stage] | None = None) -> None:
        """Serve requests one after the other, each through all stages."""
        at_ns = self.start_ns
        end_ns = at_ns + round(seconds * 1e9)
        while at_ns < end_ns:
            for stage in stages or list(self.truth):
                length_ns = round(self.random.uniform(*LENGTHS_MS[stage]) * MS)
                self.work.append(piece(stage, at_ns, at_ns + length_ns, span=len(self.work)))
                at_ns += length_ns
            at_ns += round(self.random.uniform(0, 50) * MS)

    def windows(self, foreign: float = 0.0) -> list[GpuWindow]:
        """What the counters say, of all its work and of somebody else's."""
        step_ns = round(self.window_ms * MS)
        start_ns, last_ns = self.work[0].start_ns, self.work[-1].end_ns
        return [
            self._window(at, at + step_ns, foreign)
            for at in range(start_ns, last_ns - step_ns, step_ns)
        ]

    def _window(self, start_ns: int, end_ns: int, foreign: float) -> GpuWindow:
        busy = 0.0
        counted = dict.fromkeys(("tensor_ratio", "bandwidth_ratio", "sm_ratio"), 0.0)
        for one in self.work:
            inside_ns = min(end_ns, one.end_ns) - max(start_ns, one.start_ns)
            if inside_ns > 0:
                busy += inside_ns / (end_ns - start_ns)
                for name in counted:
                    counted[name] += self.truth[one.stage][name] * inside_ns / (end_ns - start_ns)
        noisy = {
            name: min(1.0, max(0.0, value + foreign / 2 + self.random.gauss(0, self.noise)))
            for name, value in counted.items()
        }
        return GpuWindow(
            start_ns=start_ns,
            end_ns=end_ns,
            engine_ratio=min(1.0, busy + foreign),
            fp32_ratio=0.01,
            throttled=False,
            **noisy,
        )


def piece(stage: Stage, start_ns: int, end_ns: int, span: int = 0) -> DeviceWork:
    """Work that fills its time on the device."""
    return DeviceWork(
        trace_id=f"{span:032x}",
        span_id=f"{span:016x}",
        service="rag",
        model="tiny",
        stage=stage,
        gpu="GPU-a",
        start_ns=start_ns,
        end_ns=end_ns,
        device_ns=end_ns - start_ns,
        wall_ns=end_ns - start_ns,
        launch_ns=(end_ns - start_ns) // 10,
    )
