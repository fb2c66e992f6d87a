"""The times of a stream's tokens: the value of `latencytrace.token_times`.

    1200000;310,5821x19,420;88x3,1x16

The first token's time from the start of the span; then the gaps between tokens in order of
time, in nanoseconds; then, where there were too many, how long those were that are reported
together. `total x count` are so many gaps in a row, together so long. Their lengths are
counted in buckets, 16 to a power of two, `difference x count`: how far a bucket is from the
one before, and how many gaps it holds. So count and sum are exact, and so is every gap that
is reported by itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MAX_GAPS = 128  # reported one by one; of more, the longest are
LONGEST_TOLD = 32  # with what lies between them, 65 entries at most
_PER_OCTAVE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTimes:
    """The tokens of one stream."""

    first_ns: int
    lengths_ns: Sequence[int]  # of gaps, in order of time
    together: Sequence[int]  # for each: 0, one gap reported by itself; else of how many the total
    buckets: Mapping[int, int]  # of the gaps reported together: bucket → how many


def bucket_of(length_ns: int) -> int:
    """The bucket of a length: the middle of it is at most 3.2 % away."""
    shift = length_ns.bit_length() - 5
    return length_ns if shift < 0 else (shift << 4) + (length_ns >> shift)


def least_of(bucket: int) -> int:
    """Return the shortest length of a bucket."""
    shift = max(bucket // _PER_OCTAVE - 1, 0)
    return (bucket - _PER_OCTAVE * shift) << shift


def middle_of(bucket: int) -> int:
    """The length in the middle of a bucket."""
    return (least_of(bucket) + least_of(bucket + 1)) // 2


def pack_token_times(times: TokenTimes, span_start_ns: int) -> str:
    """Write token times as the text of the format above.

    Args:
        times: Of one stream.
        span_start_ns: The start of the span that carries them, on their clock.
    """
    first = max(times.first_ns - span_start_ns, 0)
    if not times.buckets:
        lengths = tuple(times.lengths_ns)
        return f"{first};" + ",".join(["%d"] * len(lengths)) % lengths  # the quickest way
    entries = zip(times.lengths_ns, times.together, strict=True)
    gaps = ",".join([f"{length}x{count}" if count else str(length) for length, count in entries])
    return f"{first};{gaps};{','.join(_differences(times.buckets))}"


def _differences(buckets: Mapping[int, int]) -> Iterable[str]:
    before = 0
    for bucket in sorted(buckets):
        yield f"{bucket - before}x{buckets[bucket]}"
        before = bucket


def unpack_token_times(packed: str, span_start_ns: int) -> TokenTimes:
    """Read the text of the format above.

    Returns:
        Times on the clock of `span_start_ns`.

    Raises:
        ValueError: The text is not of the format, or contradicts itself.
    """
    first, gaps, *more = packed.split(";")
    if len(more) > 1:
        raise ValueError(f"token times have three parts at most, not {len(more) + 2}")
    entries = [_pair(part) for part in filter(None, gaps.split(","))]
    buckets: dict[int, int] = {}
    bucket = 0
    for part in filter(None, "".join(more).split(",")):
        difference, count = _pair(part)
        bucket += difference
        buckets[bucket] = buckets.get(bucket, 0) + count
    if sum(buckets.values()) != sum(together for _, together in entries):
        raise ValueError("token times count other gaps than they tell together")
    if bucket > bucket_of(2**64):
        raise ValueError("token times are longer than time is")
    return TokenTimes(
        first_ns=span_start_ns + _number(first),
        lengths_ns=tuple(length for length, _ in entries),
        together=tuple(together for _, together in entries),
        buckets=buckets,
    )


def _pair(text: str) -> tuple[int, int]:
    value, separator, count = text.partition("x")
    return _number(value), _number(count) if separator else 0


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(2**64))):
        raise ValueError(f"{text[:40]!r} is no number of token times")
    return int(text)
