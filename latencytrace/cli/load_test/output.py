"""A load for programs: one JSON document, and a JSON line for each request."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from latencytrace.agent.clock import ANCHOR_NS
from latencytrace.cli.load_test.answer import FIRST_TOKEN
from latencytrace.cli.load_test.outcome import Outcome
from latencytrace.cli.load_test.pictures import warnings
from latencytrace.cli.load_test.plan import Arrivals
from latencytrace.cli.load_test.record import LoadRecord, StepRecord
from latencytrace.cli.load_test.summary import RateSummary, knee
from latencytrace.cli.load_test.target import Target
from latencytrace.cli.processes.output_file import check_writable, write_whole
from latencytrace.errors import SettingsError


def document(
    target: Target,
    arrivals: Arrivals,
    seed: int,
    rates: tuple[RateSummary, ...],
    record: LoadRecord,
) -> dict[str, object]:
    """Everything that was measured; durations are nanoseconds, unknown is null."""
    found = knee(rates)
    return {
        "url": target.public_url,
        "method": target.method,
        "arrivals": arrivals.value,
        "seed": seed,
        "timeout_ns": round(target.timeout_s * 1e9),
        "max_in_flight": target.max_in_flight,
        "rates": [{**asdict(rate), "generator_kept_up": rate.generator_kept_up} for rate in rates],
        "knee": None if found is None else asdict(found),
        "limits": asdict(record.limits),
        "formulas": {
            "duration": "last byte - due",
            "time_to_first_byte": "head of the answer - due",
            "time_to_first_token": {
                shape.value: f"{when} - due" for shape, when in FIRST_TOKEN.items()
            },
            "time_per_output_token": "(last token - first token) / (tokens - 1)",
        },
        "spans": None if record.spans is None else asdict(record.spans),
        "warnings": warnings(rates, record.spans),
    }


def require_writable(path: Path) -> None:
    """Fail where a file cannot be written, for before the load is better than after it.

    Raises:
        SettingsError: The file cannot be written.
    """
    with _naming(path):
        check_writable(path)


def write_requests(path: Path, record: LoadRecord) -> None:
    """Write a line for each request, in the order in which they were due.

    Raises:
        SettingsError: The file cannot be written.
    """
    lines = [
        json.dumps(_row(step, outcome))
        for step in record.steps
        for outcome in sorted(step.outcomes, key=lambda each: each.due_ns)
    ]
    with _naming(path):
        write_whole(path, "".join(f"{line}\n" for line in lines).encode())


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None


def _row(step: StepRecord, outcome: Outcome) -> dict[str, object]:
    answer = outcome.answer
    return {
        "trace_id": outcome.trace_id,
        "span_id": outcome.span_id,
        "rate_per_s": step.step.rate_per_s,
        "warm_up": outcome.warm_up,
        "due": str(outcome.due_ns + ANCHOR_NS),
        "late_ns": outcome.late_ns,
        "held_back": outcome.held_back,
        "status": outcome.status,
        "error": outcome.error,
        "duration_ns": outcome.duration_ns,
        "time_to_first_byte_ns": outcome.time_to_first_byte_ns,
        "time_to_first_token_ns": outcome.time_to_first_token_ns,
        "time_per_output_token_ns": outcome.time_per_output_token_ns,
        "inter_token_ns": outcome.token_gaps_ns,
        "output_tokens": outcome.tokens,
        "tokens_reported": None if answer is None else answer.reported_tokens is not None,
        "shape": None if answer is None else answer.shape.value,
    }
