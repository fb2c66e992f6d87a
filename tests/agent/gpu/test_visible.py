"""Which GPUs a program sees."""

from dataclasses import replace

import pytest

from latencytrace.agent.gpu.watch import visible_gpus
from tests.support.fakes.contracts import GPU

GPUS = [replace(GPU, uuid=f"GPU-{letter}0", index=at) for at, letter in enumerate("abcd")]
INSTANCES = [replace(GPU, uuid=f"MIG-{letter}", index=0, parent_uuid="GPU-a0") for letter in "xy"]
MIXED = [GPUS[0], replace(GPUS[1], name="NVIDIA L4")]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (None, ["GPU-a0", "GPU-b0", "GPU-c0", "GPU-d0"]),
        ("2,0", ["GPU-c0", "GPU-a0"]),
        ("GPU-d0, GPU-b", ["GPU-d0", "GPU-b0"]),
        ("1,7,2", ["GPU-b0"]),
        ("1,-1,2", ["GPU-b0"]),
        ("GPU-", []),
        ("1,1", []),
        ("", []),
        ("NoDevFiles", []),
        ("MIG-y", ["MIG-y"]),
        ("MIG-x,MIG-y", ["MIG-x"]),
    ],
    ids=[
        "not set",
        "numbers",
        "beginnings of UUIDs",
        "up to one that is not there",
        "up to a negative number",
        "the beginning of several",
        "one twice",
        "empty",
        "no name",
        "an instance",
        "one instance at most",
    ],
)
def test_the_variable_is_read_as_cuda_does(text: str | None, seen: list[str]) -> None:
    found = visible_gpus(text, [*GPUS, *INSTANCES], in_bus_order=True)

    assert found is not None
    assert [gpu.uuid for gpu in found] == seen


def test_of_gpus_that_differ_the_numbers_are_cudas_own() -> None:
    assert visible_gpus("0", MIXED, in_bus_order=False) is None
    assert visible_gpus(None, MIXED, in_bus_order=False) is None


def test_their_uuids_are_not() -> None:
    assert visible_gpus("GPU-b0", MIXED, in_bus_order=False) == (MIXED[1],)


def test_of_gpus_that_are_alike_the_order_does_not_matter() -> None:
    assert visible_gpus("1", GPUS, in_bus_order=False) == (GPUS[1],)
