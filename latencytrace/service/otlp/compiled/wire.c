/* The wire format of OTLP traces, read into records.
 *
 * Every length is held against the end of what it is in. What is odd, though protobuf allows it, is not
 * decided here: then nothing is returned, and the plain way takes the whole request. */
#include "records.h"

#define ODD (-1)
#define OLD_SCOPE_SPANS 0x1F42 /* field 1000 of a resource, `instrumentation_library_spans`: see `mending` */
#define LOW_32 UINT64_C(0xFFFFFFFF)
#define VERIFIED 1           /* the code of a word that is UTF-8 */
#define FEWEST_SLOTS 512     /* of the hash table of words */
#define FEWEST_ROOM 16       /* of records */
#define MOST_TRIED 1000      /* slots for one word: a sender that makes up texts of one hash would have all of them compared */
#define LIKELY_SPAN_BYTES 320
#define LIKELY_PAIR_BYTES 40

typedef struct {
    char *at;
    int64_t count, room;
} Records;

typedef struct {
    const uint8_t *data;
    int64_t size;
    uint64_t seed;
    int64_t most; /* records of each kind */
    Records spans, pairs, events, links, resources, scopes, words, hashes;
    Records mended, mended_resources; /* texts that were not UTF-8, as bytes; where they stood */
    int64_t mends;
    int32_t *slots; /* words by hash; 0: free */
    int64_t slot_count;
    int64_t rejected, nested;
    int32_t message; /* of the span that is read */
    int16_t status;
    int is_out_of_memory;
} Scan;

/* --- memory */

static int grow(Scan *scan, Records *records, size_t item, int64_t room) {
    char *at = realloc(records->at, (size_t)room * item);
    if (!at) {
        scan->is_out_of_memory = 1;
        return 0;
    }
    records->at = at;
    records->room = room;
    return 1;
}

/* A record more, which is zeros; NULL: there are too many, or there is no memory. */
static inline void *more(Scan *scan, Records *records, size_t item) {
    if (records->count >= scan->most)
        return NULL;
    if (records->count == records->room) {
        int64_t room = records->room ? 2 * records->room : FEWEST_ROOM;
        if (!grow(scan, records, item, room))
            return NULL;
    }
    void *found = records->at + (size_t)records->count++ * item;
    memset(found, 0, item);
    return found;
}

static int spread_words(Scan *scan, int64_t slot_count) {
    int32_t *slots = calloc((size_t)slot_count, sizeof *slots);
    if (!slots) {
        scan->is_out_of_memory = 1;
        return 0;
    }
    const uint64_t *hashes = (const uint64_t *)scan->hashes.at;
    for (int64_t number = 1; number < scan->words.count; number++) {
        int64_t slot = (int64_t)(hashes[number] >> 20) & (slot_count - 1);
        while (slots[slot])
            slot = (slot + 1) & (slot_count - 1);
        slots[slot] = (int32_t)number;
    }
    free(scan->slots);
    scan->slots = slots;
    scan->slot_count = slot_count;
    return 1;
}

static int begin(Scan *scan, int64_t size) {
    int64_t slots = FEWEST_SLOTS;
    while (slots < size / 64)
        slots *= 2;
    return spread_words(scan, slots) && grow(scan, &scan->spans, sizeof(Span), size / LIKELY_SPAN_BYTES + FEWEST_ROOM) &&
           grow(scan, &scan->pairs, sizeof(Pair), size / LIKELY_PAIR_BYTES + FEWEST_ROOM) &&
           more(scan, &scan->words, sizeof(Word)) && more(scan, &scan->hashes, sizeof(uint64_t)); /* the empty word */
}

static void end(Scan *scan) {
    Records *all[] = {&scan->spans,  &scan->pairs, &scan->events, &scan->links,  &scan->resources,
                      &scan->scopes, &scan->words, &scan->hashes, &scan->mended, &scan->mended_resources};
    for (size_t one = 0; one < sizeof all / sizeof *all; one++)
        free(all[one]->at);
    free(scan->slots);
}

