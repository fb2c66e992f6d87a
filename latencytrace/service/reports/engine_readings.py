"""Reads an engine's `/metrics`: which engine it is, and its readings of each model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from statistics import fmean
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from latencytrace.errors import ScrapeError
from latencytrace.service.reports.engine_names import (
    ENGINES,
    FORMS,
    MODEL_LABELS,
    SAME_ON,
    Form,
    Reading,
    Source,
)

EngineModel = tuple[str, str]  # an engine and a model, which is empty where it names none
Readings = Mapping[EngineModel, Mapping[Reading, float]]

_RAY: Final = "ray_"  # what Ray Serve puts before the metrics of the engine in it
_NAMES: Final = frozenset(
    source.name
    for readings in ENGINES.values()
    for sources in readings.values()
    for source in sources
)


def engine_readings(text: str) -> Readings:
    """Return the readings in the text of a `/metrics`, by engine and model.

    Raises:
        ScrapeError: It is no such text, or of no engine that is known.
    """
    by_name: dict[str, list[Sample]] = {}
    for sample in _samples(text):
        by_name.setdefault(_plain(sample.name), []).append(sample)
    found: dict[EngineModel, dict[Reading, float]] = {}
    for engine, readings in ENGINES.items():
        for reading, sources in readings.items():
            for model, value in _values(reading, sources, by_name).items():
                found.setdefault((engine, model), {})[reading] = value
    if not found:
        raise ScrapeError(f"it has metrics of none of {', '.join(ENGINES)}")
    return found


def _values(
    reading: Reading, sources: Sequence[Source], by_name: Mapping[str, Sequence[Sample]]
) -> dict[str, float]:
    """A reading by model: of the first source that knows it."""
    values: dict[str, float] = {}
    form = FORMS.get(reading)
    for source in sources:
        parts: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
        for sample in by_name.get(source.name, ()):
            labels = sample.labels
            if any(labels.get(name, "") != wanted for name, wanted in source.where):
                continue
            model = next((labels[name] for name in MODEL_LABELS if name in labels), "")
            part = tuple(sorted(pair for pair in labels.items() if pair[0] not in SAME_ON))
            of_model = parts.setdefault(model, {})
            of_model[part] = max(of_model.get(part, 0.0), sample.value)
        for model, of_model in parts.items():
            value = _whole(form, list(of_model.values()))
            if value is not None:
                values.setdefault(model, value)
    return values


def _whole(form: Form | None, parts: Sequence[float]) -> float | None:
    """One value of several parts of an engine; None: it is none."""
    if form is not None and form.is_mean:
        return fmean(parts) or None
    return max(parts) if form is not None and form.is_share else sum(parts)


def _samples(text: str) -> Iterator[Sample]:
    """Samples that a table names; what else stands there need not even be well formed."""
    wanted = "\n".join(_wanted(text.splitlines()))
    try:
        for family in text_string_to_metric_families(f"{wanted}\n"):
            yield from (sample for sample in family.samples if _is_known(sample.value))
    except (ValueError, IndexError, KeyError) as error:
        raise ScrapeError(f"it answers with no metrics of Prometheus: {error}") from None


def _wanted(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        name = line.partition("{")[0].partition(" ")[0]
        if _plain(name) in _NAMES:
            yield line


def _is_known(value: float) -> bool:
    return isfinite(value) and value >= 0


def _plain(name: str) -> str:
    return name.removeprefix(_RAY).replace(":", "_")
