"""Reads a `dcgm-exporter`'s `/metrics`: how much of its memory's bandwidth each GPU used.

Source: its default counters (`DCGM_FI_PROF_DRAM_ACTIVE`, a ratio since the value before; since
2026 also `DCGM_FI_PROF_DRAM_UTIL_RATIO`) and its labels `gpu`, `UUID` and `modelName`.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from latencytrace.errors import ScrapeError

_NAMES: Final = frozenset({"DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO"})
_PREFIX: Final = "DCGM_FI_"  # of all its names
_INSTANCE: Final = "GPU_I_ID"  # of a partitioned GPU: its own UUID is not shown


@dataclass(frozen=True, slots=True)
class DcgmReading:
    """The share of its memory's peak bandwidth that one GPU used."""

    uuid: str
    index: str
    name: str
    bandwidth_ratio: float


def dcgm_readings(text: str) -> tuple[DcgmReading, ...]:
    """Return the readings in the text of a `/metrics`, each GPU once; none in another's text.

    Raises:
        ScrapeError: It is the exporter's, and has no bandwidth of a whole GPU.
    """
    if _PREFIX not in text:
        return ()
    lines = (line for line in text.splitlines() if line.partition("{")[0] in _NAMES)
    found: dict[str, DcgmReading] = {}
    try:
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            for sample in family.samples:
                reading = _reading(sample)
                if reading is not None:
                    found[reading.uuid] = reading
    except (ValueError, IndexError, KeyError) as error:
        raise ScrapeError(f"it answers with no metrics of Prometheus: {error}") from None
    if not found:
        raise ScrapeError(
            "this dcgm-exporter shows no bandwidth of a whole GPU: have it collect "
            "DCGM_FI_PROF_DRAM_ACTIVE"
        )
    return tuple(found.values())


def _reading(sample: Sample) -> DcgmReading | None:
    """None: it is of no whole GPU, or no number; DCGM leaves what it cannot read out."""
    labels, ratio = sample.labels, sample.value
    uuid = labels.get("UUID", "")
    if not uuid or labels.get(_INSTANCE) or not isfinite(ratio) or not 0 <= ratio <= 1:
        return None
    return DcgmReading(uuid, labels.get("gpu", ""), labels.get("modelName", ""), ratio)