/* --- numbers: each is read from `at`, which is moved behind it; below 0: it cannot be read */

static inline uint64_t varint(const Scan *scan, int64_t *at, int64_t end) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (*at >= end)
            break;
        uint8_t byte = scan->data[(*at)++];
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return value;
    }
    *at = ODD;
    return 0;
}

/* A length, of what begins at `at`: it is no longer than there is. */
static inline int64_t sized(const Scan *scan, int64_t *at, int64_t end) {
    uint64_t size;
    if (*at < end && scan->data[*at] < 0x80)
        size = scan->data[(*at)++];
    else
        size = varint(scan, at, end);
    if (*at < 0 || size > (uint64_t)(end - *at)) {
        *at = ODD;
        return 0;
    }
    return (int64_t)size;
}

/* A field's number and wire type, in two bytes at most; there is no field 0. */
static inline int tag_of(const Scan *scan, int64_t *at, int64_t end) {
    int tag = scan->data[(*at)++];
    if (tag >= 0x80) {
        if (*at >= end || scan->data[*at] >= 0x80) {
            *at = ODD;
            return 0;
        }
        tag = (tag & 0x7F) | scan->data[(*at)++] << 7;
    }
    if (tag < 8)
        *at = ODD;
    return tag;
}

/* Move behind a field that is not read. */
static inline void skip(const Scan *scan, int64_t *at, int64_t end, int wire_type) {
    if (wire_type == 0) {
        varint(scan, at, end);
    } else if (wire_type == 2) {
        int64_t size = sized(scan, at, end);
        if (*at >= 0)
            *at += size;
    } else if (wire_type == 1) {
        *at += 8;
    } else if (wire_type == 5) {
        *at += 4;
    } else {
        *at = ODD;
    }
    if (*at > end)
        *at = ODD;
}

/* The tag of the next field that has a length, which begins at `at`; 0: none follows, below 0: it cannot be
 * read. */
static inline int next(const Scan *scan, int64_t *at, int64_t end, int64_t *size) {
    while (*at < end) {
        int tag = tag_of(scan, at, end);
        if (*at < 0)
            return ODD;
        if ((tag & 7) == 2) {
            *size = sized(scan, at, end);
            return *at < 0 ? ODD : tag;
        }
        skip(scan, at, end, tag & 7);
        if (*at < 0)
            return ODD;
    }
    return 0;
}

/* Eight bytes, the highest first. */
static inline uint64_t id_of(const uint8_t *from) {
    uint64_t value = 0;
    for (int place = 0; place < 8; place++)
        value = value << 8 | from[place];
    return value;
}

/* --- texts */

static inline int is_ascii(const uint8_t *text, int64_t size) {
    uint64_t high = last_bytes(text, size);
    for (int64_t place = 0; place < size - 8; place += 8)
        high |= eight_bytes(text + place);
    return !(high & UINT64_C(0x8080808080808080));
}

/* How many bytes the character has that a text begins with; below 0: it is none, and so many bytes are read as one
 * that is wrong (Unicode 3.9, the maximal subpart). */
static inline int64_t character(const uint8_t *text, int64_t size) {
    uint8_t byte = *text;
    if (byte < 0x80)
        return 1;
    if (byte < 0xC2 || byte > 0xF4)
        return -1;
    int64_t following = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    /* Longer than need be, half of a pair, or beyond the last character. */
    uint8_t least = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
    uint8_t most = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
    for (int64_t place = 1; place <= following; place++, least = 0x80, most = 0xBF)
        if (place == size || text[place] < least || text[place] > most)
            return -place;
    return following + 1;
}

int is_utf8(const uint8_t *text, int64_t size) {
    if (is_ascii(text, size))
        return 1;
    for (int64_t place = 0, read; place < size; place += read)
        if ((read = character(text + place, size - place)) < 0)
            return 0;
    return 1;
}

