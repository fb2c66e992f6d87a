"""Compiled code over columns of spans: what is suspicious, which shape, which texts.

0.5 µs of CPU a span of nine attributes, all together (`tests/benchmarks/bench_ingest.py`).
"""
# mypy: ignore-errors
# To mypy the compiler's numbers are no ints.
# ruff: noqa: ANN401, C901, PLR0912, PLR0913, PLR0917, PLR1714, PLR2004, SIM109, SIM110 - for the compiler

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from latencytrace.service.otlp.compiled.telling import COLON, HIT, SECRET_WORD
from latencytrace.service.otlp.compiled.wire import mixed, text_hash

Array = NDArray[Any]

NONE, STRING, BOOL, INT, DOUBLE, ARRAY, MAP, BYTES = range(8)  # see `values.Form`

# What a rule does with texts.
ALWAYS_CONTENT, ASK, PLAIN, NO_JSON, LETTERS_ALONE = range(5)


_compiled = numba.njit(nogil=True, cache=True, error_model="numpy", _nrt=False)  # see `wire`


_START = 0x1F3D5B799B5D3F1D  # of a hash of small numbers: no few of them lead to 0


class Filter(NamedTuple):
    """Rules that `judge` knows, by their number, and letters."""

    how: Array  # one of the five above
    longest: Array  # bytes of a text that is not asked about
    takes_numbers: Array
    takes_empty: Array  # texts
    takes_lists: Array
    takes_key: Array
    classes: Array  # by byte: its class
    states: Array  # by state plus class: the next state
    found: Array  # by state: what was found
    packed: Array  # by byte: whether texts of LETTERS_ALONE may have it


class Mark(NamedTuple):
    """The mark in the place of content: where its text lies, and its word."""

    at: int
    size: int
    word: int


@_compiled
def _tells(texts: Array, at: int, size: int, to: Filter) -> bool:
    """Return whether a text may hold what `plain_text` takes out."""
    state = np.int64(0)
    seen = np.int64(0)
    for place in range(at, at + size):
        state = np.int64(to.states[state + to.classes[texts[place]]])
        seen |= np.int64(to.found[state])
    return (seen & HIT) != 0 or (seen & (SECRET_WORD | COLON)) == SECRET_WORD | COLON


@_compiled
def _has_letters_alone(texts: Array, at: int, size: int, packed: Array) -> bool:
    for place in range(at, at + size):
        if not packed[texts[place]]:
            return False
    return True


@_compiled
def _is_asked(texts: Array, at: int, size: int, rule: int, to: Filter) -> bool:
    """Return whether Python has to look at a text that is not content whatever it says."""
    how = to.how[rule]
    if how == ASK or size > to.longest[rule]:
        return True
    if how == LETTERS_ALONE:
        return not _has_letters_alone(texts, at, size, to.packed)
    if how == NO_JSON and texts[at] in (0x20, 0x22, 0x5B, 0x7B):  # blank, quote, brackets
        return True
    return _tells(texts, at, size, to)


@_compiled
def tells(
    texts: Array, words: Array, chosen: Array, longest: int, to: Filter, asked: Array
) -> None:
    """Fill in which of some words Python has to look at."""
    for place in range(len(chosen)):
        word = words[chosen[place]]
        asked[place] = word.size > longest or _tells(texts, word.at, word.size, to)


@_compiled
def _is_mark(texts: Array, at: int, size: int, mark: Mark) -> bool:
    if size != mark.size:
        return False
    for place in range(size):
        if texts[at + place] != texts[mark.at + place]:
            return False
    return True


@_compiled
def judge(texts: Array, pairs: Array, rules: Array, to: Filter, mark: Mark, asked: Array) -> int:
    """Put the mark in the place of content.

    Args:
        texts: What the pairs refer to, the mark's text included.
        pairs: Attributes of any owner.
        rules: By word: the number of the rule for this key.
        to: The rules.
        mark: The mark.
        asked: Is filled with the rows of pairs that Python has to look at.

    Returns:
        How many these are.
    """
    count = 0
    for number in range(len(pairs)):
        row = pairs[number]
        form = row.form
        rule = rules[row.key]
        if form == STRING and row.size > 0:
            if to.how[rule] != ALWAYS_CONTENT:
                if _is_asked(texts, row.value, row.size, rule, to):
                    asked[count] = number
                    count += 1
                continue
            if _is_mark(texts, row.value, row.size, mark):
                continue
        elif form == STRING:
            if to.takes_empty[rule]:
                continue
        elif form == NONE:
            if to.takes_key[rule]:
                continue
        elif form == BOOL or form == INT or form == DOUBLE:
            if to.takes_numbers[rule]:
                continue
        elif form == ARRAY and to.takes_lists[rule]:
            asked[count] = number
            count += 1
            continue
        row.form = STRING
        row.value = mark.at
        row.size = mark.size
        if not to.takes_key[rule]:
            row.key = mark.word
    return count


