/* `OtlpEncoder.parts`: ended spans as fields of their `ScopeSpans`. Values of odd types, spans with
 * events or links and those beyond limits are left to the forms in Python, one by one. */
#include "buffer.h"

static PyObject *limits_name, *pair_name, *name_name;
static PyObject *deferred_type, *unlimited, *empty_text;

typedef struct {
    PyObject *tracer; /* borrowed of its span, which the caller holds */
    PyObject *limits;
    Py_ssize_t most; /* attributes that need no look at the limits */
    Buffer out;
} Scope;

/* Write an integer of whatever size as so many bytes, the highest first. */
static int put_id(Buffer *out, PyObject *number, Py_ssize_t length) {
    char *at = buffer_grow(out, length);
    if (!at) return 0;
    if (!PyLong_Check(number)) {
        PyErr_SetString(PyExc_TypeError, "an id is no integer");
        return -1;
    }
#if PY_VERSION_HEX >= 0x030d0000
    return _PyLong_AsByteArray((PyLongObject *)number, (unsigned char *)at, (size_t)length, 0, 0, 1);
#else
    return _PyLong_AsByteArray((PyLongObject *)number, (unsigned char *)at, (size_t)length, 0, 0);
#endif
}

/* Write a text as a field of protobuf's. 1: done; 0: it is none that UTF-8 has; -1: an exception. */
static int put_text(Buffer *out, char tag, PyObject *text) {
    Py_ssize_t length;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &length);
    if (!utf8) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return -1;
        PyErr_Clear();
        return 0;
    }
    buffer_byte(out, tag);
    buffer_varint(out, (uint64_t)length);
    buffer_put(out, utf8, length);
    return 1;
}

/* Write an `AnyValue`'s only field. 1: done; 0: it is of no usual type; -1: an exception. */
static int put_value(Buffer *out, PyObject *value) {
    if (PyUnicode_CheckExact(value)) return put_text(out, 0x0a, value);
    if (PyBool_Check(value)) {
        buffer_put(out, value == Py_True ? "\x10\x01" : "\x10\x00", 2);
        return 1;
    }
    if (PyLong_CheckExact(value)) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow) return 0;
        buffer_byte(out, 0x18);
        buffer_varint(out, (uint64_t)number);
        return 1;
    }
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        buffer_byte(out, 0x21);
        buffer_fixed64(out, bits);
        return 1;
    }
    return 0;
}

/* Write `key` and the value in `scratch` as an attribute of a span. Likewise 1, 0 or -1. */
static int put_pair(Buffer *out, PyObject *key, const Buffer *scratch) {
    Py_ssize_t length;
    const char *utf8 = PyUnicode_CheckExact(key) ? PyUnicode_AsUTF8AndSize(key, &length) : NULL;
    if (!utf8) {
        PyErr_Clear();
        return 0;
    }
    Py_ssize_t inner = 1 + varint_length((uint64_t)length) + length + 1 + varint_length((uint64_t)scratch->length) + scratch->length;
    buffer_byte(out, 0x4a);
    buffer_varint(out, (uint64_t)inner);
    buffer_byte(out, 0x0a);
    buffer_varint(out, (uint64_t)length);
    buffer_put(out, utf8, length);
    buffer_byte(out, 0x12);
    buffer_varint(out, (uint64_t)scratch->length);
    buffer_put(out, scratch->bytes, scratch->length);
    return 1;
}

int core_put_packed(Buffer *out, PyObject *key, const Buffer *text) {
    Buffer scratch = {0};
    buffer_byte(&scratch, 0x0a);
    buffer_varint(&scratch, (uint64_t)text->length);
    buffer_put(&scratch, text->bytes, text->length);
    int done = put_pair(out, key, &scratch);
    out->failed |= scratch.failed;
    buffer_free(&scratch);
    return done;
}

static int put_small(Buffer *out, PyObject *key, const char *bytes, Py_ssize_t length) {
    Buffer scratch = {(char *)bytes, length, length, 0};
    return put_pair(out, key, &scratch);
}

int core_put_integer(Buffer *out, PyObject *key, int64_t number) {
    char bytes[11] = {0x18};
    Py_ssize_t length = 1;
    uint64_t left = (uint64_t)number;
    do {
        bytes[length++] = (char)((left & 0x7F) | (left > 0x7F ? 0x80 : 0));
    } while (left >>= 7);
    return put_small(out, key, bytes, length);
}

int core_put_double(Buffer *out, PyObject *key, double number) {
    char bytes[9] = {0x21};
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    for (int at = 0; at < 8; at++) bytes[at + 1] = (char)(bits >> (8 * at));
    return put_small(out, key, bytes, sizeof bytes);
}