/* Where a text lies: in the request, or behind it if it was mended. */
static inline const uint8_t *text_at(const Scan *scan, int64_t at) {
    return at < scan->size ? scan->data + at : (const uint8_t *)scan->mended.at + (at - scan->size);
}

/* Note that something of the resource that is read was mended. */
static int note_mending(Scan *scan) {
    int64_t place = scan->resources.count - 1, noted = scan->mended_resources.count;
    scan->mends++;
    if (noted && ((const int64_t *)scan->mended_resources.at)[noted - 1] == place)
        return 1;
    int64_t *found = more(scan, &scan->mended_resources, sizeof *found);
    if (found)
        *found = place;
    return found != NULL;
}

/* Write a text with U+FFFD where it is wrong, behind the request. */
static int mend(Scan *scan, int64_t *at, int64_t *size) {
    Records *to = &scan->mended;
    int64_t most = to->count + 3 * *size, since = to->count;
    if ((most > to->room && !grow(scan, to, 1, 2 * most)) || !note_mending(scan))
        return 0;
    const uint8_t *from = scan->data + *at;
    for (int64_t place = 0; place < *size;) {
        int64_t read = character(from + place, *size - place), written = read < 0 ? 3 : read;
        memcpy(to->at + to->count, read < 0 ? (const uint8_t *)"\xEF\xBF\xBD" : from + place, (size_t)written);
        to->count += written;
        place += read < 0 ? -read : read;
    }
    *at = scan->size + since;
    *size = to->count - since;
    return scan->size + to->count < INT32_MAX;
}

/* Mend a text if it has to be; 0: it cannot be. */
static inline int read_text(Scan *scan, int64_t *at, int64_t *size) {
    return is_utf8(scan->data + *at, *size) || mend(scan, at, size);
}

/* A text that is not kept. */
static inline int pass_text(Scan *scan, int64_t at, int64_t size) {
    return is_utf8(scan->data + at, size) || note_mending(scan);
}

static inline int is_same(const uint8_t *one, const uint8_t *other, int64_t size) {
    for (int64_t place = 0; place < size - 8; place += 8)
        if (eight_bytes(one + place) != eight_bytes(other + place))
            return 0;
    return last_bytes(one, size) == last_bytes(other, size);
}

static int32_t new_word(Scan *scan, int64_t at, int64_t size, uint64_t hash, int64_t slot) {
    Word *word = more(scan, &scan->words, sizeof *word);
    uint64_t *kept = more(scan, &scan->hashes, sizeof *kept);
    if (!word || !kept)
        return ODD;
    word->at = at;
    word->size = (int32_t)size;
    *kept = hash;
    int32_t number = (int32_t)scan->words.count - 1;
    scan->slots[slot] = number;
    if (2 * scan->words.count > scan->slot_count && !spread_words(scan, 4 * scan->slot_count))
        return ODD;
    return number;
}

/* A word's number; `ODD`: there are too many. */
static int32_t word_of(Scan *scan, int64_t at, int64_t size, int has_to_be_text) {
    if (!size)
        return 0;
    const uint8_t *text = text_at(scan, at);
    uint64_t hash = text_hash(text, size, scan->seed);
    int64_t slot = (int64_t)(hash >> 20) & (scan->slot_count - 1);
    int32_t number, tried = 0;
    while ((number = scan->slots[slot])) {
        if (++tried > MOST_TRIED)
            return ODD;
        const Word *word = (const Word *)scan->words.at + number;
        if (((const uint64_t *)scan->hashes.at)[number] == hash && word->size == size &&
            is_same(text_at(scan, word->at), text, size))
            break;
        slot = (slot + 1) & (scan->slot_count - 1);
    }
    int is_verified = number && ((const Word *)scan->words.at)[number].code == VERIFIED;
    if (has_to_be_text && !is_verified && !is_utf8(text, size))
        return mend(scan, &at, &size) ? word_of(scan, at, size, 1) : ODD;
    if (!number && (number = new_word(scan, at, size, hash, slot)) < 0)
        return ODD;
    if (has_to_be_text)
        ((Word *)scan->words.at)[number].code = VERIFIED;
    return number;
}

