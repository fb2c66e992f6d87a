/* OTLP's JSON, written as the protobuf that `wire.c` reads.
 *
 * It knows what senders write by the specification: a field by its name in lowerCamelCase, once, with a value of its
 * type. Of all else nothing is returned, and the plain way takes the whole request (see `json.py`). */
#include "records.h"

#include <math.h>

#define DEEPEST 24   /* messages within messages */
#define MOST_DIGITS 40 /* of a fraction */
#define LENGTHS 64   /* bytes more than the JSON has: no message of protobuf is longer than its JSON by more */

typedef enum {
    A_MESSAGE, MESSAGES, A_TEXT, A_TRACE, A_SPAN, A_TIME, A_COUNT, A_KIND, A_STATUS, A_TRUTH, A_WHOLE, A_FRACTION
} Type; /* of a field's value; counts are read, and not written */

typedef struct Message Message;

typedef struct {
    const char *name;
    const Message *of;
    uint8_t tag, type;
} Field;

struct Message {
    const Field *fields;
    int count, is_value; /* a value is one of its fields */
};

#define MESSAGE(name, is_value) \
    static const Message name = {name##_fields, sizeof name##_fields / sizeof *name##_fields, is_value}
#define ATTRIBUTES(tag) {"attributes", &of_pair, tag, MESSAGES}, {"droppedAttributesCount", NULL, 0, A_COUNT}

static const Message of_value;
static const Field of_pair_fields[] = {{"key", NULL, 0x0A, A_TEXT}, {"value", &of_value, 0x12, A_MESSAGE}};
MESSAGE(of_pair, 0);
static const Field of_list_fields[] = {{"values", &of_value, 0x0A, MESSAGES}};
MESSAGE(of_list, 0);
static const Field of_map_fields[] = {{"values", &of_pair, 0x0A, MESSAGES}};
MESSAGE(of_map, 0);
static const Field of_value_fields[] = {
    {"stringValue", NULL, 0x0A, A_TEXT},  {"boolValue", NULL, 0x10, A_TRUTH},     {"intValue", NULL, 0x18, A_WHOLE},
    {"doubleValue", NULL, 0x21, A_FRACTION}, {"arrayValue", &of_list, 0x2A, A_MESSAGE}, {"kvlistValue", &of_map, 0x32, A_MESSAGE},
};
MESSAGE(of_value, 1);
static const Field of_event_fields[] = {
    {"timeUnixNano", NULL, 0x09, A_TIME}, {"name", NULL, 0x12, A_TEXT}, ATTRIBUTES(0x1A)};
MESSAGE(of_event, 0);
static const Field of_link_fields[] = {
    {"traceId", NULL, 0x0A, A_TRACE}, {"spanId", NULL, 0x12, A_SPAN}, {"traceState", NULL, 0x1A, A_TEXT},
    ATTRIBUTES(0x22), {"flags", NULL, 0, A_COUNT}};
MESSAGE(of_link, 0);
static const Field of_status_fields[] = {{"message", NULL, 0x12, A_TEXT}, {"code", NULL, 0x18, A_STATUS}};
MESSAGE(of_status, 0);
static const Field of_span_fields[] = {
    {"traceId", NULL, 0x0A, A_TRACE},          {"spanId", NULL, 0x12, A_SPAN},
    {"traceState", NULL, 0x1A, A_TEXT},        {"parentSpanId", NULL, 0x22, A_SPAN},
    {"flags", NULL, 0, A_COUNT},               {"name", NULL, 0x2A, A_TEXT},
    {"kind", NULL, 0x30, A_KIND},              {"startTimeUnixNano", NULL, 0x39, A_TIME},
    {"endTimeUnixNano", NULL, 0x41, A_TIME},   ATTRIBUTES(0x4A),
    {"events", &of_event, 0x5A, MESSAGES},        {"droppedEventsCount", NULL, 0, A_COUNT},
    {"links", &of_link, 0x6A, MESSAGES},          {"droppedLinksCount", NULL, 0, A_COUNT},
    {"status", &of_status, 0x7A, A_MESSAGE},
};
MESSAGE(of_span, 0);
static const Field of_scope_fields[] = {
    {"name", NULL, 0x0A, A_TEXT}, {"version", NULL, 0x12, A_TEXT}, ATTRIBUTES(0x1A)};
MESSAGE(of_scope, 0);
static const Field of_scope_spans_fields[] = {
    {"scope", &of_scope, 0x0A, A_MESSAGE}, {"spans", &of_span, 0x12, MESSAGES}, {"schemaUrl", NULL, 0x1A, A_TEXT}};
MESSAGE(of_scope_spans, 0);
static const Field of_resource_fields[] = {ATTRIBUTES(0x0A)};
MESSAGE(of_resource, 0);
static const Field of_resource_spans_fields[] = {
    {"resource", &of_resource, 0x0A, A_MESSAGE}, {"scopeSpans", &of_scope_spans, 0x12, MESSAGES},
    {"schemaUrl", NULL, 0x1A, A_TEXT}};
MESSAGE(of_resource_spans, 0);
static const Field of_request_fields[] = {{"resourceSpans", &of_resource_spans, 0x0A, MESSAGES}};
MESSAGE(of_request, 0);

static const char *const kinds[] = {"SPAN_KIND_UNSPECIFIED", "SPAN_KIND_INTERNAL", "SPAN_KIND_SERVER",
                                    "SPAN_KIND_CLIENT",      "SPAN_KIND_PRODUCER", "SPAN_KIND_CONSUMER"};
static const char *const statuses[] = {"STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"};

typedef struct {
    const uint8_t *from; /* its digits */
    int64_t to;          /* where it is written */
} Fraction;

typedef struct {
    const uint8_t *at, *end;
    uint8_t *out;
    int64_t written, room, items_left;
    Fraction *fractions; /* to be read with the interpreter, whose function for them is exact */
    int64_t fraction_count, fraction_room;
    int is_out_of_memory;
} Json;

/* --- reading: each function moves behind what it takes; 0: it is not there */

static inline void pass_blanks(Json *json) {
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r'))
        json->at++;
}

static inline int take(Json *json, uint8_t sign) {
    pass_blanks(json);
    if (json->at >= json->end || *json->at != sign)
        return 0;
    json->at++;
    return 1;
}

/* A sign that follows at once. */
static inline int take_next(Json *json, uint8_t sign) {
    if (json->at >= json->end || *json->at != sign)
        return 0;
    json->at++;
    return 1;
}

static int take_word(Json *json, const char *word) {
    size_t size = strlen(word);
    if ((size_t)(json->end - json->at) < size || memcmp(json->at, word, size))
        return 0;
    json->at += size;
    return 1;
}

static inline int64_t take_digits(Json *json) {
    const uint8_t *first = json->at;
    while (json->at < json->end && *json->at >= '0' && *json->at <= '9')
        json->at++;
    return json->at - first;
}

/* --- writing */

static inline int put(Json *json, const void *from, int64_t size) {
    if (json->room - json->written < size)
        return 0;
    memcpy(json->out + json->written, from, (size_t)size);
    json->written += size;
    return 1;
}

static inline int put_byte(Json *json, uint8_t byte) { return put(json, &byte, 1); }

static int put_varint(Json *json, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        if (!put_byte(json, (uint8_t)(value | 0x80)))
            return 0;
    return put_byte(json, (uint8_t)value);
}

/* Write the length of what was written since then before it, where one byte was left for it. */
static int put_length(Json *json, int64_t since, int64_t fractions) {
    int64_t size = json->written - since, more = 0;
    for (int64_t rest = size; rest >= 0x80; rest >>= 7)
        more++;
    if (json->room - json->written < more)
        return 0;
    if (more) {
        memmove(json->out + since + more, json->out + since, (size_t)size);
        for (int64_t one = fractions; one < json->fraction_count; one++)
            json->fractions[one].to += more;
    }
    json->written = since - 1;
    put_varint(json, (uint64_t)size);
    json->written += size;
    return 1;
}

/* --- values */

/* How many bytes from there are as they are in a text, but for some of the last seven. */
static inline int64_t usual_bytes(const uint8_t *from, int64_t size) {
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = UINT64_C(0x8080808080808080);
    int64_t found = 0;
    for (; found + 8 <= size; found += 8) {
        uint64_t bytes = eight_bytes(from + found), quotes = bytes ^ ones * '"', slashes = bytes ^ ones * '\\';
        uint64_t odd = ((quotes - ones) & ~quotes) | ((slashes - ones) & ~slashes) | ((bytes - ones * ' ') & ~bytes);
        if (odd & highs)
            break;
    }
    return found;
}

static int take_hex(Json *json, int digits, uint32_t *value) {
    if (json->end - json->at < digits)
        return 0;
    for (*value = 0; digits; digits--) {
        uint8_t sign = *json->at++, letter = sign | 0x20;
        if (sign >= '0' && sign <= '9')
            *value = *value << 4 | (uint32_t)(sign - '0');
        else if (letter >= 'a' && letter <= 'f')
            *value = *value << 4 | (uint32_t)(letter - 'a' + 10);
        else
            return 0;
    }
    return 1;
}

/* The character of `\u`; halves come in pairs. */
static int read_character(Json *json) {
    uint32_t one, other;
    if (!take_hex(json, 4, &one))
        return 0;
    if (one >= 0xD800 && one <= 0xDFFF) {
        if (one > 0xDBFF || !take_word(json, "\\u") || !take_hex(json, 4, &other) || other < 0xDC00 || other > 0xDFFF)
            return 0;
        one = 0x10000 + ((one - 0xD800) << 10) + (other - 0xDC00);
    }
    if (one < 0x80)
        return put_byte(json, (uint8_t)one);
    uint8_t bytes[4];
    int size = one < 0x800 ? 2 : one < 0x10000 ? 3 : 4;
    for (int place = size - 1; place; place--, one >>= 6)
        bytes[place] = (uint8_t)(0x80 | (one & 0x3F));
    bytes[0] = (uint8_t)(0xF00 >> size | one);
    return put(json, bytes, size);
}

static int read_escape(Json *json) {
    static const char signs[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (json->at >= json->end)
        return 0;
    uint8_t sign = *json->at++;
    if (sign == 'u')
        return read_character(json);
    const char *found = sign ? strchr(signs, sign) : NULL;
    return found && put_byte(json, (uint8_t)meant[found - signs]);
}

/* Write a text. */
static int read_text(Json *json) {
    if (!take(json, '"'))
        return 0;
    while (json->at < json->end) {
        int64_t usual = usual_bytes(json->at, json->end - json->at);
        if (!put(json, json->at, usual))
            return 0;
        json->at += usual;
        if (json->at >= json->end)
            return 0;
        uint8_t sign = *json->at++;
        if (sign == '"')
            return 1;
        if (sign < ' ' || !(sign == '\\' ? read_escape(json) : put_byte(json, sign)))
            return 0;
    }
    return 0;
}

/* Write an id, of which each two digits are a byte. */
static int read_id(Json *json, int size) {
    uint32_t byte;
    for (int place = 0; place < size; place++)
        if (!take_hex(json, 2, &byte) || !put_byte(json, (uint8_t)byte))
            return 0;
    return take_next(json, '"');
}

/* A whole number, in quotes or not, of so many digits at most. */
static int read_whole(Json *json, int64_t most, int may_be_negative, uint64_t *value) {
    int is_quoted = take(json, '"'), is_negative = take_next(json, '-');
    const uint8_t *first = json->at;
    int64_t digits = take_digits(json);
    if (!digits || digits > most || (is_negative && !may_be_negative) || (*first == '0' && digits > 1 && !is_quoted))
        return 0;
    for (*value = 0; first < json->at; first++)
        *value = *value * 10 + (uint64_t)(*first - '0');
    if (is_negative)
        *value = 0 - *value;
    return !is_quoted || take_next(json, '"');
}

/* One of some words, or its number. */
static int read_word(Json *json, const char *const *words, uint64_t count, uint64_t *value) {
    if (!take(json, '"'))
        return read_whole(json, 1, 0, value) && *value < count;
    for (*value = 0; *value < count; ++*value)
        if (take_word(json, words[*value]))
            return take_next(json, '"');
    return 0;
}

/* Leave room for a fraction, which is read later. */
static int read_fraction(Json *json) {
    pass_blanks(json);
    const uint8_t *from = json->at;
    int is_negative = take_next(json, '-'), starts_with_0 = json->at < json->end && *json->at == '0', is_whole = 1;
    int64_t digits = take_digits(json);
    if (!digits || (starts_with_0 && digits > 1))
        return 0;
    if (take_next(json, '.')) {
        is_whole = 0;
        if (!take_digits(json))
            return 0;
    }
    if (take_next(json, 'e') || take_next(json, 'E')) {
        is_whole = 0;
        if (!take_next(json, '-'))
            take_next(json, '+');
        if (!take_digits(json))
            return 0;
    }
    if (json->at - from > MOST_DIGITS || (is_whole && is_negative && starts_with_0)) /* -0 is a whole number there */
        return 0;
    if (json->fraction_count == json->fraction_room) {
        int64_t room = 2 * json->fraction_room + 16;
        Fraction *more = realloc(json->fractions, (size_t)room * sizeof *more);
        if (!more) {
            json->is_out_of_memory = 1;
            return 0;
        }
        json->fractions = more;
        json->fraction_room = room;
    }
    json->fractions[json->fraction_count++] = (Fraction){from, json->written};
    return put(json, &(uint64_t){0}, 8);
}

/* --- messages */

static int read_message(Json *json, const Message *message, int depth);

/* A text or a message after its tag. */
static int read_sized(Json *json, const Field *field, int depth) {
    int64_t fractions = json->fraction_count;
    if (!put_byte(json, field->tag) || !put_byte(json, 0))
        return 0;
    int64_t since = json->written;
    return (field->of ? read_message(json, field->of, depth + 1) : read_text(json)) && put_length(json, since, fractions);
}

static int read_messages(Json *json, const Field *field, int depth) {
    if (!take(json, '['))
        return 0;
    if (take(json, ']'))
        return 1;
    do {
        if (--json->items_left < 0 || !read_sized(json, field, depth))
            return 0;
    } while (take(json, ','));
    return take(json, ']');
}

/* A text; an empty one is written only where it is a value. */
static int read_text_field(Json *json, const Message *message, const Field *field) {
    int64_t before = json->written;
    if (!read_sized(json, field, 0))
        return 0;
    if (json->written == before + 2 && !message->is_value)
        json->written = before;
    return 1;
}

static int read_id_field(Json *json, const Field *field, int size) {
    if (!take(json, '"'))
        return 0;
    if (take_next(json, '"')) /* there is no parent */
        return 1;
    return put_byte(json, field->tag) && put_byte(json, (uint8_t)size) && read_id(json, size);
}

static int read_field(Json *json, const Message *message, const Field *field, int depth) {
    uint64_t number = 0;
    switch ((Type)field->type) {
    case A_MESSAGE:
        return read_sized(json, field, depth);
    case MESSAGES:
        return read_messages(json, field, depth);
    case A_TEXT:
        return read_text_field(json, message, field);
    case A_TRACE:
        return read_id_field(json, field, 16);
    case A_SPAN:
        return read_id_field(json, field, 8);
    case A_TIME: /* fewer than twenty digits are below 2^64 */
        return read_whole(json, 19, 0, &number) && put_byte(json, field->tag) && put(json, &number, 8);
    case A_COUNT:
        return read_whole(json, 9, 0, &number);
    case A_KIND:
        return read_word(json, kinds, sizeof kinds / sizeof *kinds, &number) && put_byte(json, field->tag) &&
               put_varint(json, number);
    case A_STATUS:
        return read_word(json, statuses, sizeof statuses / sizeof *statuses, &number) && put_byte(json, field->tag) &&
               put_varint(json, number);
    case A_TRUTH:
        pass_blanks(json);
        number = take_word(json, "true");
        return (number || take_word(json, "false")) && put_byte(json, field->tag) && put_varint(json, number);
    case A_WHOLE:
        return read_whole(json, 18, 1, &number) && put_byte(json, field->tag) && put_varint(json, number);
    case A_FRACTION:
        return put_byte(json, field->tag) && read_fraction(json);
    }
    return 0;
}

/* The field whose name follows in quotes; the one that is likely is tried first. NULL: it is not known. */
static const Field *take_name(Json *json, const Message *message, int likely) {
    if (!take(json, '"'))
        return NULL;
    for (int tried = 0; tried < message->count; tried++) {
        const Field *field = message->fields + (likely + tried) % message->count;
        const uint8_t *before = json->at;
        if (take_word(json, field->name) && take_next(json, '"'))
            return field;
        json->at = before;
    }
    return NULL;
}

static int read_message(Json *json, const Message *message, int depth) {
    unsigned seen = 0;
    int likely = 0;
    if (depth > DEEPEST || !take(json, '{'))
        return 0;
    if (take(json, '}'))
        return 1;
    do {
        const Field *field = take_name(json, message, likely);
        if (!field || !take(json, ':'))
            return 0;
        int number = (int)(field - message->fields);
        if (seen >> number & 1 || (seen && message->is_value))
            return 0;
        seen |= 1u << number;
        if (!read_field(json, message, field, depth))
            return 0;
        likely = number + 1;
    } while (take(json, ','));
    return take(json, '}');
}

static int read_request(Json *json) {
    if (!read_message(json, &of_request, 0))
        return 0;
    pass_blanks(json);
    return json->at == json->end;
}

/* --- for Python */

/* Read the fractions. Something that is no digit follows each. */
static int put_fractions(const Json *json) {
    for (int64_t one = 0; one < json->fraction_count; one++) {
        double found = PyOS_string_to_double((const char *)json->fractions[one].from, &(char *){NULL}, NULL);
        if (PyErr_Occurred())
            PyErr_Clear();
        else if (isfinite(found)) {
            memcpy(json->out + json->fractions[one].to, &found, 8);
            continue;
        }
        return 0;
    }
    return 1;
}

/* A request in protobuf, of one in JSON: its bytes, and how many items all lists may have. None: it is for the plain
 * way. */
FUNCTION(core_from_json) {
    (void)module;
    Held held;
    Array data;
    int64_t most;
    if (!arrays_take(&held, args, given, "bn", &data, &most))
        return NULL;
    int64_t room = data.count + LENGTHS;
    PyObject *found = PyBytes_FromStringAndSize(NULL, room);
    if (!found) {
        arrays_drop(&held);
        return NULL;
    }
    Json json = {.at = data.b, .end = data.b + data.count, .out = (uint8_t *)PyBytes_AS_STRING(found), .room = room,
                 .items_left = most};
    int is_usual;
    Py_BEGIN_ALLOW_THREADS
    is_usual = is_utf8(data.b, data.count) && read_request(&json);
    Py_END_ALLOW_THREADS
    if (is_usual && put_fractions(&json)) {
        _PyBytes_Resize(&found, json.written);
    } else {
        Py_DECREF(found);
        found = json.is_out_of_memory ? PyErr_NoMemory() : Py_NewRef(Py_None);
    }
    free(json.fractions);
    arrays_drop(&held);
    return found;
}
