/* A prototype, for `bench_compiled.py` alone: the span, its ids, clock, context, queue and encoder,
 * and the timing of a stream's sends, in C. Only what the benchmark's spans need is there. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

static uint64_t seed;
static int64_t anchor_ns;

static uint64_t next_id(void) { /* splitmix64 */
    uint64_t z = (seed += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return z ? z : next_id();
}

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* --- the span: its own context manager and its own entry in the queue */

typedef struct {
    PyObject_HEAD
    PyObject *variable, *context_type, *key, *queue;
} Tracer;

typedef struct {
    PyObject_HEAD
    Tracer *tracer;
    PyObject *name, *attributes, *token;
    uint64_t trace_high, trace_low, id, parent_id;
    int64_t started_ns, ended_ns;
} Span;

static PyTypeObject SpanType, TracerType, SendsType, SendingType;

static void span_dealloc(Span *self) {
    Py_XDECREF(self->tracer);
    Py_XDECREF(self->name);
    Py_XDECREF(self->attributes);
    Py_XDECREF(self->token);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int all_scalars(PyObject *attributes) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(attributes, &at, &key, &value)) {
        PyTypeObject *type = Py_TYPE(value);
        if (type != &PyUnicode_Type && type != &PyLong_Type && type != &PyFloat_Type &&
            type != &PyBool_Type && type != &PyBytes_Type)
            return 0;
    }
    return 1;
}

static PyObject *tracer_start(Tracer *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    if (count + (names ? PyTuple_GET_SIZE(names) : 0) != 2 || !PyDict_CheckExact(args[1]) || !all_scalars(args[1])) {
        PyErr_SetString(PyExc_TypeError, "a name and a dict of scalars are wanted");
        return NULL;
    }
    PyObject *here;
    if (PyContextVar_Get(self->variable, NULL, &here) < 0) return NULL;
    PyObject *parent = here ? PyDict_GetItemWithError(here, self->key) : NULL;
    Span *span = PyObject_New(Span, &SpanType);
    if (!span) { Py_XDECREF(here); return NULL; }
    span->token = NULL;
    if (parent && Py_TYPE(parent) == &SpanType) {
        span->trace_high = ((Span *)parent)->trace_high;
        span->trace_low = ((Span *)parent)->trace_low;
        span->parent_id = ((Span *)parent)->id;
    } else {
        span->trace_high = next_id();
        span->trace_low = next_id();
        span->parent_id = 0;
    }
    Py_XDECREF(here);
    span->id = next_id();
    span->tracer = (Tracer *)Py_NewRef(self);
    span->name = Py_NewRef(args[0]);
    span->attributes = PyDict_Copy(args[1]);
    span->ended_ns = 0;
    span->started_ns = clock_ns(CLOCK_MONOTONIC);
    return (PyObject *)span;
}

static PyObject *span_enter(Span *self, PyObject *Py_UNUSED(ignored)) {
    Tracer *tracer = self->tracer;
    PyObject *here, *there;
    if (PyContextVar_Get(tracer->variable, NULL, &here) < 0) return NULL;
    there = PyObject_CallNoArgs(tracer->context_type); /* a dict that refuses to be changed */
    if (!there) { Py_XDECREF(here); return NULL; }
    if ((here && PyDict_GET_SIZE(here) && PyDict_Update(there, here) < 0) ||
        PyDict_SetItem(there, tracer->key, (PyObject *)self) < 0) {
        Py_XDECREF(here);
        Py_DECREF(there);
        return NULL;
    }
    self->token = PyContextVar_Set(tracer->variable, there);
    Py_XDECREF(here);
    Py_DECREF(there);
    return self->token ? Py_NewRef((PyObject *)self) : NULL;
}