/* --- messages: each function reads one that lies from `at` to `end`; 0: it cannot */

/* An attribute's value: one field. */
static inline int read_value(Scan *scan, int64_t at, int64_t end, Pair *pair) {
    uint8_t tag = scan->data[at++];
    pair->form = tag >> 3;
    switch (tag) {
    case 0x0A: case 0x2A: case 0x32: case 0x3A: { /* a text, a list, a map, bytes */
        int64_t size = sized(scan, &at, end);
        if (at < 0)
            return 0;
        int64_t place = at, kept = size;
        if (tag == 0x0A && !read_text(scan, &place, &kept))
            return 0;
        pair->value = place;
        pair->size = (int32_t)kept;
        scan->nested += tag == 0x2A || tag == 0x32;
        at += size;
        break;
    }
    case 0x10: case 0x18: { /* yes or no, a whole number */
        uint64_t value = varint(scan, &at, end);
        pair->value = tag == 0x10 ? value != 0 : (int64_t)value;
        break;
    }
    case 0x21: /* a fraction */
        if (end - at != 8)
            return 0;
        pair->value = (int64_t)eight_bytes(scan->data + at);
        at = end;
        break;
    default:
        return 0;
    }
    return at == end;
}

/* An attribute. */
static inline int read_pair(Scan *scan, int64_t at, int64_t end) {
    int64_t key_at = ODD, key_size = 0, value_at = ODD, value_end = ODD;
    while (at < end) {
        uint8_t tag = scan->data[at++];
        int64_t size = sized(scan, &at, end);
        if (at < 0)
            return 0;
        if (tag == 0x0A && key_at < 0) {
            key_at = at;
            key_size = size;
        } else if (tag == 0x12 && value_at < 0) {
            value_at = at;
            value_end = at + size;
        } else {
            return 0;
        }
        at += size;
    }
    int32_t key = word_of(scan, key_at, key_size, 1);
    Pair *pair = key < 0 ? NULL : more(scan, &scan->pairs, sizeof *pair);
    if (!pair)
        return 0;
    pair->key = key;
    return value_at >= value_end || read_value(scan, value_at, value_end, pair);
}

static int read_event(Scan *scan, int64_t at, int64_t end) {
    int64_t first = scan->pairs.count;
    uint64_t time_ns = 0;
    int32_t name = 0;
    while (at < end) {
        int tag = tag_of(scan, &at, end);
        if (at < 0)
            return 0;
        if (tag == 0x12 || tag == 0x1A) {
            int64_t size = sized(scan, &at, end);
            if (at < 0)
                return 0;
            if (tag == 0x12)
                name = word_of(scan, at, size, 1);
            else if (!read_pair(scan, at, at + size))
                return 0;
            if (name < 0)
                return 0;
            at += size;
        } else {
            int64_t before = at;
            skip(scan, &at, end, tag & 7);
            if (at < 0)
                return 0;
            if (tag == 0x09)
                time_ns = eight_bytes(scan->data + before);
        }
    }
    Event *event = more(scan, &scan->events, sizeof *event);
    if (!event)
        return 0;
    event->time_ns = time_ns;
    event->name = name;
    event->pairs = (int32_t)first;
    event->pair_count = (int32_t)(scan->pairs.count - first);
    return 1;
}

static int read_link(Scan *scan, int64_t at, int64_t end) {
    int64_t first = scan->pairs.count, size = 0;
    int32_t trace = 0, span = 0, state = 0;
    int tag;
    while ((tag = next(scan, &at, end, &size)) > 0) {
        if (tag == 0x0A)
            trace = word_of(scan, at, size, 0);
        else if (tag == 0x12)
            span = word_of(scan, at, size, 0);
        else if (tag == 0x1A)
            state = word_of(scan, at, size, 1);
        else if (tag == 0x22 && !read_pair(scan, at, at + size))
            return 0;
        if (trace < 0 || span < 0 || state < 0)
            return 0;
        at += size;
    }
    Link *link = tag < 0 ? NULL : more(scan, &scan->links, sizeof *link);
    if (!link)
        return 0;
    link->trace = trace;
    link->span = span;
    link->state = state;
    link->pairs = (int32_t)first;
    link->pair_count = (int32_t)(scan->pairs.count - first);
    return 1;
}