class Keys(NamedTuple):
    """Roles of keys in the analysis, by word."""

    is_read: Array
    is_count: Array
    is_packed: Array
    hashes: Array


@_compiled
def _mixed_pair(state: int, texts: Array, row: Any, keys: Keys) -> int:
    """A hash that an attribute was added to, unless no rule reads it."""
    key = row.key
    if not keys.is_read[key]:
        return state
    form = np.int64(row.form)
    state = mixed(state, keys.hashes[key] ^ form)
    if keys.is_count[key] and form == INT:
        return state
    is_text = form == STRING or form >= ARRAY
    if keys.is_packed[key] and form not in (NONE, BOOL, ARRAY):
        return state
    if is_text:
        return mixed(state, text_hash(texts, row.value, row.size, state))
    return mixed(state, row.value)


@_compiled
def _mixed_list(
    state: int,
    texts: Array,
    pairs: Array,
    owner: Any,
    keys: Keys,
    mark: Mark,
    removed: Array,
) -> int:
    """The same with all attributes of an event or a link."""
    state = mixed(state, np.int64(owner.pair_count))
    for number in range(owner.pairs, owner.pairs + owner.pair_count):
        row = pairs[number]
        state = _mixed_pair(state, texts, row, keys)
        if row.form == STRING and _is_mark(texts, row.value, row.size, mark):
            removed[0] += 1
    return state


class Lists(NamedTuple):
    """The lists that spans refer to."""

    pairs: Array
    events: Array
    links: Array
    resources: Array  # by resource: the hash of what a span says of it
    scopes: Array


@_compiled
def _shape_hash(
    texts: Array,
    span: Any,
    number: int,
    lists: Lists,
    keys: Keys,
    mark: Mark,
    seen: Array,
    removed: Array,
) -> int:
    """The hash of a span's shape; 0: a key comes twice. Counts what was removed."""
    state = mixed(lists.resources[span.resource], keys.hashes[span.name])
    state = mixed(state, keys.hashes[lists.scopes[span.scope].name])
    state = mixed(state, np.int64(span.kind) << 8 | np.int64(span.status))
    removed[0] = 0
    is_odd = False
    for pair in range(span.pairs, span.pairs + span.pair_count):
        row = lists.pairs[pair]
        is_odd |= seen[row.key] == number + 1
        seen[row.key] = number + 1
        state = _mixed_pair(state, texts, row, keys)
        if row.form == STRING and _is_mark(texts, row.value, row.size, mark):
            removed[0] += 1
    for event in range(span.events, span.events + span.event_count):
        state = mixed(state, keys.hashes[lists.events[event].name] + 1)
        state = _mixed_list(state, texts, lists.pairs, lists.events[event], keys, mark, removed)
    for link in range(span.links, span.links + span.link_count):
        state = _mixed_list(state + 2, texts, lists.pairs, lists.links[link], keys, mark, removed)
    span.removed = removed[0]
    return np.int64(0) if is_odd or state == 0 else state


