/* The numbers of spans' shapes: of what rules decide by (see `analysis/columns/shapes.py`). */
#include "records.h"

/* The lists of texts that rules ask for, in the order in which they come. */
enum { WORDS, STARTS, ENDS, PARTS, PUT_BACK, FIRST_TOKENS, OF_WHOLE_NAMES, LISTS };
/* How much of an attribute belongs to the shape. */
enum { NOTHING, ITS_KIND, ITS_VALUE };

#define BYTES_THERE_ARE 256
#define LONGEST_WORD 64
#define MOST_STATUSES 1000
#define MOST_EVENTS 64 /* that tell of being put back */

typedef struct {
    uint8_t *texts;
    int64_t *begins, *lists; /* where each text begins; the first text of each list */
    uint64_t *words;         /* hashes of words in lower case; 0: free */
    int64_t slots;
    uint8_t starts[BYTES_THERE_ARE], ends[BYTES_THERE_ARE]; /* by byte: whether a text of those begins, ends so */
} Asked;

static const char ASKED[] = "latencytrace.asked";

static void free_asked(Asked *asked) {
    if (asked) {
        free(asked->texts);
        free(asked->begins);
        free(asked->lists);
        free(asked->words);
        free(asked);
    }
}

static void drop_asked(PyObject *capsule) { free_asked(PyCapsule_GetPointer(capsule, ASKED)); }

static inline uint8_t lower(uint8_t byte) { return 'A' <= byte && byte <= 'Z' ? byte + ('a' - 'A') : byte; }

static void note_texts(Asked *asked) {
    for (int64_t one = asked->lists[WORDS]; one < asked->lists[WORDS + 1]; one++) {
        uint64_t hash = text_hash(asked->texts + asked->begins[one], asked->begins[one + 1] - asked->begins[one], 0) | 1;
        int64_t slot = (int64_t)(hash >> 20) & (asked->slots - 1);
        while (asked->words[slot] && asked->words[slot] != hash)
            slot = (slot + 1) & (asked->slots - 1);
        asked->words[slot] = hash;
    }
    for (int64_t one = asked->lists[STARTS]; one < asked->lists[STARTS + 1]; one++)
        asked->starts[asked->texts[asked->begins[one]]] = 1;
    for (int64_t one = asked->lists[ENDS]; one < asked->lists[ENDS + 1]; one++)
        asked->ends[asked->texts[asked->begins[one + 1] - 1]] = 1;
}

