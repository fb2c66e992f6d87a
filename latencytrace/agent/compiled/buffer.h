/* Bytes that are written one after another, of protobuf's wire format among them. */
#ifndef LATENCYTRACE_BUFFER_H
#define LATENCYTRACE_BUFFER_H

#include "core.h"

typedef struct {
    char *bytes;
    Py_ssize_t length, room;
    int failed; /* there was no memory: what was written since is lost */
} Buffer;

static inline char *buffer_grow(Buffer *out, Py_ssize_t more) {
    if (out->length + more > out->room) {
        Py_ssize_t room = (out->length + more) * 2 + 256;
        char *bytes = out->failed ? NULL : PyMem_Realloc(out->bytes, (size_t)room);
        if (!bytes) {
            out->failed = 1;
            return NULL;
        }
        out->bytes = bytes;
        out->room = room;
    }
    char *at = out->bytes + out->length;
    out->length += more;
    return at;
}

static inline void buffer_put(Buffer *out, const void *bytes, Py_ssize_t length) {
    char *at = buffer_grow(out, length);
    if (at && length) memcpy(at, bytes, (size_t)length);
}

static inline void buffer_byte(Buffer *out, char byte) {
    char *at = buffer_grow(out, 1);
    if (at) *at = byte;
}

static inline int varint_length(uint64_t number) {
    int length = 1;
    while (number >>= 7) length++;
    return length;
}

static inline void buffer_varint(Buffer *out, uint64_t number) {
    char bytes[10];
    int length = 0;
    do {
        bytes[length++] = (char)((number & 0x7F) | (number > 0x7F ? 0x80 : 0));
    } while (number >>= 7);
    buffer_put(out, bytes, length);
}

static inline void buffer_fixed64(Buffer *out, uint64_t number) {
    unsigned char bytes[8];
    for (int at = 0; at < 8; at++) bytes[at] = (unsigned char)(number >> (8 * at));
    buffer_put(out, bytes, 8);
}

/* Write a number in decimal, two digits at a time. */
static inline void buffer_decimal(Buffer *out, uint64_t number) {
    static const char pairs[] = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
                                "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    char digits[20];
    int at = 20;
    for (; number >= 100; number /= 100) memcpy(digits + (at -= 2), pairs + 2 * (number % 100), 2);
    if (number >= 10) memcpy(digits + (at -= 2), pairs + 2 * number, 2);
    else digits[--at] = (char)('0' + number);
    buffer_put(out, digits + at, 20 - at);
}

/* packing.c: write the intervals that a span's `Deferred` stands for. 1: done; 0: Python's form is to work
 * out what it stands for; -1: an exception is set. */
int core_pack_deferred(PyObject *deferred, Buffer *out);
/* Write starts and ends by stage as the value of `latencytrace.intervals`. Likewise 1, 0 or -1. */
int core_pack(PyObject *stages, PyObject *span_start_ns, Buffer *out);
/* The same with the times of chunks among those of the list `sends`; and those of tokens, see packing.c. */
int core_pack_sends(PyObject *stages, PyObject *span_start_ns, PyObject *sends, const int64_t *pairs, Py_ssize_t of_pairs, Buffer *out);
int core_pack_tokens(PyObject *recorder, int64_t span_start_ns, const int64_t *pairs, Py_ssize_t of_pairs, Buffer *out, int64_t *first_ns);
extern PyObject *core_intervals_key;

/* encoder.c: write an attribute of a span. 1: done; 0: its key is no text that UTF-8 has. */
int core_put_packed(Buffer *out, PyObject *key, const Buffer *text);
int core_put_integer(Buffer *out, PyObject *key, int64_t number);
int core_put_double(Buffer *out, PyObject *key, double number);

/* streams.c: write the attributes that a `StreamedAttributes` stands for. Likewise 1, 0 or -1. */
int core_put_streamed(PyObject *streamed, Buffer *out);

static inline void buffer_free(Buffer *out) { PyMem_Free(out->bytes); }

#endif
