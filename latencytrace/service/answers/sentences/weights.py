"""Requests that were recorded, where senders sampled: each counts by its weight."""

from collections.abc import Iterator, Mapping


def recorded_note(document: Mapping[str, object], of: str = "") -> Iterator[str]:
    """How many of its requests an answer rests on, if not on all.

    Args:
        document: With `requests` and `recorded_requests`; of an older service without.
        of: Which of two sides, `before`.
    """
    rows = document.get("recorded_requests")
    if rows is not None:
        requests = f"{rows:,} of {document['requests']:,} requests{of and f' {of}'}"
        yield f"{requests} were recorded: they count by weight."
