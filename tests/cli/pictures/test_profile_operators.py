"""The operators of a profile, from a trace as torch's profiler writes it."""

import gzip
import json

import pytest

from latencytrace.cli.pictures.profile_operators import Operator, operators
from latencytrace.errors import ProfileError


def call(
    name: str, ts: float, dur: float, tid: int = 1, external: int | None = None
) -> dict[str, object]:
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": name,
        "ts": ts,
        "dur": dur,
        "tid": tid,
        "args": {} if external is None else {"External id": external},
    }


def kernel(name: str, dur: float, external: int | None = None) -> dict[str, object]:
    return call(name, 0, dur, 7, external) | {"cat": "kernel"}


def packed(*events: dict[str, object]) -> bytes:
    return gzip.compress(json.dumps({"traceEvents": events}).encode())


def test_an_operator_has_its_time_without_those_that_it_calls() -> None:
    trace = packed(
        call("linear", 0, 100), call("addmm", 10, 60), call("copy", 20, 5), call("linear", 200, 50)
    )

    assert operators(trace) == [
        Operator("linear", calls=2, cpu_us=90),
        Operator("addmm", calls=1, cpu_us=55),
        Operator("copy", calls=1, cpu_us=5),
    ]


def test_threads_do_not_call_each_other() -> None:
    trace = packed(call("a", 0, 100, tid=1), call("b", 10, 60, tid=2))

    assert [one.cpu_us for one in operators(trace)] == [100, 60]


def test_kernels_count_for_the_operator_that_launched_them() -> None:
    trace = packed(
        call("mm", 0, 10, external=3),
        call("add", 20, 30),
        kernel("gemm", 500, external=3),
        kernel("copy_kernel", 20),
        {"ph": "i", "name": "an instant"},
    )

    assert operators(trace) == [
        Operator("mm", calls=1, cpu_us=10, device_us=500),
        Operator("copy_kernel", device_us=20),
        Operator("add", calls=1, cpu_us=30),
    ]


@pytest.mark.parametrize(
    "torn",
    [b"", b"no gzip", gzip.compress(b"{"), gzip.compress(b"[]"), packed(call("a", 0, 1))[:-9]],
    ids=["empty", "no_gzip", "no_json", "a_list", "cut"],
)
def test_a_torn_trace_is_said(torn: bytes) -> None:
    with pytest.raises(ProfileError, match="cannot be read"):
        operators(torn)
