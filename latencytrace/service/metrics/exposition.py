"""Metrics as scrapers ask for them: text with or without exemplars, or protobuf.

The client takes 20 µs for a line of text, and there are 98 000: so it writes only the few families
that are no counter, gauge or histogram of many series. `tests/benchmarks/bench_scrape.py` compares
both.
"""

import gzip
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from latencytrace.service.metrics.histograms import SeriesFamily
from latencytrace.service.metrics.protobuf import PROTOBUF, encoded

_END: Final = b"# EOF\n"
_OPEN_METRICS: Final = "application/openmetrics-text"
_FASTEST: Final = 1  # a sixth more bytes than the best, in a fifth of the time
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_ANY: Final = {"*", "gzip"}
_PLAIN: Final = {"counter", "gauge"}


class Scrape(NamedTuple):
    """The answer to a scraper."""

    body: bytes
    media_type: str
    is_packed: bool  # by gzip


def scrape(registry: CollectorRegistry, accept: str, accept_encoding: str) -> Scrape:
    """Read all metrics in the form that a scraper prefers.

    Args:
        accept: The header of that name; the empty one asks for text without exemplars.
        accept_encoding: Value of the `Accept-Encoding` header.
    """
    if _wants_protobuf(accept):
        body, media_type = encoded(registry.collect()), PROTOBUF
    else:
        body, media_type = _text(registry.collect(), accept)
    is_packed = _takes_gzip(accept_encoding)
    if is_packed:
        body = gzip.compress(body, _FASTEST, mtime=0)
    return Scrape(body, media_type, is_packed)


class _Others(Collector):
    """The families that only the client writes."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _text(families: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    others: list[Metric] = []
    encode, media_type = choose_encoder(accept)
    is_open = media_type.startswith(_OPEN_METRICS)
    lines: list[str] = []
    for family in families:
        if isinstance(family, SeriesFamily):
            lines += _lines(family, exemplars=is_open)
        elif family.type in _PLAIN:
            lines += _plain_lines(family, is_open=is_open)
        else:
            others.append(family)
    end = _END if is_open else b""
    rest = encode(_Others(others)).removesuffix(end)
    return rest + "".join(lines).encode() + end, media_type


def _plain_lines(family: Metric, *, is_open: bool) -> Iterator[str]:
    """The lines of a counter or gauge; none of ours has exemplars or times of its own."""
    name = family.name if is_open or family.type == "gauge" else f"{family.name}_total"
    yield f"# HELP {name} {family.documentation}\n# TYPE {name} {family.type}\n"
    for sample in family.samples:
        labels = ",".join(
            f'{label}="{value.translate(_ESCAPES)}"' for label, value in sample.labels.items()
        )
        shown = f"{{{labels}}}" if labels else ""
        value = floatToGoString(sample.value)  # type: ignore[no-untyped-call] # untyped there
        yield f"{sample.name}{shown} {value}\n"


def _lines(family: SeriesFamily, *, exemplars: bool) -> Iterator[str]:
    name = family.name
    yield f"# HELP {name} {family.documentation}\n# TYPE {name} histogram\n"
    heads = [f'{name}_bucket{{le="{bound}",' for bound in family.bound_names]
    for series in family.series:
        pairs = zip(family.label_names, series.labels, strict=True)
        labels = ",".join(f'{label}="{value.translate(_ESCAPES)}"' for label, value in pairs)
        until = 0
        for head, count, seen in zip(heads, series.counts, series.exemplars, strict=True):
            until += count
            if seen is None or not exemplars:
                yield f"{head}{labels}}} {until}\n"
            else:
                seconds, trace_id, at_s = seen
                shown = f'# {{trace_id="{trace_id}"}} {seconds!r} {at_s!r}'
                yield f"{head}{labels}}} {until} {shown}\n"
        yield f"{name}_count{{{labels}}} {until}\n{name}_sum{{{labels}}} {series.total!r}\n"


def _wants_protobuf(accept: str) -> bool:
    """Tell whether protobuf is what a scraper prefers; it sends its preferences in order."""
    preferred, best = "", 0.0
    for one in accept.split(","):
        media_type, *parameters = (part.strip() for part in one.split(";"))
        weight = _weight(parameters)
        if weight > best:
            preferred, best = media_type, weight
            is_ours = {"proto=io.prometheus.client.MetricFamily", "encoding=delimited"}
            if media_type == PROTOBUF.partition(";")[0] and not is_ours <= {*parameters}:
                preferred = ""
    return preferred == PROTOBUF.partition(";")[0]


def _takes_gzip(accept_encoding: str) -> bool:
    for one in accept_encoding.split(","):
        name, *parameters = (part.strip() for part in one.split(";"))
        if name.lower() in _ANY:
            return _weight(parameters) > 0
    return False


def _weight(parameters: Iterable[str]) -> float:
    for one in parameters:
        name, _, value = one.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