/* The events and links of a span whose fields were all looked at before. */
static int read_lists(Scan *scan, int64_t at, int64_t end) {
    while (at < end) {
        int tag = tag_of(scan, &at, end);
        if (tag == 0x5A || tag == 0x6A) {
            int64_t size = sized(scan, &at, end);
            if (!(tag == 0x5A ? read_event(scan, at, at + size) : read_link(scan, at, at + size)))
                return 0;
            at += size;
        } else {
            skip(scan, &at, end, tag & 7);
        }
    }
    return 1;
}

static int read_status(Scan *scan, int64_t at, int64_t end) {
    while (at < end) {
        int tag = tag_of(scan, &at, end);
        if (at < 0)
            return 0;
        if (tag == 0x12) {
            int64_t size = sized(scan, &at, end);
            int32_t message = at < 0 ? ODD : word_of(scan, at, size, 1);
            if (message < 0)
                return 0;
            scan->message = message;
            at += size;
        } else if (tag == 0x18) {
            uint64_t code = varint(scan, &at, end) & LOW_32;
            scan->status = code <= 2 ? (int16_t)code : 0;
        } else {
            skip(scan, &at, end, tag & 7);
        }
        if (at < 0)
            return 0;
    }
    return 1;
}

static inline int is_zero(const uint8_t *from, int size) {
    for (int place = 0; place < size; place++)
        if (from[place])
            return 0;
    return 1;
}

typedef struct { /* what a span's fields say */
    int64_t trace_at, span_at; /* `ODD`: it has no such id */
    uint64_t parent_id, start_ns, end_ns;
    int32_t name, state, lists;
    int16_t kind;
} SpanFields;

/* A field of a span that has a length. */
static inline int read_span_field(Scan *scan, int tag, int64_t at, int64_t size, SpanFields *fields) {
    const uint8_t *from = scan->data + at;
    switch (tag) {
    case 0x4A:
        return read_pair(scan, at, at + size);
    case 0x0A:
        fields->trace_at = size == 16 && !is_zero(from, 16) ? at : ODD;
        return 1;
    case 0x12:
        fields->span_at = size == 8 && !is_zero(from, 8) ? at : ODD;
        return 1;
    case 0x22:
        fields->parent_id = size == 8 ? id_of(from) : 0;
        return 1;
    case 0x2A:
        return (fields->name = word_of(scan, at, size, 1)) >= 0;
    case 0x1A:
        return (fields->state = word_of(scan, at, size, 1)) >= 0;
    case 0x5A: case 0x6A:
        fields->lists++;
        return 1;
    case 0x7A:
        return read_status(scan, at, at + size);
    default:
        return 1;
    }
}

static int read_span_fields(Scan *scan, int64_t at, int64_t end, SpanFields *fields) {
    while (at < end) {
        int tag = tag_of(scan, &at, end);
        if (at < 0)
            return 0;
        if ((tag & 7) == 2) {
            int64_t size = sized(scan, &at, end);
            if (at < 0 || !read_span_field(scan, tag, at, size, fields))
                return 0;
            at += size;
        } else if (tag == 0x30) {
            uint64_t kind = varint(scan, &at, end) & LOW_32;
            fields->kind = kind <= 5 ? (int16_t)kind : 0;
        } else {
            int64_t before = at;
            skip(scan, &at, end, tag & 7);
            if (at >= 0 && tag == 0x39)
                fields->start_ns = eight_bytes(scan->data + before);
            else if (at >= 0 && tag == 0x41)
                fields->end_ns = eight_bytes(scan->data + before);
        }
        if (at < 0)
            return 0;
    }
    return 1;
}

