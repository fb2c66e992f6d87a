/* The texts of a block, and its attributes as texts for the store. */
#include "records.h"

#include <stddef.h>

/* --- what is still referred to */

static void use(uint8_t *is_used, const Array *records, size_t width, size_t first, size_t count) {
    for (int64_t number = 0; number < records->count; number++) {
        const int32_t *words = (const int32_t *)((const char *)records->any + (size_t)number * width + first);
        for (size_t one = 0; one < count; one++)
            is_used[words[one]] = 1;
    }
}

/* How many bytes are used; words that are not become empty. */
static int64_t used_bytes(const uint8_t *is_used, const Array *words, const Array *pairs) {
    int64_t size = 0;
    for (int64_t number = 0; number < words->count; number++) {
        Word *word = (Word *)words->any + number;
        if (!is_used[number])
            word->size = 0;
        size += word->size;
    }
    for (int64_t number = 0; number < pairs->count; number++) {
        const Pair *pair = (const Pair *)pairs->any + number;
        if (pair->form == STRING || pair->form >= ARRAY)
            size += pair->size;
    }
    return size;
}

/* Copy what is used, and say where it is now. */
static void copy_used(const uint8_t *texts, const Array *words, const Array *pairs, uint8_t *to) {
    int64_t at = 0;
    for (int64_t number = 0; number < words->count; number++) {
        Word *word = (Word *)words->any + number;
        memcpy(to + at, texts + word->at, (size_t)word->size);
        word->at = at;
        at += word->size;
    }
    for (int64_t number = 0; number < pairs->count; number++) {
        Pair *pair = (Pair *)pairs->any + number;
        if (pair->form == STRING || pair->form >= ARRAY) {
            memcpy(to + at, texts + pair->value, (size_t)pair->size);
            pair->value = at;
            at += pair->size;
        }
    }
}

/* The texts that a block still refers to: its texts, words, attributes, spans, events, links, resources and scopes.
 * Words and attributes say where they are now; words that nothing refers to become empty. */
FUNCTION(core_gather) {
    (void)module;
    Held held;
    Array texts, words, pairs, spans, events, links, resources, scopes;
    if (!arrays_take(&held, args, given, "bRRrrrrr", &texts, &words, (Py_ssize_t)sizeof(Word), &pairs,
                     (Py_ssize_t)sizeof(Pair), &spans, (Py_ssize_t)sizeof(Span), &events, (Py_ssize_t)sizeof(Event), &links,
                     (Py_ssize_t)sizeof(Link), &resources, (Py_ssize_t)sizeof(Resource), &scopes, (Py_ssize_t)sizeof(Scope)))
        return NULL;
    uint8_t *is_used = calloc((size_t)words.count + 1, 1);
    PyObject *out = NULL;
    if (is_used) {
        use(is_used, &pairs, sizeof(Pair), offsetof(Pair, key), 1);
        use(is_used, &spans, sizeof(Span), offsetof(Span, name), 3); /* name, state, message */
        use(is_used, &events, sizeof(Event), offsetof(Event, name), 1);
        use(is_used, &links, sizeof(Link), offsetof(Link, trace), 3); /* trace, span, state */
        use(is_used, &resources, sizeof(Resource), offsetof(Resource, service), 4); /* to the host */
        use(is_used, &scopes, sizeof(Scope), offsetof(Scope, name), 2); /* name, version */
        out = PyBytes_FromStringAndSize(NULL, used_bytes(is_used, &words, &pairs));
        if (out)
            copy_used(texts.b, &words, &pairs, (uint8_t *)PyBytes_AS_STRING(out));
        free(is_used);
    } else {
        PyErr_NoMemory();
    }
    arrays_drop(&held);
    return out;
}

/* --- attributes as texts, each after its length */

static inline uint8_t *put_size(uint8_t *to, uint64_t size) {
    for (; size >= 0x80; size >>= 7)
        *to++ = (uint8_t)(size | 0x80);
    *to++ = (uint8_t)size;
    return to;
}

static inline uint8_t *put_bytes(uint8_t *to, const void *from, int64_t size) {
    to = put_size(to, (uint64_t)size);
    memcpy(to, from, (size_t)size);
    return to + size;
}

static inline uint8_t *put_int(uint8_t *to, int64_t value) {
    char digits[20];
    int left = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        digits[--left] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        digits[--left] = '-';
    return put_bytes(to, digits + left, (int64_t)sizeof digits - left);
}

/* Where the text of a fraction, a list, a map or bytes ends. A fraction may end in `.0`, which is left out. */
static inline int64_t end_of(const uint8_t *others, const Pair *pair, int64_t first, int64_t last) {
    int is_whole = pair->form == DOUBLE && last - first > 2 && others[last - 2] == '.' && others[last - 1] == '0';
    return is_whole ? last - 2 : last;
}

/* Write the values of attributes: the texts that these refer to; the attributes; the texts of fractions, lists, maps
 * and bytes, where each begins and where it ends; room for where each value ends, and for the values. */
FUNCTION(core_values) {
    (void)module;
    Held held;
    Array texts, pairs, others, starts, ends, out_ends, out;
    if (!arrays_take(&held, args, given, "brbqqQB", &texts, &pairs, (Py_ssize_t)sizeof(Pair), &others, &starts, &ends,
                     &out_ends, &out))
        return NULL;
    uint8_t *to = out.b;
    Py_BEGIN_ALLOW_THREADS
    int64_t other = 0;
    for (int64_t number = 0; number < pairs.count; number++) {
        const Pair *pair = (const Pair *)pairs.any + number;
        if (pair->form == STRING) {
            to = put_bytes(to, texts.b + pair->value, pair->size);
        } else if (pair->form == INT) {
            to = put_int(to, pair->value);
        } else if (pair->form == BOOL) {
            to = pair->value ? put_bytes(to, "true", 4) : put_bytes(to, "false", 5);
        } else if (pair->form == NONE) {
            to = put_size(to, 0);
        } else {
            int64_t first = starts.q[other];
            to = put_bytes(to, others.b + first, end_of(others.b, pair, first, ends.q[other]) - first);
            other++;
        }
        out_ends.q[number] = to - out.b;
    }
    Py_END_ALLOW_THREADS
    arrays_drop(&held);
    Py_RETURN_NONE;
}

#define NO_TYPES UINT64_C(0x1F3D5B799B5D3F1D) /* of a hash of small numbers: no few of them lead to 0 */

/* The hash of the types of each owner's attributes, 0 where all are texts: the attributes, how many each owner has,
 * and room. */
FUNCTION(core_forms) {
    (void)module;
    Held held;
    Array pairs, counts, hashes;
    if (!arrays_take(&held, args, given, "rrQ", &pairs, (Py_ssize_t)sizeof(Pair), &counts, (Py_ssize_t)sizeof(int32_t),
                     &hashes))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    const Pair *pair = pairs.any;
    for (int64_t owner = 0; owner < counts.count; owner++) {
        int32_t count = ((const int32_t *)counts.any)[owner];
        uint64_t state = (uint64_t)count + NO_TYPES;
        int is_plain = 1;
        for (int32_t one = 0; one < count; one++, pair++) {
            is_plain &= pair->form == STRING;
            state = mixed(state, (uint64_t)pair->form + 1);
        }
        hashes.q[owner] = is_plain ? 0 : (int64_t)state;
    }
    Py_END_ALLOW_THREADS
    arrays_drop(&held);
    Py_RETURN_NONE;
}
