/* The numbers of spans' shapes: of what they have in common but for ids, times and values that vary. */
#include "records.h"

typedef struct {
    const uint8_t *texts;
    const Pair *pairs;
    const Event *events;
    const Link *links;
    const Scope *scopes;
    const int64_t *resources; /* by resource: the hash of what a span says of it */
    const uint8_t *is_read, *is_count, *is_packed; /* by word: whether it is such a key to the analysis */
    const int64_t *hashes; /* by word */
    const uint8_t *mark; /* what stands in the place of content */
    int64_t mark_size;
    int64_t *seen; /* by key: the span that had it last, and one */
} Block;

static inline int is_mark(const Block *block, const Pair *pair) {
    return pair->form == STRING && pair->size == block->mark_size &&
           !memcmp(block->texts + pair->value, block->mark, (size_t)block->mark_size);
}

/* A hash that an attribute was added to, unless no rule reads it. */
static inline uint64_t mixed_pair(const Block *block, uint64_t state, const Pair *pair) {
    int32_t key = pair->key, form = pair->form;
    if (!block->is_read[key])
        return state;
    state = mixed(state, (uint64_t)block->hashes[key] ^ (uint64_t)form);
    if (block->is_count[key] && form == INT)
        return state;
    if (block->is_packed[key] && form != NONE && form != BOOL && form != ARRAY)
        return state;
    if (form == STRING || form >= ARRAY)
        return mixed(state, text_hash(block->texts + pair->value, pair->size, state));
    return mixed(state, (uint64_t)pair->value);
}

/* The same with all attributes of an event or a link. */
static uint64_t mixed_list(const Block *block, uint64_t state, int32_t first, int32_t count, int32_t *removed) {
    state = mixed(state, (uint64_t)count);
    for (int32_t number = first; number < first + count; number++) {
        state = mixed_pair(block, state, &block->pairs[number]);
        *removed += is_mark(block, &block->pairs[number]);
    }
    return state;
}

/* The hash of a span's shape; 0: a key comes twice. Counts what was removed. */
static inline uint64_t shape_hash(const Block *block, Span *span, int64_t number) {
    uint64_t state = mixed((uint64_t)block->resources[span->resource], (uint64_t)block->hashes[span->name]);
    int is_odd = 0;
    int32_t removed = 0;
    state = mixed(state, (uint64_t)block->hashes[block->scopes[span->scope].name]);
    state = mixed(state, (uint64_t)(span->kind << 8 | span->status));
    for (int32_t one = span->pairs; one < span->pairs + span->pair_count; one++) {
        const Pair *pair = &block->pairs[one];
        is_odd |= block->seen[pair->key] == number + 1;
        block->seen[pair->key] = number + 1;
        state = mixed_pair(block, state, pair);
        removed += is_mark(block, pair);
    }
    for (int32_t one = span->events; one < span->events + span->event_count; one++) {
        const Event *event = &block->events[one];
        state = mixed(state, (uint64_t)block->hashes[event->name] + 1);
        state = mixed_list(block, state, event->pairs, event->pair_count, &removed);
    }
    for (int32_t one = span->links; one < span->links + span->link_count; one++) {
        const Link *link = &block->links[one];
        state = mixed_list(block, state + 2, link->pairs, link->pair_count, &removed);
    }
    span->removed = removed;
    return is_odd ? 0 : state;
}

/* Fill in the shapes of spans, and how much was removed of them.
 *
 * Takes the block's texts, spans, attributes, events, links and scopes; by resource the hash of what it says; by
 * word whether it is a key that is read, that counts, that varies, and its hash; the mark's bytes; a hash table of
 * shapes by hash, of which 0 is free, and their numbers and one, which other threads fill meanwhile; and room for the hash of each span's shape: 0 where it has
 * none. Gives how many spans have a shape that is not in the table; theirs is below -1. */
FUNCTION(core_shape) {
    (void)module;
    Held held;
    Array texts, spans, pairs, events, links, scopes, resources, is_read, is_count, is_packed, hashes, mark, known, numbers,
        found;
    if (!arrays_take(&held, args, given, "bRrrrrqbbbqbqrQ", &texts, &spans, (Py_ssize_t)sizeof(Span), &pairs,
                     (Py_ssize_t)sizeof(Pair), &events, (Py_ssize_t)sizeof(Event), &links, (Py_ssize_t)sizeof(Link), &scopes,
                     (Py_ssize_t)sizeof(Scope), &resources, &is_read, &is_count, &is_packed, &hashes, &mark, &known, &numbers,
                     (Py_ssize_t)sizeof(int32_t), &found))
        return NULL;
    Block block = {
        .texts = texts.b, .pairs = pairs.any, .events = events.any, .links = links.any, .scopes = scopes.any,
        .resources = resources.q, .is_read = is_read.b, .is_count = is_count.b, .is_packed = is_packed.b,
        .hashes = hashes.q, .mark = mark.b, .mark_size = mark.count,
        .seen = calloc((size_t)hashes.count + 1, sizeof(int64_t)),
    };
    int64_t unknown = 0;
    if (block.seen) {
        Py_BEGIN_ALLOW_THREADS
        const int64_t mask = known.count - 1;
        for (int64_t number = 0; number < spans.count; number++) {
            Span *span = (Span *)spans.any + number;
            int64_t hash = (int64_t)shape_hash(&block, span, number);
            found.q[number] = hash;
            if (!hash) {
                span->shape = -1;
                continue;
            }
            int64_t place = (int64_t)((uint64_t)hash >> 20) & mask;
            while (known.q[place] && known.q[place] != hash)
                place = (place + 1) & mask;
            int32_t shape = ((const int32_t *)numbers.any)[place];
            if (known.q[place] == hash && shape) {
                span->shape = shape - 1;
            } else {
                span->shape = -2;
                unknown++;
            }
        }
        Py_END_ALLOW_THREADS
    }
    arrays_drop(&held);
    free(block.seen);
    return block.seen ? PyLong_FromLongLong(unknown) : PyErr_NoMemory();
}

/* The hash of a text: its bytes, and a seed. */
FUNCTION(core_text_hash) {
    (void)module;
    Held held;
    Array text;
    int64_t seed;
    if (!arrays_take(&held, args, given, "bn", &text, &seed))
        return NULL;
    int64_t found = (int64_t)text_hash(text.b, text.count, (uint64_t)seed);
    arrays_drop(&held);
    return PyLong_FromLongLong(found);
}
