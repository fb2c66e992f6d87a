"""The GPUs: what they are doing, what held the work on them up, and the requests it was for."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from latencytrace.model.gpu import BandwidthMethod
from latencytrace.model.texts.units import UNKNOWN, grouped, share, size
from latencytrace.service.answers.gpu_documents import (
    BOUND_BY,
    NOTES,
    GpuColumnDocument,
    GpuDocument,
    GpuStageDocument,
    GpuTimelineDocument,
)
from latencytrace.service.web.drawing.gpu_lanes import gpu_lanes
from latencytrace.service.web.pages.cohort_bar import rfc3339, written
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.rendering import Address

STALE_NS: Final = 5_000_000_000
METHODS: Final[Mapping[str, str]] = {
    BandwidthMethod.GPM: "counted by the GPU",
    BandwidthMethod.DCGM: "counted by the GPU, read by DCGM",
    BandwidthMethod.MODELLED: "modelled: at least",
    BandwidthMethod.ESTIMATED: "estimated: at most",
}
MOST_COLUMNS: Final = 20  # of the table behind the picture, the latest first


def gpu_pages(parts: Parts) -> APIRouter:
    """Answer at `/gpu`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/gpu")
    def gpu_page(request: Request) -> Response:
        found = parts.service.gpus()
        over_time = {one["uuid"]: one for one in parts.service.gpu_timelines()["gpus"]}
        files = parts.files(
            request,
            [
                Export("gpus.csv", lambda: found["gpus"]),
                Export("work.csv", lambda: found["stages"]),
                Export("timeline.csv", lambda: timeline_rows([*over_time.values()])),
                *(
                    Export(f"timeline-{uuid}.svg", lambda one=one: gpu_lanes(one))  # type: ignore[misc] # bound now
                    for uuid, one in over_time.items()
                ),
            ],
        )
        if isinstance(files, Response):
            return files
        known = {one["uuid"]: one for one in found["gpus"]}
        context = {
            **files,
            "title": "GPU",
            "path": request.url.path,
            "asked": written(request),
            "gpus": [
                (uuid, known.get(uuid), over_time.get(uuid), work_on(uuid, found["stages"]))
                for uuid in dict.fromkeys(
                    [*known, *over_time, *(row["uuid"] for row in found["stages"])]
                )
            ],
            "lanes": gpu_lanes,
            "facts": facts,
            "remarks": remarks,
            "bound_by": BOUND_BY,
            "notes": lambda row: ", ".join(NOTES.get(note, note) for note in row["notes"]),
            "used": used,
            "requests_of": requests_of,
            "columns": latest,
        }
        return parts.renderer.page("gpu.html", context)

    return router


def work_on(uuid: str, stages: Sequence[GpuStageDocument]) -> list[GpuStageDocument]:
    """The kinds of work on one GPU."""
    return [row for row in stages if row["uuid"] == uuid]


def facts(gpu: GpuDocument) -> list[tuple[str, float | None, str]]:
    """The last readings: name, share of the most there is if that is known, and in words."""
    bandwidth = gpu["bandwidth"]
    rate = bandwidth["bytes_per_second"] if bandwidth else None
    memory, total = gpu["memory_used_bytes"], gpu["memory_total_bytes"]
    found = [
        ("SM active", gpu["sm_active_ratio"], ""),
        (
            "Memory bandwidth",
            bandwidth["utilization_ratio"] if bandwidth else None,
            " ".join(
                [
                    *([f"{size(rate)}/s,"] if rate is not None else []),
                    *([METHODS[bandwidth["method"]]] if bandwidth else []),
                ]
            ),
        ),
        ("Tensor cores", gpu["pipes"].get("tensor_any"), ""),
        ("Kernels running", gpu["kernel_active_ratio"], "of the time, however small they were"),
        (
            "Memory used",
            memory / total if memory is not None and total else None,
            f"{size(memory)} of {size(total)}" if memory is not None and total else "",
        ),
    ]
    return [one for one in found if one[1] is not None]


def remarks(gpu: GpuDocument) -> list[str]:
    """The notes on a GPU now."""
    lines = []
    held = [event for event in gpu["clock_events"] if event != "idle"]
    if held:
        lines.append(f"Clocks are held down by {', '.join(held)}.")
    lines += [
        f"The driver reported Xid {xid}, {grouped(count)} times."
        for xid, count in gpu["xid_errors"].items()
    ]
    if gpu["parent_uuid"] is not None:
        lines.append("It is an instance of a partitioned GPU.")
    return lines


def used(row: GpuStageDocument, counter: str, modelled: float | None) -> str:
    """How much of a counter a kind of work used, with what it is known by."""
    found = row["used"].get(counter)
    if found is not None:
        return f"{share(found['ratio'])} ± {share(found['error_ratio'])}"
    return UNKNOWN if modelled is None else f"at least {share(modelled)}, modelled"


def requests_of(row: GpuStageDocument) -> Address:
    """The requests of the service and the model that a kind of work was for."""
    named = {"service": row["service"], **({"model": row["model"]} if row["model"] else {})}
    return Address(f"/requests?{urlencode(named)}")


def latest(timeline: GpuTimelineDocument) -> list[tuple[GpuColumnDocument, Address]]:
    """The last columns with traced work, the latest first, and the breakdown of each time."""
    found = [column for column in timeline["columns"] if column["works"]]
    return [
        (
            column,
            Address(
                "/breakdown?"
                + urlencode(
                    {
                        "since": rfc3339(int(column["since"])),
                        "until": rfc3339(int(column["until"])),
                    }
                )
            ),
        )
        for column in found[: -MOST_COLUMNS - 1 : -1]
    ]


def timeline_rows(timelines: Sequence[GpuTimelineDocument]) -> list[Mapping[str, object]]:
    """A row for each column of each GPU."""
    return [{"uuid": one["uuid"], **column} for one in timelines for column in one["columns"]]