static PyObject *span_exit(Span *self, PyObject *const *args, Py_ssize_t count) {
    (void)args; (void)count;
    if (self->token) {
        if (PyContextVar_Reset(self->tracer->variable, self->token) < 0) return NULL;
        Py_CLEAR(self->token);
    }
    if (!self->ended_ns) {
        self->ended_ns = clock_ns(CLOCK_MONOTONIC);
        if (PyList_Append(self->tracer->queue, (PyObject *)self) < 0) return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef span_methods[] = {
    {"__enter__", (PyCFunction)span_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))span_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};

/* --- the encoder: protobuf's wire format */

typedef struct { char *bytes; Py_ssize_t length, room; } Buffer;

static char *grow(Buffer *out, Py_ssize_t more) {
    if (out->length + more > out->room) {
        out->room = (out->length + more) * 2;
        out->bytes = PyMem_Realloc(out->bytes, out->room);
    }
    char *at = out->bytes + out->length;
    out->length += more;
    return at;
}

static void put(Buffer *out, const void *bytes, Py_ssize_t length) { memcpy(grow(out, length), bytes, length); }

static void put_varint(Buffer *out, uint64_t number) {
    char bytes[10];
    int length = 0;
    do { bytes[length++] = (char)((number & 0x7F) | (number > 0x7F ? 0x80 : 0)); } while (number >>= 7);
    put(out, bytes, length);
}

static void put_id(Buffer *out, uint64_t id) {
    uint64_t big = __builtin_bswap64(id);
    put(out, &big, 8);
}

static int put_text(Buffer *out, char tag, PyObject *text) {
    Py_ssize_t length;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &length);
    if (!utf8) return -1;
    put(out, &tag, 1);
    put_varint(out, length);
    put(out, utf8, length);
    return 0;
}

static int put_value(Buffer *out, PyObject *value) {
    if (PyUnicode_CheckExact(value)) return put_text(out, 0x0a, value);
    if (PyBool_Check(value)) { put(out, value == Py_True ? "\x10\x01" : "\x10\x00", 2); return 0; }
    if (PyLong_CheckExact(value)) {
        long long number = PyLong_AsLongLong(value);
        if (number == -1 && PyErr_Occurred()) return -1;
        put(out, "\x18", 1);
        put_varint(out, (uint64_t)number);
        return 0;
    }
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        put(out, "\x21", 1);
        put(out, &number, 8);
        return 0;
    }
    PyErr_SetString(PyExc_TypeError, "an attribute is of no type that the prototype knows");
    return -1;
}

static void put_field(Buffer *out, char tag, const Buffer *content) {
    put(out, &tag, 1);
    put_varint(out, content->length);
    put(out, content->bytes, content->length);
}

static int put_span(Buffer *out, Span *span, Buffer *pair, Buffer *scratch) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    int64_t start = span->started_ns + anchor_ns, end = span->ended_ns + anchor_ns;
    put(out, "\x0a\x10", 2);
    put_id(out, span->trace_high);
    put_id(out, span->trace_low);
    put(out, "\x12\x08", 2);
    put_id(out, span->id);
    if (span->parent_id) { put(out, "\x22\x08", 2); put_id(out, span->parent_id); }
    if (put_text(out, 0x2a, span->name) < 0) return -1;
    put(out, "\x30\x01\x39", 3);
    put(out, &start, 8);
    put(out, "\x41", 1);
    put(out, &end, 8);
    while (PyDict_Next(span->attributes, &at, &key, &value)) {
        pair->length = scratch->length = 0;
        if (put_value(scratch, value) < 0 || put_text(pair, 0x0a, key) < 0) return -1;
        put_field(pair, 0x12, scratch);
        put_field(out, 0x4a, pair);
    }
    put(out, "\x85\x01\x00\x01\x00\x00", 6);
    return 0;
}