static int read_span(Scan *scan, int64_t at, int64_t end) {
    int64_t first = scan->pairs.count, first_event = scan->events.count, first_link = scan->links.count;
    int64_t nested = scan->nested;
    SpanFields fields = {.trace_at = ODD, .span_at = ODD};
    scan->message = 0;
    scan->status = 0;
    if (!read_span_fields(scan, at, end, &fields))
        return 0;
    int64_t pair_count = scan->pairs.count - first; /* before those of its events */
    if (fields.lists && !read_lists(scan, at, end))
        return 0;
    if (fields.trace_at < 0 || fields.span_at < 0) {
        if (scan->nested != nested) /* else these would not be checked for decoding */
            return 0;
        scan->rejected++;
        scan->pairs.count = first;
        scan->events.count = first_event;
        scan->links.count = first_link;
        return 1;
    }
    Span *span = more(scan, &scan->spans, sizeof *span);
    if (!span)
        return 0;
    *span = (Span){
        .trace_high = id_of(scan->data + fields.trace_at),
        .trace_low = id_of(scan->data + fields.trace_at + 8),
        .span_id = id_of(scan->data + fields.span_at),
        .parent_id = fields.parent_id,
        .start_ns = fields.start_ns,
        .end_ns = fields.end_ns,
        .pairs = (int32_t)first,
        .pair_count = (int32_t)pair_count,
        .events = (int32_t)first_event,
        .event_count = (int32_t)(scan->events.count - first_event),
        .links = (int32_t)first_link,
        .link_count = (int32_t)(scan->links.count - first_link),
        .name = fields.name,
        .state = fields.state,
        .message = scan->message,
        .resource = (int32_t)scan->resources.count - 1,
        .scope = (int32_t)scan->scopes.count - 1,
        .kind = fields.kind,
        .status = scan->status,
    };
    return 1;
}

/* An instrumentation scope: its attributes are read, and dropped. */
static int read_scope(Scan *scan, int64_t at, int64_t end) {
    Scope scope = ((const Scope *)scan->scopes.at)[scan->scopes.count - 1];
    int64_t size = 0;
    int tag;
    while ((tag = next(scan, &at, end, &size)) > 0) {
        if (tag == 0x0A) {
            scope.name = word_of(scan, at, size, 1);
        } else if (tag == 0x12) {
            scope.version = word_of(scan, at, size, 1);
        } else if (tag == 0x1A) {
            int64_t nested = scan->nested;
            if (!read_pair(scan, at, at + size) || scan->nested != nested)
                return 0;
            scan->pairs.count--;
        }
        if (scope.name < 0 || scope.version < 0)
            return 0;
        at += size;
    }
    ((Scope *)scan->scopes.at)[scan->scopes.count - 1] = scope;
    return tag == 0;
}

static int read_scope_spans(Scan *scan, int64_t at, int64_t end) {
    int64_t size = 0;
    int tag;
    if (!more(scan, &scan->scopes, sizeof(Scope)))
        return 0;
    while ((tag = next(scan, &at, end, &size)) > 0) {
        if (tag == 0x12 && !read_span(scan, at, at + size))
            return 0;
        if (tag == 0x0A && !read_scope(scan, at, at + size))
            return 0;
        if (tag == 0x1A && !pass_text(scan, at, size)) /* where its schema is described */
            return 0;
        at += size;
    }
    return tag == 0;
}

static int read_resource(Scan *scan, int64_t at, int64_t end) {
    Resource *resource = (Resource *)scan->resources.at + scan->resources.count - 1;
    if (resource->pair_count) /* its attributes would not lie together */
        return 0;
    int64_t first = scan->pairs.count, size = 0;
    int tag;
    resource->service = (int32_t)at; /* until its words are known: where it lies */
    resource->instance = (int32_t)end;
    while ((tag = next(scan, &at, end, &size)) > 0) {
        if (tag == 0x1A) /* entities */
            return 0;
        if (tag == 0x0A && !read_pair(scan, at, at + size))
            return 0;
        at += size;
    }
    resource->pairs = (int32_t)first;
    resource->pair_count = (int32_t)(scan->pairs.count - first);
    return tag == 0;
}