/* Texts to be known: all in lower case, one behind the other; where each begins; the first of each list. */
FUNCTION(core_asked) {
    (void)module;
    Held held;
    Array texts, begins, lists;
    if (!arrays_take(&held, args, given, "bqq", &texts, &begins, &lists))
        return NULL;
    Asked *asked = calloc(1, sizeof *asked);
    PyObject *capsule = NULL;
    if (lists.count != LISTS + 1) {
        PyErr_SetString(PyExc_ValueError, "there are not as many lists of texts as there have to be");
    } else if (asked) {
        for (asked->slots = 64; asked->slots < 4 * begins.count;)
            asked->slots *= 2;
        asked->texts = malloc((size_t)texts.count + 1);
        asked->begins = malloc((size_t)begins.count * sizeof(int64_t));
        asked->lists = malloc((size_t)lists.count * sizeof(int64_t));
        asked->words = calloc((size_t)asked->slots, sizeof(uint64_t));
    }
    if (asked && asked->texts && asked->begins && asked->lists && asked->words) {
        memcpy(asked->texts, texts.b, (size_t)texts.count);
        memcpy(asked->begins, begins.q, (size_t)begins.count * sizeof(int64_t));
        memcpy(asked->lists, lists.q, (size_t)lists.count * sizeof(int64_t));
        note_texts(asked);
        capsule = PyCapsule_New(asked, ASKED, drop_asked);
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    if (!capsule)
        free_asked(asked);
    arrays_drop(&held);
    return capsule;
}

/* --- what rules may know of a text */

static inline int is_same_lowered(const uint8_t *text, const uint8_t *lowered, int64_t size) {
    for (int64_t place = 0; place < size; place++)
        if (lower(text[place]) != lowered[place])
            return 0;
    return 1;
}

static int is_within(const uint8_t *text, int64_t size, const uint8_t *part, int64_t part_size, int lowered) {
    for (int64_t place = 0; place + part_size <= size; place++)
        if (lowered ? is_same_lowered(text + place, part, part_size) : !memcmp(text + place, part, (size_t)part_size))
            return 1;
    return 0;
}

/* Whether a list has a text that lies within this one, or, `whole`, is this one. */
static int has_listed(const Asked *asked, int list, const uint8_t *text, int64_t size, int whole, int lowered) {
    for (int64_t one = asked->lists[list]; one < asked->lists[list + 1]; one++) {
        int64_t begin = asked->begins[one], length = asked->begins[one + 1] - begin;
        if ((!whole || length == size) && is_within(text, size, asked->texts + begin, length, lowered))
            return 1;
    }
    return 0;
}

static inline int is_word(const Asked *asked, const uint8_t *text, int64_t size) {
    uint8_t lowered[LONGEST_WORD];
    if (size > LONGEST_WORD)
        return 0;
    for (int64_t place = 0; place < size; place++)
        lowered[place] = lower(text[place]);
    uint64_t hash = text_hash(lowered, size, 0) | 1;
    int64_t slot = (int64_t)(hash >> 20) & (asked->slots - 1);
    while (asked->words[slot] && asked->words[slot] != hash)
        slot = (slot + 1) & (asked->slots - 1);
    return asked->words[slot] != 0;
}

/* The bytes with which a text begins, or ends, that a rule may know; the longest come first. */
static inline int64_t known_end(const Asked *asked, int list, const uint8_t *text, int64_t size) {
    for (int64_t one = asked->lists[list]; one < asked->lists[list + 1]; one++) {
        int64_t begin = asked->begins[one], length = asked->begins[one + 1] - begin;
        const uint8_t *from = list == ENDS ? text + size - length : text;
        if (length <= size && is_same_lowered(from, asked->texts + begin, length))
            return length;
    }
    return 0;
}

static int has_kelvin(const uint8_t *text, int64_t size) { /* a sign that is a `k` in lower case */
    for (int64_t place = 0; place + 3 <= size; place++)
        if (text[place] == 0xE2 && text[place + 1] == 0x84 && text[place + 2] == 0xAA)
            return 1;
    return 0;
}

/* A hash of what rules may know of a text. */
static uint64_t known_of(const Asked *asked, const uint8_t *text, int64_t size, uint64_t seed) {
    if (!size)
        return 1;
    if (is_word(asked, text, size) || has_kelvin(text, size))
        return text_hash(text, size, seed);
    int64_t start = asked->starts[lower(*text)] ? known_end(asked, STARTS, text, size) : 0;
    int64_t end = asked->ends[lower(text[size - 1])] ? known_end(asked, ENDS, text, size) : 0;
    uint64_t state = text_hash(text, start, seed + 1);
    return end ? text_hash(text + size - end, end, state) : state;
}

/* --- shapes */

typedef struct {
    const Asked *asked;
    const uint8_t *texts;
    const Word *words;
    const Pair *pairs;
    const Event *events;
    const Link *links;
    const Scope *scopes;
    const uint8_t *roles; /* by a key's code: how much of an attribute belongs to the shape */
    const uint8_t *mark;  /* what stands in the place of content */
    int64_t mark_size;
    uint64_t seed;
    int64_t *seen;   /* by key: the span that had it last, and one */
    uint64_t *names; /* by word: what rules may know of such a name; 0: not looked for yet */
    uint64_t *known_scopes, *of_whole_names; /* by scope, likewise; whether its spans' names are read as a whole */
} Block;

static inline int is_mark(const Block *block, const Pair *pair) {
    return pair->form == STRING && pair->size == block->mark_size &&
           !memcmp(block->texts + pair->value, block->mark, (size_t)block->mark_size);
}

static inline const uint8_t *text_of(const Block *block, int32_t word) { return block->texts + block->words[word].at; }

static uint64_t hash_of(const Block *block, int32_t word) {
    return text_hash(text_of(block, word), block->words[word].size, block->seed);
}

static inline uint64_t known_name(const Block *block, int32_t word) {
    if (!block->names[word]) {
        const uint8_t *text = text_of(block, word);
        int64_t size = block->words[word].size;
        int is_whole = has_listed(block->asked, PARTS, text, size, 0, 0);
        block->names[word] = is_whole ? hash_of(block, word) : known_of(block->asked, text, size, block->seed);
    }
    return block->names[word];
}

static inline uint64_t known_scope(const Block *block, int32_t scope) {
    if (!block->known_scopes[scope]) {
        int32_t word = block->scopes[scope].name;
        const uint8_t *text = text_of(block, word);
        int64_t size = block->words[word].size;
        block->known_scopes[scope] = known_of(block->asked, text, size, block->seed);
        block->of_whole_names[scope] = (uint64_t)has_listed(block->asked, OF_WHOLE_NAMES, text, size, 1, 0);
    }
    return block->known_scopes[scope];
}

/* What rules may know of a value. */
static inline uint64_t known_value(const Block *block, const Pair *pair) {
    switch (pair->form) {
    case STRING:
        return known_of(block->asked, block->texts + pair->value, pair->size, block->seed);
    case INT:
        return pair->value < 0 ? UINT64_MAX : pair->value < MOST_STATUSES ? (uint64_t)pair->value : MOST_STATUSES;
    case DOUBLE:
        return (pair->value & INT64_MAX) != 0; /* of -0.0 as well */
    case BOOL:
        return (uint64_t)pair->value;
    default:
        return pair->size > 0;
    }
}

/* The part that attributes have in a shape, in whatever order; counts what was removed. */
static inline uint64_t known_pairs(const Block *block, const Span *span, int64_t number, int *is_odd, int32_t *removed) {
    uint64_t sum = 0;
    for (int32_t one = span->pairs; one < span->pairs + span->pair_count; one++) {
        const Pair *pair = &block->pairs[one];
        *is_odd |= block->seen[pair->key] == number + 1;
        block->seen[pair->key] = number + 1;
        *removed += is_mark(block, pair);
        int32_t code = block->words[pair->key].code;
        uint8_t role = block->roles[code];
        if (role == NOTHING)
            continue;
        uint64_t state = mixed((uint64_t)code, (uint64_t)pair->form);
        sum += mixed(state, role == ITS_VALUE ? known_value(block, pair) : 0) * UINT64_C(0x133111EB94D049BB);
    }
    return sum;
}

static int32_t removed_of(const Block *block, int32_t first, int32_t count) {
    int32_t removed = 0;
    for (int32_t number = first; number < first + count; number++)
        removed += is_mark(block, &block->pairs[number]);
    return removed;
}

/* The part that events have in a shape. */
static inline uint64_t known_events(const Block *block, const Span *span, int *is_odd, int32_t *removed) {
    uint64_t put_back = 0, has_first_token = 0;
    for (int32_t one = span->events; one < span->events + span->event_count; one++) {
        const Event *event = &block->events[one];
        const uint8_t *name = text_of(block, event->name);
        int64_t size = block->words[event->name].size;
        has_first_token |= (uint64_t)has_listed(block->asked, FIRST_TOKENS, name, size, 1, 1);
        put_back += (uint64_t)(has_kelvin(name, size) || has_listed(block->asked, PUT_BACK, name, size, 0, 1));
        *removed += removed_of(block, event->pairs, event->pair_count);
    }
    *is_odd |= put_back > MOST_EVENTS;
    return put_back << 2 | has_first_token << 1 | (span->event_count > 0);
}

/* The hash of a span's shape; 0: it has none. Counts what was removed. */
static inline uint64_t shape_hash(const Block *block, Span *span, int64_t number) {
    int is_odd = 0;
    int32_t removed = 0;
    uint64_t state = mixed(known_scope(block, span->scope), (uint64_t)(span->kind << 8 | span->status));
    state = mixed(state, block->of_whole_names[span->scope] ? hash_of(block, span->name) : known_name(block, span->name));
    state = mixed(state, known_pairs(block, span, number, &is_odd, &removed));
    state = mixed(state, known_events(block, span, &is_odd, &removed));
    state = mixed(state, span->link_count > 0);
    for (int32_t one = span->links; one < span->links + span->link_count; one++)
        removed += removed_of(block, block->links[one].pairs, block->links[one].pair_count);
    span->removed = removed;
    return is_odd ? 0 : state;
}

typedef struct {
    const int64_t *known; /* hashes of shapes; 0: free */
    const int32_t *numbers; /* and one; other threads fill both meanwhile */
    int64_t slots;
} Numbers;

/* Fill in the shapes of spans. Returns how many have one that has no number. */
static int64_t find_shapes(const Block *block, Span *spans, int64_t count, const Numbers *numbers, int64_t *found) {
    int64_t unknown = 0;
    const int64_t mask = numbers->slots - 1;
    for (int64_t number = 0; number < count; number++) {
        int64_t hash = found[number] = (int64_t)shape_hash(block, &spans[number], number);
        spans[number].shape = -1;
        if (!hash)
            continue;
        int64_t place = (int64_t)((uint64_t)hash >> 20) & mask;
        while (numbers->known[place] && numbers->known[place] != hash)
            place = (place + 1) & mask;
        int32_t shape = numbers->known[place] == hash ? numbers->numbers[place] : 0;
        spans[number].shape = shape ? shape - 1 : -2;
        unknown += !shape;
    }
    return unknown;
}

/* Fill in the shapes of spans, and how much was removed of them.
 *
 * Takes what is asked for; a block's texts, words, spans, attributes, events, links and scopes; by a key's code how
 * much of an attribute belongs to a shape; the mark's bytes; a seed for hashes; a hash table of shapes, and their
 * numbers; and room for the hash of each span's shape: 0 where it has none. Gives how many spans have a shape that
 * is not in the table; theirs is below -1. */
FUNCTION(core_shape) {
    (void)module;
    Held held;
    Array texts, words, spans, pairs, events, links, scopes, roles, mark, known, numbers, found;
    int64_t seed;
    const Asked *asked = given ? PyCapsule_GetPointer(args[0], ASKED) : NULL;
    if (!asked) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "what is asked for is needed");
        return NULL;
    }
    if (!arrays_take(&held, args + 1, given - 1, "brRrrrrbbnqrQ", &texts, &words, (Py_ssize_t)sizeof(Word), &spans,
                     (Py_ssize_t)sizeof(Span), &pairs, (Py_ssize_t)sizeof(Pair), &events, (Py_ssize_t)sizeof(Event), &links,
                     (Py_ssize_t)sizeof(Link), &scopes, (Py_ssize_t)sizeof(Scope), &roles, &mark, &seed, &known, &numbers,
                     (Py_ssize_t)sizeof(int32_t), &found))
        return NULL;
    int64_t *room = calloc((size_t)(2 * words.count + 2 * scopes.count) + 1, sizeof *room);
    int64_t unknown = 0;
    if (room) {
        Block block = {
            .asked = asked, .texts = texts.b, .words = words.any, .pairs = pairs.any, .events = events.any,
            .links = links.any, .scopes = scopes.any, .roles = roles.b, .mark = mark.b, .mark_size = mark.count,
            .seed = (uint64_t)seed, .seen = room, .names = (uint64_t *)room + words.count,
            .known_scopes = (uint64_t *)room + 2 * words.count,
            .of_whole_names = (uint64_t *)room + 2 * words.count + scopes.count,
        };
        Numbers table = {known.q, numbers.any, known.count};
        Py_BEGIN_ALLOW_THREADS
        unknown = find_shapes(&block, spans.any, spans.count, &table, found.q);
        Py_END_ALLOW_THREADS
    }
    arrays_drop(&held);
    free(room);
    return room ? PyLong_FromLongLong(unknown) : PyErr_NoMemory();
}