static int put_attribute(PyObject *encoder, Buffer *out, Buffer *scratch, PyObject *key, PyObject *value) {
    scratch->length = 0;
    int done = 0;
    if (Py_IS_TYPE(value, (PyTypeObject *)deferred_type)) {
        PyObject *by = core_worked_out_by(value);
        int streamed = by ? core_put_streamed(by, out) : 0;
        if (streamed) return streamed < 0 ? -1 : 0;
        Buffer text = {0};
        done = core_pack_deferred(value, &text);
        if (done > 0 && text.length) {
            buffer_byte(scratch, 0x0a);
            buffer_varint(scratch, (uint64_t)text.length);
            buffer_put(scratch, text.bytes, text.length);
            key = core_intervals_key;
        } else if (done > 0) {
            buffer_free(&text);
            return 0; /* nothing was noted */
        }
        scratch->failed |= text.failed;
        buffer_free(&text);
    } else {
        done = put_value(scratch, value);
    }
    if (done > 0) done = put_pair(out, key, scratch);
    if (done) return done < 0 ? -1 : 0;
    PyObject *pair = PyObject_CallMethodObjArgs(encoder, pair_name, key, value, NULL);
    if (!pair) return -1;
    if (!PyBytes_Check(pair)) PyErr_SetString(PyExc_TypeError, "an encoded attribute is no bytes");
    else buffer_put(out, PyBytes_AS_STRING(pair), PyBytes_GET_SIZE(pair));
    Py_DECREF(pair);
    return PyErr_Occurred() ? -1 : 0;
}

/* Tell whether writing attributes may run code of Python's, which may change them meanwhile. */
static int may_run_code(PyObject *attributes) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(attributes, &at, &key, &value)) {
        PyTypeObject *type = Py_TYPE(value);
        if (type != &PyUnicode_Type && type != &PyLong_Type && type != &PyFloat_Type && type != &PyBool_Type) return 1;
        if (!PyUnicode_CheckExact(key)) return 1;
    }
    return 0;
}

static int put_attributes(PyObject *encoder, Buffer *out, Buffer *scratch, PyObject *attributes) {
    PyObject *key, *value, *held = may_run_code(attributes) ? PyDict_Copy(attributes) : Py_NewRef(attributes);
    Py_ssize_t at = 0;
    int failed = !held;
    while (!failed && PyDict_Next(held, &at, &key, &value)) failed = put_attribute(encoder, out, scratch, key, value) < 0;
    Py_XDECREF(held);
    return failed ? -1 : 0;
}

/* Find the scope of a tracer, or begin it. NULL: an exception is set. */
static Scope *scope_of(Scope **scopes, Py_ssize_t *count, PyObject *tracer) {
    for (Py_ssize_t at = *count - 1; at >= 0; at--)
        if ((*scopes)[at].tracer == tracer) return *scopes + at;
    Scope *more = PyMem_Realloc(*scopes, (size_t)(*count + 1) * sizeof **scopes);
    if (!more) {
        PyErr_NoMemory();
        return NULL;
    }
    *scopes = more;
    PyObject *limits = PyObject_GetAttr(tracer, limits_name);
    PyObject *length = limits && PyTuple_Check(limits) && PyTuple_GET_SIZE(limits) > 1 ? core_limit_of_length(limits) : NULL;
    if (!length) {
        Py_XDECREF(limits);
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a tracer's limits are none");
        return NULL;
    }
    int is_unlimited = PyObject_RichCompareBool(length, unlimited, Py_EQ);
    Py_ssize_t most = is_unlimited > 0 ? PyLong_AsSsize_t(PyTuple_GET_ITEM(limits, 0)) : 0;
    if (most < 0 && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        most = PY_SSIZE_T_MAX;
    }
    Py_DECREF(length);
    Py_DECREF(limits);
    if (is_unlimited < 0 || most < 0) return NULL;
    Scope *scope = *scopes + (*count)++;
    memset(scope, 0, sizeof *scope);
    scope->tracer = tracer;
    scope->most = most;
    return scope;
}