@_compiled
def shape(
    texts: Array,
    spans: Array,
    lists: Lists,
    keys: Keys,
    mark: Mark,
    known: Array,
    numbers: Array,
    hashes: Array,
    seen: Array,
    removed: Array,
) -> int:
    """Fill in the shapes of spans, and how much was removed of them.

    Args:
        texts: What all refer to.
        spans: Whose.
        lists: What they refer to.
        keys: What keys are to the analysis.
        mark: What stands in the place of content.
        known: A hash table of shapes, by hash; 0: free.
        numbers: Likewise: their numbers.
        hashes: Is filled: by span, the hash of its shape; 0: it has none.
        seen: Zeros, one a word.
        removed: A place for a number.

    Returns:
        How many spans have a shape that is not in the table; theirs is below -1.
    """
    mask = len(known) - 1
    unknown = 0
    for number in range(len(spans)):
        span = spans[number]
        found = _shape_hash(texts, span, number, lists, keys, mark, seen, removed)
        hashes[number] = found
        if found == 0:
            span.shape = -1
            continue
        place = (found >> 20) & mask
        while known[place] != 0 and known[place] != found:
            place = (place + 1) & mask
        if known[place] == found:
            span.shape = numbers[place]
        else:
            span.shape = -2
            unknown += 1
    return unknown


# Texts


@_compiled
def gather(texts: Array, words: Array, is_used: Array, pairs: Array, out: Array) -> int:
    """Copy the texts that are used, and say where they are now; others become empty.

    Returns:
        How many bytes were copied.
    """
    at = np.int64(0)
    for number in range(len(words)):
        word = words[number]
        if not is_used[number]:
            word.size = 0
        for place in range(word.size):
            out[at + place] = texts[word.at + place]
        word.at = at
        at += word.size
    for number in range(len(pairs)):
        row = pairs[number]
        if row.form == STRING or row.form >= ARRAY:
            for place in range(row.size):
                out[at + place] = texts[row.value + place]
            row.value = at
            at += row.size
    return at


@_compiled
def _put_size(out: Array, at: int, size: int) -> int:
    while size >= 0x80:
        out[at] = size & 0x7F | 0x80
        at += 1
        size >>= 7
    out[at] = size
    return at + 1


@_compiled
def _put_bytes(out: Array, at: int, texts: Array, first: int, size: int) -> int:
    at = _put_size(out, at, size)
    for place in range(size):
        out[at + place] = texts[first + place]
    return at + size


@_compiled
def _put_int(out: Array, at: int, value: int) -> int:
    size = np.int64(1)
    rest, last = value // 10, value % 10
    if value < 0:  # what remains is above 0, even of the lowest number
        size, rest, last = np.int64(2), value // -10, -(value % -10)
        out[at + 1] = 0x2D
    left = rest
    while left > 0:
        size += 1
        left //= 10
    out[at] = size
    place = at + size
    out[place] = 0x30 + last
    while rest > 0:
        place -= 1
        out[place] = 0x30 + rest % 10
        rest //= 10
    return at + size + 1


@_compiled
def values(
    texts: Array,
    pairs: Array,
    others: Array,
    starts: Array,
    ends: Array,
    out: Array,
    words: Array,
) -> int:
    """Write the values of attributes as texts, each after its length.

    Args:
        texts: What the pairs refer to.
        pairs: The attributes.
        others: The texts of fractions, lists, maps and bytes.
        starts: Where each of these begins.
        ends: Where it ends. A fraction may end in `.0`, which is left out.
        out: Is filled.
        words: `true` and `false`.

    Returns:
        How many bytes were written.
    """
    at = np.int64(0)
    other = 0
    for number in range(len(pairs)):
        row = pairs[number]
        form = row.form
        if form == STRING:
            at = _put_bytes(out, at, texts, row.value, row.size)
        elif form == INT:
            at = _put_int(out, at, row.value)
        elif form == BOOL:
            at = _put_bytes(out, at, words, 0 if row.value else 4, 4 if row.value else 5)
        elif form == NONE:
            at = _put_size(out, at, 0)
        else:
            first, last = starts[other], ends[other]
            if form == DOUBLE and last - first > 2 and others[last - 2] == 0x2E:
                last -= 2 if others[last - 1] == 0x30 else 0
            at = _put_bytes(out, at, others, first, last - first)
            other += 1
    return at


@_compiled
def forms(pairs: Array, counts: Array, hashes: Array) -> int:
    """Fill in the hash of the types of each owner's attributes; 0: all are texts."""
    number = 0
    for owner in range(len(counts)):
        state = np.int64(counts[owner]) + _START
        is_plain = True
        for _ in range(counts[owner]):
            form = np.int64(pairs[number].form)
            is_plain &= form == STRING
            state = mixed(state, form + 1)
            number += 1
        hashes[owner] = 0 if is_plain else state
    return number