static PyObject *tracer_encode(Tracer *self, PyObject *Py_UNUSED(ignored)) {
    Buffer out = {0}, body = {0}, pair = {0}, scratch = {0};
    PyObject *queue = self->queue, *encoded = NULL;
    self->queue = PyList_New(0);
    if (!self->queue) { self->queue = queue; return NULL; }
    Py_ssize_t at = 0, count = PyList_GET_SIZE(queue);
    for (; at < count; at++) {
        body.length = 0;
        if (put_span(&body, (Span *)PyList_GET_ITEM(queue, at), &pair, &scratch) < 0) break;
        put_field(&out, 0x12, &body);
    }
    if (at == count) encoded = PyBytes_FromStringAndSize(out.bytes, out.length);
    PyMem_Free(out.bytes); PyMem_Free(body.bytes); PyMem_Free(pair.bytes); PyMem_Free(scratch.bytes);
    Py_DECREF(queue);
    return encoded;
}

static int tracer_init(Tracer *self, PyObject *args, PyObject *Py_UNUSED(kwargs)) {
    if (!PyArg_ParseTuple(args, "OOO", &self->variable, &self->context_type, &self->key)) return -1;
    Py_INCREF(self->variable); Py_INCREF(self->context_type); Py_INCREF(self->key);
    self->queue = PyList_New(0);
    return self->queue ? 0 : -1;
}