static int put_span(PyObject *encoder, PyObject *limited, Buffer *body, Buffer *scratch, PyObject *span, Py_ssize_t most) {
    PyObject *attributes = core_attributes_of(span), *kept = NULL, *rest = NULL;
    int is_odd = core_details_of(span) != Py_None;
    if (!is_odd && PyDict_Check(attributes) && PyDict_GET_SIZE(attributes)) {
        is_odd = PyDict_GET_SIZE(attributes) > most || PyDict_Contains(attributes, empty_text);
        if (PyErr_Occurred()) return -1;
    }
    if (is_odd) {
        PyObject *both = PyObject_CallOneArg(limited, span);
        if (!both || !PyArg_ParseTuple(both, "OS", &kept, &rest)) {
            Py_XDECREF(both);
            return -1;
        }
        kept = PyDict_CheckExact(kept) ? Py_NewRef(kept) : PyObject_CallOneArg((PyObject *)&PyDict_Type, kept);
        Py_INCREF(rest);
        Py_DECREF(both);
        if (!kept) {
            Py_DECREF(rest);
            return -1;
        }
    } else if (attributes != Py_None) {
        kept = Py_NewRef(attributes);
    }
    uint64_t started_ns, ended_ns;
    PyObject *parent_id = core_parent_id_of(span);
    int failed = core_times_of(span, &started_ns, &ended_ns) < 0;
    if (!failed) {
        buffer_put(body, "\x0a\x10", 2);
        failed = put_id(body, core_trace_id_of(span), 16) < 0;
        buffer_put(body, "\x12\x08", 2);
        failed = failed || put_id(body, core_span_id_of(span), 8) < 0;
        int has_parent = PyObject_IsTrue(parent_id);
        if (has_parent > 0) {
            buffer_put(body, "\x22\x08", 2);
            failed = failed || put_id(body, parent_id, 8) < 0;
        }
        failed = failed || has_parent < 0;
    }
    if (!failed) {
        PyObject *name = core_name_of(span);
        int put = PyUnicode_CheckExact(name) ? put_text(body, 0x2a, name) : 0;
        if (!put) { /* `_name` writes it, with the kind */
            PyObject *encoded = PyObject_CallMethodObjArgs(encoder, name_name, span, NULL);
            if (encoded && PyBytes_Check(encoded)) buffer_put(body, PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded));
            failed = !encoded;
            Py_XDECREF(encoded);
        } else if (put > 0) {
            buffer_byte(body, 0x30);
            buffer_varint(body, (uint64_t)(core_kind_of(span) + 1));
        } else {
            failed = 1;
        }
        buffer_byte(body, 0x39);
        buffer_fixed64(body, started_ns);
        buffer_byte(body, 0x41);
        buffer_fixed64(body, ended_ns);
    }
    if (!failed && kept) failed = put_attributes(encoder, body, scratch, kept) < 0;
    if (rest) buffer_put(body, PyBytes_AS_STRING(rest), PyBytes_GET_SIZE(rest));
    else buffer_put(body, "\x85\x01\x00\x01\x00\x00", 6); /* whether the parent is remote is known: no */
    Py_XDECREF(kept);
    Py_XDECREF(rest);
    return failed ? -1 : 0;
}

/* `OtlpEncoder.parts(self, spans)` */
static PyObject *parts(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    if (PyVectorcall_NARGS(count) != 2 || names) return core_original(callable, args, count, names);
    PyObject *spans = PySequence_Tuple(args[1]); /* held, whatever becomes of the list */
    if (!spans) return NULL;
    PyObject *limited = ((CoreMethod *)callable)->state, *found = NULL;
    Scope *scopes = NULL;
    Py_ssize_t of_scopes = 0;
    Buffer body = {0}, scratch = {0};
    int failed = 0;
    for (Py_ssize_t at = 0; !failed && at < PyTuple_GET_SIZE(spans); at++) {
        PyObject *span = PyTuple_GET_ITEM(spans, at), *tracer = core_is_span(span) ? core_tracer_of(span) : NULL;
        if (!tracer) {
            PyErr_SetString(PyExc_TypeError, "what is to be encoded is no span of ours that has begun");
            failed = 1;
            break;
        }
        Scope *scope = scope_of(&scopes, &of_scopes, tracer);
        body.length = 0;
        failed = !scope || put_span(args[0], limited, &body, &scratch, span, scope->most) < 0;
        if (failed) break;
        buffer_byte(&scope->out, 0x12);
        buffer_varint(&scope->out, (uint64_t)body.length);
        buffer_put(&scope->out, body.bytes, body.length);
        failed = body.failed || scratch.failed || scope->out.failed;
        if (failed) PyErr_NoMemory();
    }
    if (!failed) found = PyList_New(of_scopes);
    for (Py_ssize_t at = 0; at < of_scopes; at++) {
        Scope *scope = scopes + at;
        if (found) {
            PyObject *part = Py_BuildValue("(Oy#)", scope->tracer, scope->out.bytes, scope->out.length);
            if (part) PyList_SET_ITEM(found, at, part);
            else Py_CLEAR(found);
        }
        buffer_free(&scope->out);
    }
    PyMem_Free(scopes);
    buffer_free(&body);
    buffer_free(&scratch);
    Py_DECREF(spans);
    return found;
}

static PyObject *parts_for(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *original, *limited, *deferred, *length;
    if (!PyArg_ParseTuple(args, "OOOO", &original, &limited, &deferred, &length)) return NULL;
    Py_XSETREF(deferred_type, Py_NewRef(deferred));
    Py_XSETREF(unlimited, Py_NewRef(length));
    return core_method(parts, original, limited);
}

static PyMethodDef functions[] = {
    {"encoded_parts", parts_for, METH_VARARGS, "Return what stands in the place of `OtlpEncoder.parts`."}, {NULL, NULL, 0, NULL}};

int encoder_ready(PyObject *module) {
    if (!(limits_name = PyUnicode_InternFromString("limits")) || !(pair_name = PyUnicode_InternFromString("_pair")) ||
        !(name_name = PyUnicode_InternFromString("_name")) || !(empty_text = PyUnicode_InternFromString("")))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