static int read_resource_spans(Scan *scan, int64_t at, int64_t end) {
    int64_t size = 0;
    int tag;
    Resource *resource = more(scan, &scan->resources, sizeof *resource);
    if (!resource)
        return 0;
    resource->pairs = (int32_t)scan->pairs.count;
    while ((tag = next(scan, &at, end, &size)) > 0) {
        if (tag == 0x12 && !read_scope_spans(scan, at, at + size))
            return 0;
        if (tag == 0x0A && !read_resource(scan, at, at + size))
            return 0;
        if (tag == OLD_SCOPE_SPANS || (tag == 0x1A && !pass_text(scan, at, size)))
            return 0;
        at += size;
    }
    return tag == 0;
}

static int read_request(Scan *scan, int64_t at, int64_t end) {
    int64_t size = 0;
    int tag;
    while ((tag = next(scan, &at, end, &size)) > 0) {
        if (tag == 0x0A && !read_resource_spans(scan, at, at + size))
            return 0;
        at += size;
    }
    return tag == 0;
}

/* Read requests that lie end to end. */
static int read_requests(Scan *scan, const Array *ends) {
    int64_t at = 0;
    for (int64_t one = 0; one < ends->count; at = ends->q[one++])
        if (!read_request(scan, at, ends->q[one]))
            return 0;
    return 1;
}

/* --- for Python */

static PyObject *copied(const Records *records, size_t item) {
    return PyByteArray_FromStringAndSize(records->at, records->count * (Py_ssize_t)item);
}

static PyObject *found_in(const Scan *scan) {
    return Py_BuildValue(
        "NNNNNNNNLLNNL", copied(&scan->spans, sizeof(Span)), copied(&scan->pairs, sizeof(Pair)),
        copied(&scan->events, sizeof(Event)), copied(&scan->links, sizeof(Link)),
        copied(&scan->resources, sizeof(Resource)), copied(&scan->scopes, sizeof(Scope)),
        copied(&scan->words, sizeof(Word)), copied(&scan->hashes, sizeof(uint64_t)), (long long)scan->rejected,
        (long long)scan->nested, copied(&scan->mended, 1), copied(&scan->mended_resources, sizeof(int64_t)),
        (long long)scan->mends);
}

/* Read requests: their bytes, where each ends, a seed for hashes, how many records there may be of each kind. Gives the
 * spans, attributes, events, links, resources, scopes, words and the words' hashes, how many spans were left out for
 * want of ids, how many values are lists or maps; texts that were mended, which belong behind the requests, the places
 * of resources where they stood, and how many there were. None: they are for the plain way. */
FUNCTION(core_scan) {
    (void)module;
    Held held;
    Array data, ends;
    int64_t seed, most;
    if (!arrays_take(&held, args, given, "bqnn", &data, &ends, &seed, &most))
        return NULL;
    Scan scan = {.data = data.b, .size = data.count, .seed = (uint64_t)seed, .most = most};
    int is_usual;
    Py_BEGIN_ALLOW_THREADS
    is_usual = data.count < INT32_MAX && begin(&scan, data.count) && read_requests(&scan, &ends);
    Py_END_ALLOW_THREADS
    PyObject *found;
    if (is_usual) {
        for (int64_t number = 0; number < scan.words.count; number++)
            ((Word *)scan.words.at)[number].code = 0;
        found = found_in(&scan);
    } else if (scan.is_out_of_memory) {
        found = PyErr_NoMemory();
    } else {
        found = Py_NewRef(Py_None);
    }
    end(&scan);
    arrays_drop(&held);
    return found;
}
