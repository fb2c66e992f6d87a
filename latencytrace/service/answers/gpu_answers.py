"""GPUs and the work on them, as documents of the API."""

from collections.abc import Mapping, Sequence

from latencytrace.analysis.gpu.bound import NO_PEAKS, DeviceTimes, Peaks, verdict
from latencytrace.analysis.gpu.join import DeviceUse, Kind, device_use
from latencytrace.analysis.gpu.over_time import GpuOverTime, over_time
from latencytrace.model.gpu import BandwidthMethod, DeviceWork, GpuMetric
from latencytrace.model.stage import Stage
from latencytrace.service.answers.documents import document
from latencytrace.service.answers.gpu_documents import (
    BandwidthDocument,
    GpuColumnDocument,
    GpuDocument,
    GpusDocument,
    GpuStageDocument,
    GpuTimelineDocument,
    GpuTimelinesDocument,
    UsedDocument,
)
from latencytrace.service.reports.device_works import DeviceWorks
from latencytrace.service.reports.gpus import GpuReports, Key, KnownGpu, of_metric


def gpus(reports: GpuReports, works: DeviceWorks) -> GpusDocument:
    """Every GPU reported in the last hour, and what each kind of work did there."""
    known = reports.gpus()
    uuids = dict.fromkeys([*(gpu.device.uuid for gpu in known), *works.gpus()])
    return GpusDocument(
        gpus=[_gpu(reports, gpu) for gpu in known],
        stages=[row for uuid in uuids for row in _stages(uuid, reports, works.on(uuid))],
    )


def timelines(reports: GpuReports, works: DeviceWorks) -> GpuTimelinesDocument:
    """The last hour of every GPU that was read or had traced work."""
    uuids = dict.fromkeys([*(gpu.device.uuid for gpu in reports.gpus()), *works.gpus()])
    laid_out = ((uuid, over_time(reports.windows(uuid), works.on(uuid))) for uuid in uuids)
    return GpuTimelinesDocument(
        gpus=[_timeline(uuid, found) for uuid, found in laid_out if found is not None]
    )


def _timeline(uuid: str, found: GpuOverTime) -> GpuTimelineDocument:
    ratios = found.ratios
    columns = zip(
        ratios["sm_ratio"], ratios["bandwidth_ratio"], ratios["tensor_ratio"],
        ratios["engine_ratio"], found.throttled, found.device_ns, found.works, strict=True,
    )  # fmt: skip
    return GpuTimelineDocument(
        uuid=uuid,
        since=str(found.since_ns),
        until=str(found.until_ns),
        column_ns=found.column_ns,
        columns=[
            GpuColumnDocument(
                since=str(found.since_ns + place * found.column_ns),
                until=str(found.since_ns + (place + 1) * found.column_ns),
                sm_ratio=sm,
                bandwidth_ratio=bandwidth,
                tensor_ratio=tensor,
                engine_ratio=engine,
                throttled=throttled,
                device_ns=device_ns,
                works=begun,
            )
            for place, (sm, bandwidth, tensor, engine, throttled, device_ns, begun) in enumerate(
                columns
            )
        ],
    )


def _gpu(reports: GpuReports, gpu: KnownGpu) -> GpuDocument:
    values = reports.fresh(gpu)
    device = gpu.device
    events = of_metric(values, GpuMetric.CLOCK_EVENT)
    return document(
        GpuDocument,
        device,
        silent_ns=reports.silent_ns(gpu),
        bandwidth=_bandwidth(values),
        kernel_active_ratio=values.get((GpuMetric.KERNEL_ACTIVE, None)),
        engine_active_ratio=values.get((GpuMetric.ENGINE_ACTIVE, None)),
        sm_active_ratio=values.get((GpuMetric.SM_ACTIVE, None)),
        sm_occupancy_ratio=values.get((GpuMetric.SM_OCCUPANCY, None)),
        pipes=of_metric(values, GpuMetric.PIPE_ACTIVE),
        memory_used_bytes=values.get((GpuMetric.MEMORY_USED, None)),
        memory_total_bytes=values.get((GpuMetric.MEMORY_TOTAL, None)),
        power_watts=values.get((GpuMetric.POWER, None)),
        energy_joules=values.get((GpuMetric.ENERGY, None)),
        temperatures_celsius=of_metric(values, GpuMetric.TEMPERATURE),
        clocks_hertz=of_metric(values, GpuMetric.CLOCK),
        clock_events=[reason for reason, is_active in events.items() if is_active],
        pcie_bytes_per_second=of_metric(values, GpuMetric.PCIE),
        nvlink_bytes_per_second=of_metric(values, GpuMetric.NVLINK),
        ecc_errors=of_metric(values, GpuMetric.ECC_ERRORS),
        xid_errors=of_metric(values, GpuMetric.XID_ERRORS),
    )


def _bandwidth(values: Mapping[Key, float]) -> BandwidthDocument | None:
    """The share used, by the best method that there is."""
    shares = of_metric(values, GpuMetric.BANDWIDTH_UTILIZATION)
    for method in BandwidthMethod:
        if method.value in shares:
            return BandwidthDocument(
                method=method.value,
                utilization_ratio=shares[method.value],
                bytes_per_second=values.get((GpuMetric.BANDWIDTH, method.value)),
                peak_bytes_per_second=values.get((GpuMetric.BANDWIDTH_PEAK, None)),
            )
    return None


def _stages(uuid: str, reports: GpuReports, work: Sequence[DeviceWork]) -> list[GpuStageDocument]:
    of_kind: dict[Kind, list[DeviceWork]] = {}
    for one in work:
        of_kind.setdefault(Kind.of(one), []).append(one)
    uses = device_use(reports.windows(uuid), work)
    peaks = reports.peaks(uuid)
    rows = [
        stage_document(uuid, kind, pieces, uses.get(kind, DeviceUse()), peaks)
        for kind, pieces in of_kind.items()
    ]
    return sorted(rows, key=lambda row: -row["device_ns"])


def stage_document(
    uuid: str,
    kind: Kind,
    work: Sequence[DeviceWork],
    use: DeviceUse,
    peaks: Peaks = NO_PEAKS,
) -> GpuStageDocument:
    times = DeviceTimes.of(work)
    copies = kind.stage is Stage.TRANSFER
    judged = verdict(times, use, peaks=peaks, copies=copies)
    return document(
        GpuStageDocument,
        kind,
        judged,
        times,
        uuid=uuid,
        spans=len(work),
        windows=use.window_count,
        coverage_ratio=use.coverage_ratio,
        used={name: document(UsedDocument, one) for name, one in use.used.items()},
        modelled_bandwidth_ratio=times.modelled_bandwidth(peaks.bytes_per_s),
        modelled_tensor_ratio=times.modelled_tensor(peaks.flops_per_s),
    )
