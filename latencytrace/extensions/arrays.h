/* Arrays of Python's, as C sees them while one function works on them without the interpreter. What is in
 * them is believed: they are made by the function's own caller, which says how long each has to be. */
#ifndef LATENCYTRACE_ARRAYS_H
#define LATENCYTRACE_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ARRAYS 32

typedef struct {
    union {
        int64_t *q;
        uint8_t *b;
        void *any;
    };
    int64_t count; /* of items */
} Array;

typedef struct {
    Py_buffer views[MOST_ARRAYS];
    int count;
} Held;

static inline void arrays_drop(Held *held) {
    while (held->count)
        PyBuffer_Release(&held->views[--held->count]);
}

static inline int arrays_take_one(Held *held, PyObject *from, int is_written, Py_ssize_t item, Array *to) {
    if (held->count == MOST_ARRAYS) {
        PyErr_SetString(PyExc_SystemError, "too many arrays");
        return 0;
    }
    Py_buffer *view = &held->views[held->count];
    if (PyObject_GetBuffer(from, view, is_written ? PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE : PyBUF_C_CONTIGUOUS))
        return 0;
    held->count++;
    if (view->itemsize != item) {
        PyErr_Format(PyExc_TypeError, "an array of items of %zd bytes, not of %zd", item, view->itemsize);
        return 0;
    }
    to->any = view->buf;
    to->count = view->len / item;
    return 1;
}

/* Take a function's arguments, each to where a further argument points: `q` an array of int64, `b` of single
 * bytes, `r` of records, after whose place their size stands; in capitals, where it is written to; `n` an
 * int64. 1, or 0 with an exception and nothing held. */
static inline int arrays_take(Held *held, PyObject *const *args, Py_ssize_t given, const char *kinds, ...) {
    va_list places;
    int taken = 1;
    held->count = 0;
    if (given != (Py_ssize_t)strlen(kinds)) {
        PyErr_Format(PyExc_TypeError, "%zu arguments are taken, not %zd", strlen(kinds), given);
        return 0;
    }
    va_start(places, kinds);
    for (Py_ssize_t number = 0; taken && number < given; number++) {
        char kind = kinds[number];
        if (kind == 'n') {
            int64_t *to = va_arg(places, int64_t *);
            *to = PyLong_AsLongLong(args[number]);
            taken = !(*to == -1 && PyErr_Occurred());
            continue;
        }
        Array *to = va_arg(places, Array *);
        int is_written = kind < 'a';
        Py_ssize_t item = kind == 'q' || kind == 'Q' ? 8 : kind == 'b' || kind == 'B' ? 1 : va_arg(places, Py_ssize_t);
        taken = arrays_take_one(held, args[number], is_written, item, to);
    }
    va_end(places);
    if (!taken)
        arrays_drop(held);
    return taken;
}

#endif
