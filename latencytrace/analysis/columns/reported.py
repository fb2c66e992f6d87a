"""Tokens, queues and the like, as the spans of requests carry them: functions to be compiled.

What `analysis.tokens.latency` and `analysis.ledger.circumstances` do object by object; those are
the oracles, and say why each step is taken.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns.facts import (
    CHOICES,
    HAS_FINISH_REASON,
    HAS_MODEL,
    IS_OURS,
    IS_PIECE,
    MAY_BE_OF_ENGINE,
    PAIRS,
    PAIRS_END,
    PREEMPTIONS,
    SERVER,
    TELLS,
    TELLS_TIMES,
)
from latencytrace.analysis.tail.cohort_attributes import MOST_ATTRIBUTES
from latencytrace.analysis.trace.asgi_messages import LEAST_STREAMED
from latencytrace.model import Stage
from latencytrace.model.stage import STAGES

_Column = NDArray[np.int64]
_Flags = NDArray[np.bool_]

UNKNOWN: Final = -(1 << 63)  # no number

# The columns of what spans say
(
    SAID_INPUT, SAID_OUTPUT, SAID_CACHED, SAID_SEQUENCES, SAID_BATCH_SIZE, SAID_STREAMED_TOKENS,
    SAID_STREAMED_EVENTS, SAID_FIRST_BODY, SAID_FIRST_CHUNK, SAID_FIRST_TOKEN, SAID_LEFT,
    SAID_QUEUE_DEPTH, SAID_CONCURRENCY, SAID_PREEMPTIONS, SAID_MODEL, SAID_FINISH_REASON,
    SAID_DECODED, SAID_FIRST_TOLD, SAID_FIRST_EVENT,
) = range(19)  # fmt: skip
SAID: Final = SAID_FIRST_EVENT + 1

# And of what is known of requests
(
    MODEL_CALL, FINISHER, BATCH_SIZE, INPUT, CACHED, OUTPUT, FIRST_TOKEN, FIRST_TOKEN_OF,
    MODELS_FIRST_TOKEN, PER_TOKEN, QUEUE_DEPTH, CONCURRENCY, REQUEST_PREEMPTIONS, COLD_START,
) = range(14)  # fmt: skip
KNOWN: Final = COLD_START + 1
OF_CALLER, OF_MODEL = 1, 2

_PREFILL, _DECODE, _REMOTE_MODEL, _LOAD = (
    STAGES.index(stage) for stage in (Stage.PREFILL, Stage.DECODE, Stage.REMOTE_MODEL, Stage.LOAD)
)
_GENERATING = (_PREFILL, _DECODE, _REMOTE_MODEL)
_SPANS = (MODEL_CALL, FINISHER)


def add_pieces(  # noqa: PLR0913, PLR0917 - columns
    first: _Column,
    rows: _Column,
    above: _Column,
    start_ns: _Column,
    end_ns: _Column,
    kind: _Column,
    facts: _Column,
    said: _Column,
) -> None:
    """Add the first piece that was sent of streamed answers, where their roots say of no body.

    Args:
        first: As of `read_reporters`, like the next five.
        rows: Likewise.
        above: Likewise.
        start_ns: Likewise.
        end_ns: Likewise.
        kind: Likewise.
        facts: Likewise.
        said: Gets it as the first body.
    """
    for request in range(len(first) - 1):
        base = first[request]
        root = rows[base]
        length_ns = end_ns[root] - start_ns[root]
        pieces, first_ns = 0, UNKNOWN
        for at in range(base + 1, first[request + 1]):
            row = rows[at]
            if facts[kind[row], IS_PIECE]:
                of = above[at]
                while of > base and not facts[kind[rows[of]], SERVER]:  # else another's answer
                    of = above[of]
                if of == base:
                    pieces += 1
                    if first_ns == UNKNOWN or end_ns[row] - start_ns[root] < first_ns:
                        first_ns = end_ns[row] - start_ns[root]
        has_body = 0 <= said[root, SAID_FIRST_BODY] <= length_ns
        if pieces >= LEAST_STREAMED and 0 <= first_ns <= length_ns and not has_body:
            said[root, SAID_FIRST_BODY] = first_ns


def read_reporters(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - columns, and loops without calls
    first: _Column,
    rows: _Column,
    above: _Column,
    begin_ns: _Column,
    finish_ns: _Column,
    stages: _Column,
    intervals: _Column,
    interval_start_ns: _Column,
    interval_end_ns: _Column,
    interval_stage: _Column,
    start_ns: _Column,
    end_ns: _Column,
    span_id: _Column,
    kind: _Column,
    facts: _Column,
    said: _Column,
) -> _Column:
    """Read the tokens of requests, and what they met, off their spans.

    Args:
        first: Where each request's tree begins, as the next six from `trees.lay_out_trees`.
        rows: Of each place in a tree the span.
        above: Its parent's place.
        begin_ns: Its start, clipped.
        finish_ns: Its end, clipped.
        stages: Its stage.
        intervals: Where its intervals begin.
        interval_start_ns: Their starts.
        interval_end_ns: Their ends.
        interval_stage: Their stages.
        start_ns: By span, as sent.
        end_ns: Likewise.
        span_id: As signed numbers of the same order.
        kind: Of each span its row of the facts.
        facts: See `analysis.columns.facts`.
        said: By span, see above (n, `SAID`).

    Returns:
        See above (r, `KNOWN`).
    """
    known = np.full((len(first) - 1, KNOWN), UNKNOWN, np.int64)
    is_call = np.zeros(len(rows), np.bool_)
    covered = np.zeros(len(rows), np.bool_)
    counts_as = np.zeros(len(rows), np.bool_)  # a span that tells the tokens of decode spans
    for request in range(len(first) - 1):
        base, beyond = first[request], first[request + 1]
        root = rows[base]

        # The model calls: the outermost that say output tokens, or else input tokens.
        calls = 0
        for what in (SAID_OUTPUT, SAID_INPUT):
            for at in range(base, beyond):
                is_call[at] = False
                covered[at] = at > base and covered[above[at]]
                if said[rows[at], what] != UNKNOWN and not covered[at]:
                    is_call[at] = covered[at] = True
                    calls += 1
            if calls:
                break

        # What the one that ended last says, of those that say it.
        may_be_of_engine = False
        for at in range(base, beyond):
            if facts[kind[rows[at]], MAY_BE_OF_ENGINE]:
                may_be_of_engine = True
        for what in (MODEL_CALL, FINISHER, BATCH_SIZE, -1):
            if what < 0 and (known[request, BATCH_SIZE] != UNKNOWN or not may_be_of_engine):
                continue
            last = -1
            last_end_ns = last_start_ns = 0
            for at in range(base, beyond):
                row = rows[at]
                if calls and what >= 0:
                    if not is_call[at]:
                        continue
                    from_ns, to_ns = start_ns[row], end_ns[row]
                else:
                    if not facts[kind[row], TELLS]:
                        continue
                    from_ns, to_ns = begin_ns[at], finish_ns[at]
                if what == MODEL_CALL:
                    says = facts[kind[row], HAS_MODEL] != 0 or said[row, SAID_MODEL] > 0
                elif what == FINISHER:
                    says = (
                        facts[kind[row], HAS_FINISH_REASON] != 0
                        or said[row, SAID_FINISH_REASON] > 0
                    )
                else:
                    says = said[row, SAID_BATCH_SIZE] != UNKNOWN
                if says and (
                    last < 0
                    or to_ns > last_end_ns
                    or (
                        to_ns == last_end_ns
                        and (
                            from_ns > last_start_ns
                            or (from_ns == last_start_ns and span_id[row] > span_id[last])
                        )
                    )
                ):
                    last, last_end_ns, last_start_ns = row, to_ns, from_ns
            if last < 0:
                continue
            if what in _SPANS:
                known[request, what] = last
            else:
                known[request, BATCH_SIZE] = said[last, SAID_BATCH_SIZE]

        # Counts.
        for at in range(base, beyond):
            if is_call[at]:
                for what, total in (
                    (SAID_INPUT, INPUT), (SAID_CACHED, CACHED), (SAID_OUTPUT, OUTPUT)
                ):  # fmt: skip
                    count = said[rows[at], what]
                    if count != UNKNOWN:
                        if known[request, total] == UNKNOWN:
                            known[request, total] = 0
                        known[request, total] += count

        # First tokens.
        models_ns = engines_ns = prefilled_ns = UNKNOWN
        generates = loaded = False
        decoded_ns = following = 0
        for at in range(base, beyond):
            row = rows[at]
            if stages[at] in _GENERATING:
                generates = True
            if stages[at] == _LOAD:
                loaded = True
            if stages[at] == _PREFILL and (prefilled_ns == UNKNOWN or end_ns[row] < prefilled_ns):
                prefilled_ns = end_ns[row]
            for one in range(intervals[at], intervals[at + 1]):
                if interval_stage[one] == _LOAD:
                    loaded = True
                if interval_end_ns[one] >= finish_ns[at] and end_ns[row] > finish_ns[at]:
                    continue  # it is cut short
                if interval_stage[one] == _PREFILL and (
                    prefilled_ns == UNKNOWN or interval_end_ns[one] < prefilled_ns
                ):
                    prefilled_ns = interval_end_ns[one]
            length_ns = end_ns[row] - start_ns[row]
            after_ns = said[row, SAID_FIRST_TOKEN]
            if 0 <= after_ns <= length_ns and (
                engines_ns == UNKNOWN or start_ns[row] + after_ns < engines_ns
            ):
                engines_ns = start_ns[row] + after_ns
            # What a request's own span says of its first chunk is its caller's.
            if at > base and after_ns == UNKNOWN:
                after_ns = said[row, SAID_FIRST_EVENT]
            if at == base or after_ns == UNKNOWN:
                after_ns = said[row, SAID_FIRST_TOLD]
            if at > base and said[row, SAID_FIRST_CHUNK] != UNKNOWN:
                after_ns = said[row, SAID_FIRST_CHUNK]
            if 0 <= after_ns <= length_ns and (
                models_ns == UNKNOWN or start_ns[row] + after_ns < models_ns
            ):
                models_ns = start_ns[row] + after_ns
        if prefilled_ns != UNKNOWN:
            models_ns = prefilled_ns
        if engines_ns != UNKNOWN:
            models_ns = engines_ns
        is_there = UNKNOWN < models_ns <= finish_ns[base]  # else the caller had gone by then
        models_ns = max(models_ns, begin_ns[base]) - begin_ns[base] if is_there else UNKNOWN
        left_ns = said[root, SAID_FIRST_CHUNK]
        if left_ns == UNKNOWN:
            left_ns = said[root, SAID_FIRST_EVENT]
        if not 0 <= left_ns <= end_ns[root] - start_ns[root]:
            left_ns = UNKNOWN
        if left_ns == UNKNOWN and (models_ns != UNKNOWN or generates):
            left_ns = said[root, SAID_FIRST_BODY]
            if not 0 <= left_ns <= end_ns[root] - start_ns[root]:
                left_ns = UNKNOWN
        known[request, MODELS_FIRST_TOKEN] = models_ns
        if left_ns != UNKNOWN:
            known[request, FIRST_TOKEN_OF] = OF_CALLER
            known[request, FIRST_TOKEN] = left_ns
        elif models_ns != UNKNOWN:
            known[request, FIRST_TOKEN_OF] = OF_MODEL
            known[request, FIRST_TOKEN] = models_ns

        # Time per token: of those that left for the caller; else of decode spans.
        tokens, events = said[root, SAID_STREAMED_TOKENS], said[root, SAID_STREAMED_EVENTS]
        choices = facts[kind[root], CHOICES]
        all_left_ns = said[root, SAID_LEFT] * choices
        reported = known[request, OUTPUT]
        if tokens <= 0 < events and reported != UNKNOWN and reported <= events + choices:
            tokens = events
        per_token_ns = 0
        if tokens > 0:
            per_token_ns = int(np.rint(all_left_ns / tokens))
        all_following = engines_following = engines_decoded_ns = 0
        for at in range(base, beyond):
            row = rows[at]
            if is_call[at] and said[row, SAID_OUTPUT] != UNKNOWN:
                sequences = max(said[row, SAID_SEQUENCES], 0)
                if not sequences:
                    sequences = 1
                each = max(said[row, SAID_OUTPUT] // sequences - 1, 0)
                all_following += each
                if said[row, SAID_DECODED] != UNKNOWN:
                    engines_following += each
            if is_call[at] and said[row, SAID_DECODED] != UNKNOWN:
                engines_decoded_ns += said[row, SAID_DECODED]
        if not per_token_ns and engines_following:
            per_token_ns = int(np.rint(engines_decoded_ns / engines_following))
        if not per_token_ns:
            for at in range(base, beyond):
                if stages[at] != _DECODE:
                    continue
                reporter = at
                if above[at] >= 0 and said[rows[at], SAID_OUTPUT] == UNKNOWN:
                    reporter = above[at]
                output = said[rows[reporter], SAID_OUTPUT]
                if output <= 0:
                    continue
                decoded_ns += end_ns[rows[at]] - start_ns[rows[at]]
                if not counts_as[reporter]:
                    counts_as[reporter] = True
                    sequences = said[rows[reporter], SAID_SEQUENCES]
                    if sequences <= 0:
                        sequences = 1
                    following += max(output // sequences - 1, 0)
            if following:
                per_token_ns = int(np.rint(decoded_ns / following))
        if not per_token_ns and all_following:
            decoded_ns = 0
            for at in range(base, beyond):
                if facts[kind[rows[at]], TELLS_TIMES]:
                    for one in range(intervals[at], intervals[at + 1]):
                        if interval_stage[one] == _DECODE:
                            decoded_ns += interval_end_ns[one] - interval_start_ns[one]
            per_token_ns = int(np.rint(decoded_ns / all_following))
        if not per_token_ns and events > 0:
            reported = max(reported, 0) * events // (events + choices)
            per_token_ns = int(np.rint(all_left_ns / max(events, reported)))
        if per_token_ns:
            known[request, PER_TOKEN] = per_token_ns

        # What it met.
        known[request, CONCURRENCY] = said[root, SAID_CONCURRENCY]
        for at in range(base, beyond):
            row = rows[at]
            depth = said[row, SAID_QUEUE_DEPTH]
            known[request, QUEUE_DEPTH] = max(known[request, QUEUE_DEPTH], depth)
            more = said[row, SAID_PREEMPTIONS]
            if more != UNKNOWN or facts[kind[row], PREEMPTIONS]:
                if known[request, REQUEST_PREEMPTIONS] == UNKNOWN:
                    known[request, REQUEST_PREEMPTIONS] = 0
                known[request, REQUEST_PREEMPTIONS] += max(more, 0) + facts[kind[row], PREEMPTIONS]
        if loaded or facts[kind[root], IS_OURS]:
            known[request, COLD_START] = 1 if loaded else 0
    return known


def tell_attributes(  # noqa: C901, PLR0913, PLR0917 - columns, and loops without calls
    requests: _Column,
    tree_first: _Column,
    tree_rows: _Column,
    first: _Column,
    by_start: _Column,
    kind: _Column,
    facts: _Column,
    reported: _Column,
    varying: _Column,
    varying_number: _Column,
    pairs: int,
) -> tuple[_Column, _Column]:
    """The attributes that requests may be asked for by, each once.

    Args:
        requests: From `trees.link_spans`.
        tree_first: Where each request's tree begins.
        tree_rows: Of each place in a tree the span.
        first: Where each trace begins.
        by_start: The rows of each trace in order of start.
        kind: Of each span its row of the facts.
        facts: See `analysis.columns.facts`.
        reported: See there.
        varying: By attribute that varies, where it is in the next.
        varying_number: There and by span its number; below 0: none to tell.
        pairs: How many numbers there are.

    Returns:
        The first ones of each request (r, `MOST_ATTRIBUTES`), -1 beyond; how many there are.
    """
    found = np.full((len(requests), MOST_ATTRIBUTES), -1, np.int64)
    counted = np.zeros(len(requests), np.int64)
    seen = np.full(pairs, -1, np.int64)
    inside = np.full(len(by_start), -1, np.int64)
    for request in range(len(requests)):
        root, trace = requests[request, 0], requests[request, 1]
        for at in range(tree_first[request], tree_first[request + 1]):
            inside[tree_rows[at]] = request
        made = 0
        for at in range(first[trace] - 1, first[trace + 1]):
            row = root
            if at >= first[trace]:
                row = by_start[at]
                if row == root or inside[row] != request:
                    continue
            for one in range(facts[kind[row], PAIRS], facts[kind[row], PAIRS_END]):
                pair = reported[one]
                if pair < 0:
                    pair = varying_number[varying[-1 - pair], row]
                    if pair < 0:
                        continue
                if seen[pair] == request:
                    continue
                seen[pair] = request
                if made < MOST_ATTRIBUTES:
                    found[request, made] = pair
                made += 1
        counted[request] = made
    return found, counted