static void tracer_dealloc(Tracer *self) {
    Py_XDECREF(self->variable); Py_XDECREF(self->context_type);
    Py_XDECREF(self->key); Py_XDECREF(self->queue);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef tracer_methods[] = {
    {"start_as_current_span", (PyCFunction)(void (*)(void))tracer_start, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"encode", (PyCFunction)tracer_encode, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

/* --- a stream's sends: chunks are held for an `AnswerStream`, as the ASGI hook does */

#define MOST_HELD 256 /* values, four of a chunk */
#define HELD_BYTES 1024

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *send, *other, *answer, *held; /* `other` sends what is no such chunk */
} Sends;

typedef struct {
    PyObject_HEAD
    Sends *sends;
    PyObject *inner, *body, *known;
    int64_t started_ns;
} Sending;

static PyObject *more_key, *body_key, *known_name, *eager_name, *catch_up_name;

static PyObject *sends_call(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    Sends *self = (Sends *)callable;
    PyObject *body = NULL;
    if (PyVectorcall_NARGS(count) == 1 && PyDict_CheckExact(args[0]) &&
        PyDict_GetItemWithError(args[0], more_key) == Py_True)
        body = PyDict_GetItemWithError(args[0], body_key);
    if (!body || !PyBytes_CheckExact(body) || PyBytes_GET_SIZE(body) > HELD_BYTES)
        return PyErr_Occurred() ? NULL : PyObject_Vectorcall(self->other, args, count, names);
    Sending *sending = PyObject_New(Sending, &SendingType);
    if (!sending) return NULL;
    sending->sends = (Sends *)Py_NewRef(self);
    sending->body = Py_NewRef(body);
    sending->known = PyObject_GetAttr(self->answer, known_name);
    sending->started_ns = clock_ns(CLOCK_MONOTONIC);
    sending->inner = PyObject_Vectorcall(self->send, args, count, names);
    if (!sending->known || !sending->inner) { Py_DECREF(sending); return NULL; }
    return (PyObject *)sending;
}

static int hold(Sending *self) {
    PyObject *held = self->sends->held, *answer = self->sends->answer;
    PyObject *started = PyLong_FromLongLong(self->started_ns);
    PyObject *sent = PyLong_FromLongLong(clock_ns(CLOCK_MONOTONIC));
    int failed = !started || !sent || PyList_Append(held, started) < 0 || PyList_Append(held, sent) < 0 ||
                 PyList_Append(held, self->known) < 0 || PyList_Append(held, self->body) < 0;
    Py_XDECREF(started);
    Py_XDECREF(sent);
    if (failed) return -1;
    PyObject *eager = PyObject_GetAttr(answer, eager_name);
    if (!eager) return -1;
    int now = eager == Py_True || PyList_GET_SIZE(held) >= MOST_HELD;
    Py_DECREF(eager);
    if (!now) return 0;
    PyObject *done = PyObject_CallMethodNoArgs(answer, catch_up_name);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PySendResult sending_send(PyObject *awaitable, PyObject *value, PyObject **result) {
    Sending *self = (Sending *)awaitable;
    PySendResult state = PyIter_Send(self->inner, value, result);
    if (state == PYGEN_RETURN && hold(self) < 0) {
        Py_CLEAR(*result);
        return PYGEN_ERROR;
    }
    return state;
}

static PyObject *sending_next(PyObject *self) {
    PyObject *result;
    PySendResult state = sending_send(self, Py_None, &result);
    if (state == PYGEN_NEXT) return result;
    if (state == PYGEN_RETURN) {
        if (result != Py_None) PyErr_SetObject(PyExc_StopIteration, result);
        Py_DECREF(result);
    }
    return NULL;
}

static void sending_dealloc(Sending *self) {
    Py_XDECREF(self->sends); Py_XDECREF(self->inner); Py_XDECREF(self->body); Py_XDECREF(self->known);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int sends_init(Sends *self, PyObject *args, PyObject *Py_UNUSED(kwargs)) {
    if (!PyArg_ParseTuple(args, "OOOO", &self->send, &self->other, &self->answer, &self->held)) return -1;
    Py_INCREF(self->send); Py_INCREF(self->other); Py_INCREF(self->answer); Py_INCREF(self->held);
    self->call = sends_call;
    return 0;
}

static void sends_dealloc(Sends *self) {
    Py_XDECREF(self->send); Py_XDECREF(self->other); Py_XDECREF(self->answer); Py_XDECREF(self->held);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyAsyncMethods sending_async = {.am_await = PyObject_SelfIter, .am_send = sending_send};

static PyTypeObject SpanType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.Span", .tp_basicsize = sizeof(Span),
    .tp_dealloc = (destructor)span_dealloc, .tp_flags = Py_TPFLAGS_DEFAULT, .tp_methods = span_methods};
static PyTypeObject TracerType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.Tracer", .tp_basicsize = sizeof(Tracer),
    .tp_dealloc = (destructor)tracer_dealloc, .tp_flags = Py_TPFLAGS_DEFAULT, .tp_methods = tracer_methods,
    .tp_init = (initproc)tracer_init, .tp_new = PyType_GenericNew};
static PyTypeObject SendsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.Sends", .tp_basicsize = sizeof(Sends),
    .tp_dealloc = (destructor)sends_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Sends, call), .tp_init = (initproc)sends_init,
    .tp_new = PyType_GenericNew};
static PyTypeObject SendingType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.Sending", .tp_basicsize = sizeof(Sending),
    .tp_dealloc = (destructor)sending_dealloc, .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_as_async = &sending_async, .tp_iter = PyObject_SelfIter, .tp_iternext = sending_next};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "core", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_core(void) {
    PyObject *made = PyModule_Create(&module);
    seed = (uint64_t)clock_ns(CLOCK_REALTIME) ^ (uint64_t)(uintptr_t)made;
    anchor_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
    if (!(more_key = PyUnicode_InternFromString("more_body")) || !(body_key = PyUnicode_InternFromString("body")) ||
        !(known_name = PyUnicode_InternFromString("known")) || !(eager_name = PyUnicode_InternFromString("eager")) ||
        !(catch_up_name = PyUnicode_InternFromString("catch_up")))
        return NULL;
    if (!made || PyType_Ready(&SpanType) < 0 || PyType_Ready(&TracerType) < 0 ||
        PyType_Ready(&SendsType) < 0 || PyType_Ready(&SendingType) < 0 ||
        PyModule_AddObjectRef(made, "Tracer", (PyObject *)&TracerType) < 0 ||
        PyModule_AddObjectRef(made, "Sends", (PyObject *)&SendsType) < 0)
        return NULL;
    return made;
}
