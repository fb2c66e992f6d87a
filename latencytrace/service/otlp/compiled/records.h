/* The records of a block of spans, as `span_block.py` lays them out, and the hash of texts. */
#ifndef LATENCYTRACE_RECORDS_H
#define LATENCYTRACE_RECORDS_H

#include "arrays.h"

typedef struct {
    int64_t at;
    int32_t size;
    int32_t code;
} Word;

typedef struct {
    int64_t value; /* where a text lies, or a number's bits */
    int32_t size, key, form, unused;
} Pair;

typedef struct {
    int32_t pairs, pair_count, service, instance, version, host;
} Resource;

typedef struct {
    int32_t name, version;
} Scope;

typedef struct {
    uint64_t time_ns;
    int32_t name, pairs, pair_count, unused;
} Event;

typedef struct {
    int32_t trace, span, state, pairs, pair_count, unused;
} Link;

typedef struct {
    uint64_t trace_high, trace_low, span_id, parent_id, start_ns, end_ns;
    int32_t pairs, pair_count, events, event_count, links, link_count, name, state, message, resource, scope, removed,
        shape;
    int16_t kind, status;
} Span;

_Static_assert(sizeof(Word) == 16 && sizeof(Pair) == 24 && sizeof(Resource) == 24 && sizeof(Scope) == 8, "packed");
_Static_assert(sizeof(Event) == 24 && sizeof(Link) == 24 && sizeof(Span) == 104, "packed");

enum { NONE, STRING, BOOL, INT, DOUBLE, ARRAY, MAP, BYTES }; /* see `values.Form` */

/* --- hashes of texts */

static inline uint64_t eight_bytes(const uint8_t *from) {
    uint64_t found;
    memcpy(&found, from, 8);
    return found;
}

/* The last eight bytes of a text, or all if there are fewer. */
static inline uint64_t last_bytes(const uint8_t *text, int64_t size) {
    if (size >= 8)
        return eight_bytes(text + size - 8);
    uint64_t rest = 0;
    for (int64_t place = 0; place < size; place++)
        rest = rest << 8 | text[place];
    return rest;
}

/* A hash that a number was added to. */
static inline uint64_t mixed(uint64_t state, uint64_t value) {
    state = (state ^ value) * UINT64_C(0x1CE4E5B9BF58476D);
    return state ^ state >> 32;
}

static inline uint64_t folded(uint64_t one, uint64_t other) {
    unsigned __int128 product = (unsigned __int128)one * other;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Without the seed no sender can make up texts of one hash: each piece is added to a secret before it is
 * multiplied by another. */
static inline uint64_t text_hash(const uint8_t *text, int64_t size, uint64_t seed) {
    uint64_t secret = mixed(seed, UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0x133111EB94D049BB);
    uint64_t state = seed ^ UINT64_C(0xD6E8FEB86659FD93);
    for (int64_t place = 0; place < size - 8; place += 8)
        state = folded(eight_bytes(text + place) ^ secret, state ^ UINT64_C(0xA0761D6478BD642F));
    state = folded(last_bytes(text, size) ^ secret, state ^ UINT64_C(0xE7037ED1A0B428DB));
    return folded(state ^ (uint64_t)size, secret | 1);
}

int is_utf8(const uint8_t *text, int64_t size); /* in `wire.c` */

/* --- the functions of the module, by the file that they are in */

#define FUNCTION(name) PyObject *name(PyObject *module, PyObject *const *args, Py_ssize_t given)

FUNCTION(core_scan);

FUNCTION(core_from_json);

FUNCTION(core_forms);
FUNCTION(core_gather);
FUNCTION(core_values);

FUNCTION(core_filter);
FUNCTION(core_judge);
FUNCTION(core_tells);

FUNCTION(core_asked);
FUNCTION(core_shape);

FUNCTION(core_carry);
FUNCTION(core_shown_texts);
FUNCTION(core_word_hashes);

#endif
