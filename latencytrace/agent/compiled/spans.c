/* Spans of ours: `RecordingTracer.start_span` and `start_as_current_span`, a span as a block, its end,
 * and the queue that takes it. What is odd (a parent of another tracer's, limits that are met, values
 * to be copied, processors of the program's) is left to the forms in Python. */
#include "core.h"

PyObject *core_span_type;

static PyObject *queue_type, *tracer_type, *internal_kind, *random_bits, *new_id, *trace_id_key;
static PyObject *forks; /* behind this process; see `tracer.py` */
static uint64_t anchor_ns; /* monotonic + anchor = Unix time */
static PyObject *bits_of_span, *bits_of_trace, *zero, *on_start_name, *value_name, *append_name, *on_end_name;

enum {
    ATTACHED, DETAILS, ENDED_NS, FORKS, KIND_NUMBER, MARK_ERROR, NAME, PARENT_CONTEXT, PARENT_ID, RAW_ATTRIBUTES,
    RECORD_ERROR, SPAN_CONTEXT, SPAN_ID, STARTED_NS, TOKEN, TRACE_ID, TRACER, SPAN_SLOTS
};
static const char *const span_names[] = {
    "attached", "details", "ended_ns", "forks", "kind_number", "mark_error", "name", "parent_context", "parent_id",
    "raw_attributes", "record_error", "span_context", "span_id", "started_ns", "token", "trace_id", "tracer", NULL};
static Py_ssize_t of_span[SPAN_SLOTS];

enum { AT_ENTRY = -1 }; /* in place of when a span begins */

enum { DELEGATE, LIMITS, ON_END, PROCESSORS, ROOTS, TRACER_SLOTS };
static const char *const tracer_names[] = {"delegate", "limits", "on_end", "processors", "roots", NULL};
static Py_ssize_t of_tracer[TRACER_SLOTS];

enum { TRACE_STATE, RANDOM_ID, DETAILS_SLOTS };
static const char *const details_names[] = {"trace_state", "random_id", NULL};
static Py_ssize_t of_details[DETAILS_SLOTS];

enum { SPANS, FREE, QUEUE_SLOTS };
static const char *const queue_names[] = {"_spans", "_free", NULL};
static Py_ssize_t of_queue[QUEUE_SLOTS];

/* Whether a tracer records every span that begins a trace: no sampler decides on them, or it lets all of them through. */
int core_records_roots(PyObject *tracer) {
    PyObject *roots = SLOT(tracer, of_tracer[ROOTS]);
    return roots == Py_None || (roots && PyMethod_Check(roots) && core_detail_records_all(PyMethod_GET_SELF(roots)));
}

static int is_zero(PyObject *number) { return number == zero; } /* small integers are one object each */

/* --- starting */

static PyObject *drawn(PyObject *bits) { /* ids: never zero, which means "no id" */
    PyObject *id = PyObject_CallOneArg(random_bits, bits);
    if (id && is_zero(id)) {
        Py_DECREF(id);
        id = PyObject_CallOneArg(new_id, bits);
    }
    return id;
}

int core_are_scalars(PyObject *attributes) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(attributes, &at, &key, &value)) {
        PyTypeObject *type = Py_TYPE(value);
        if (type != &PyUnicode_Type && type != &PyLong_Type && type != &PyFloat_Type && type != &PyBool_Type &&
            type != &PyBytes_Type)
            return 0;
    }
    return 1;
}

/* 1: a span of this tracer goes to the exporter alone, and so many attributes are within its limits.
 * 0: it is not so. -1: an exception is set. */
static int is_usual(PyObject *tracer, PyObject *attributes) {
    if (!tracer || !tracer_type) return 0;
    if (!Py_IS_TYPE(tracer, (PyTypeObject *)tracer_type) || SLOT(tracer, of_tracer[DELEGATE]) != Py_None) return 0;
    PyObject *limits = SLOT(tracer, of_tracer[LIMITS]), *processors = SLOT(tracer, of_tracer[PROCESSORS]);
    if (!limits || !processors || !PyTuple_Check(limits) || !PyLong_Check(PyTuple_GET_ITEM(limits, 0))) return 0;
    if (attributes) {
        int overflow;
        long most = PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(limits, 0), &overflow);
        if (!overflow && PyDict_GET_SIZE(attributes) > most) return 0;
    }
    PyObject *on_start = PyObject_GetAttr(processors, on_start_name);
    if (!on_start) return -1;
    Py_DECREF(on_start);
    return on_start == Py_None;
}

int core_is_tracer(PyObject *tracer) {
    int found = is_usual(tracer, NULL);
    if (found < 0) PyErr_Clear();
    return found > 0;
}

int core_has_room(PyObject *span, Py_ssize_t more) {
    PyObject *raw = SLOT(span, of_span[RAW_ATTRIBUTES]), *tracer = SLOT(span, of_span[TRACER]);
    PyObject *limits = tracer && Py_IS_TYPE(tracer, (PyTypeObject *)tracer_type) ? SLOT(tracer, of_tracer[LIMITS]) : NULL;
    if (!limits || !PyTuple_Check(limits) || !PyLong_Check(PyTuple_GET_ITEM(limits, 0))) return 0;
    int overflow;
    long most = PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(limits, 0), &overflow);
    return overflow > 0 || (PyDict_Check(raw) ? PyDict_GET_SIZE(raw) : 0) + more <= most;
}

/* Whether a child of a span of ours needs no details of its own: 1, 0, or -1 with an exception. */
static int inherits_nothing(PyObject *details) {
    if (details == Py_None) return 1;
    PyObject *state = SLOT(details, of_details[TRACE_STATE]), *random = SLOT(details, of_details[RANDOM_ID]);
    if (random != Py_True || !state) return 0;
    int has_state = state == Py_None ? 0 : PyObject_IsTrue(state);
    return has_state < 0 ? -1 : !has_state;
}

/* Find the ids of a span that begins below a context. 1: found; 0: not the usual case; -1: an exception. */
static int family_of(PyObject *here, PyObject **trace_id, PyObject **parent_id) {
    PyObject *parent = PyDict_GetItemWithError(here, core_span_key);
    if (!parent) {
        if (PyErr_Occurred()) return -1;
        PyObject *given = PyDict_GetItemWithError(here, trace_id_key);
        if (!given && PyErr_Occurred()) return -1;
        *trace_id = given && PyLong_CheckExact(given) && !is_zero(given) ? Py_NewRef(given) : drawn(bits_of_trace);
        *parent_id = Py_NewRef(zero);
        return *trace_id ? 1 : -1;
    }
    if (!Py_IS_TYPE(parent, (PyTypeObject *)core_span_type)) return 0;
    PyObject *trace = SLOT(parent, of_span[TRACE_ID]), *id = SLOT(parent, of_span[SPAN_ID]),
             *details = SLOT(parent, of_span[DETAILS]);
    if (!trace || !id || !details) return 0;
    *trace_id = Py_NewRef(trace); /* held, for what follows may run any code */
    *parent_id = Py_NewRef(id);
    return inherits_nothing(details);
}

/* A span with these ids, which are taken over. */
static PyObject *made(PyObject *tracer, PyObject *name, long kind, PyObject *attributes, PyObject *trace_id,
                      PyObject *parent_id) {
    PyObject *id = drawn(bits_of_span), *span = id ? core_new(core_span_type) : NULL;
    if (!span) {
        Py_XDECREF(id);
        Py_DECREF(trace_id);
        Py_DECREF(parent_id);
        return NULL;
    }
    SLOT(span, of_span[TRACE_ID]) = trace_id;
    SLOT(span, of_span[PARENT_ID]) = parent_id;
    SLOT(span, of_span[SPAN_ID]) = id;
    SLOT(span, of_span[NAME]) = Py_NewRef(name);
    SLOT(span, of_span[TRACER]) = Py_NewRef(tracer);
    SLOT(span, of_span[ENDED_NS]) = Py_NewRef(zero);
    SLOT(span, of_span[FORKS]) = Py_NewRef(forks);
    SLOT(span, of_span[KIND_NUMBER]) = PyLong_FromLong(kind); /* a small one, which is there */
    SLOT(span, of_span[RAW_ATTRIBUTES]) = Py_NewRef(attributes ? attributes : Py_None);
    SLOT(span, of_span[DETAILS]) = Py_NewRef(Py_None);
    SLOT(span, of_span[SPAN_CONTEXT]) = Py_NewRef(Py_None);
    SLOT(span, of_span[PARENT_CONTEXT]) = Py_NewRef(Py_None);
    SLOT(span, of_span[TOKEN]) = Py_NewRef(Py_None);
    SLOT(span, of_span[ATTACHED]) = Py_NewRef(Py_True);
    SLOT(span, of_span[RECORD_ERROR]) = Py_NewRef(Py_False);
    SLOT(span, of_span[MARK_ERROR]) = Py_NewRef(Py_False);
    return span;
}

/* Set when a span begins; 0: now. A block begins only when it is entered, and is at zero until then. */
static int begins_now(PyObject *span, int64_t started_ns) {
    if (started_ns == AT_ENTRY) {
        core_set_new(span, of_span[STARTED_NS], zero);
        return 0;
    }
    PyObject *at = PyLong_FromLongLong(started_ns ? started_ns : core_monotonic_ns());
    if (!at) return -1;
    core_set(span, of_span[STARTED_NS], at);
    return 0;
}

long core_number_of_kind(PyObject *kind) {
    if (!kind || kind == internal_kind) return 0;
    PyObject *number = PyObject_GetAttr(kind, value_name);
    long found = number && PyLong_CheckExact(number) ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    if (found >= 0 && found <= 4) return found;
    PyErr_Clear();
    return -1;
}

PyObject *core_start_span(PyObject *tracer, PyObject *name, PyObject *here, long kind, PyObject *attributes,
                          int64_t started_ns) {
    PyObject *trace_id = NULL, *parent_id = NULL;
    int usual = core_span_type ? is_usual(tracer, attributes) : 0;
    if (usual > 0) usual = family_of(here, &trace_id, &parent_id);
    if (usual > 0 && is_zero(parent_id) && !core_records_roots(tracer)) usual = 0; /* a function decides on it */
    if (usual <= 0) {
        Py_XDECREF(trace_id);
        Py_XDECREF(parent_id);
        return NULL;
    }
    PyObject *span = made(tracer, name, kind, attributes, trace_id, parent_id);
    if (span && begins_now(span, started_ns) < 0) Py_CLEAR(span);
    return span;
}

PyObject *core_span_of(PyObject *tracer, PyObject *name, long kind, PyObject *attributes, PyObject *trace_id,
                       PyObject *parent_id, PyObject *details, int64_t started_ns) {
    int usual = is_usual(tracer, attributes);
    if (usual <= 0) return NULL;
    trace_id = trace_id ? Py_NewRef(trace_id) : drawn(bits_of_trace);
    if (!trace_id) return NULL;
    PyObject *span = made(tracer, name, kind, attributes, trace_id, Py_NewRef(parent_id ? parent_id : zero));
    if (span && details) core_set_new(span, of_span[DETAILS], details);
    if (span && begins_now(span, started_ns) < 0) Py_CLEAR(span);
    return span;
}

/* --- ending */

static int handed_over(PyObject *span) {
    PyObject *tracer = SLOT(span, of_span[TRACER]);
    PyObject *on_end = tracer && Py_IS_TYPE(tracer, (PyTypeObject *)tracer_type) ? SLOT(tracer, of_tracer[ON_END]) : NULL;
    on_end = on_end ? Py_NewRef(on_end) : tracer ? PyObject_GetAttr(tracer, on_end_name) : NULL; /* of one that asks a sampler */
    if (!on_end) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_AttributeError, "a span ends that has no tracer");
        return -1;
    }
    PyObject *done = PyObject_CallOneArg(on_end, span);
    Py_DECREF(on_end);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

int core_end_span(PyObject *span, int64_t ended_ns) {
    if (!is_zero(SLOT(span, of_span[ENDED_NS]))) return 0;
    PyObject *at = PyLong_FromLongLong(ended_ns ? ended_ns : core_monotonic_ns());
    if (!at) return -1;
    core_set(span, of_span[ENDED_NS], at);
    if (is_zero(SLOT(span, of_span[STARTED_NS]))) core_set_new(span, of_span[STARTED_NS], at); /* a block that was never entered */
    core_set_new(span, of_span[PARENT_CONTEXT], Py_None);
    /* From now on it holds values, and what made it: none of them leads back to it. So the collector need not look
     * at it while it waits; 40 000 that do would cost each full collection some ten milliseconds. */
    PyObject_GC_UnTrack(span);
    return handed_over(span);
}

/* --- what is read of a span */

static const int needed_of_span[] = {DETAILS, ENDED_NS, KIND_NUMBER, NAME, PARENT_ID, RAW_ATTRIBUTES, SPAN_ID, STARTED_NS, TRACE_ID, TRACER};

int core_is_span(PyObject *span) {
    if (!core_span_type || !PyObject_TypeCheck(span, (PyTypeObject *)core_span_type)) return 0;
    for (size_t at = 0; at < sizeof needed_of_span / sizeof *needed_of_span; at++)
        if (!SLOT(span, of_span[needed_of_span[at]])) return 0;
    return 1;
}

PyObject *core_details_of(PyObject *span) { return SLOT(span, of_span[DETAILS]); }

PyObject *core_name_of(PyObject *span) { return SLOT(span, of_span[NAME]); }

PyObject *core_parent_id_of(PyObject *span) { return SLOT(span, of_span[PARENT_ID]); }

PyObject *core_span_id_of(PyObject *span) { return SLOT(span, of_span[SPAN_ID]); }

PyObject *core_tracer_of(PyObject *span) { return SLOT(span, of_span[TRACER]); }

PyObject *core_started_of(PyObject *span) { return SLOT(span, of_span[STARTED_NS]); }

long core_kind_of(PyObject *span) { return PyLong_AsLong(SLOT(span, of_span[KIND_NUMBER])); }

int core_times_of(PyObject *span, uint64_t *started_ns, uint64_t *ended_ns) {
    *started_ns = PyLong_AsUnsignedLongLongMask(SLOT(span, of_span[STARTED_NS])) + anchor_ns;
    *ended_ns = PyLong_AsUnsignedLongLongMask(SLOT(span, of_span[ENDED_NS])) + anchor_ns;
    return PyErr_Occurred() ? -1 : 0;
}

/* Set attributes of a span that goes on, all of them scalars, as `set_attributes` does. 1: done; 0: it is not
 * the usual case; -1: an exception is set. */
int core_note(PyObject *span, PyObject *attributes) {
    PyObject *raw = SLOT(span, of_span[RAW_ATTRIBUTES]), *tracer = SLOT(span, of_span[TRACER]);
    if (!raw || !tracer || !Py_IS_TYPE(tracer, (PyTypeObject *)tracer_type)) return 0;
    if (raw == Py_None) {
        PyObject *made = PyDict_New();
        if (!made) return -1;
        core_set(span, of_span[RAW_ATTRIBUTES], made);
        raw = made;
    }
    PyObject *key, *value;
    if (!PyDict_CheckExact(raw) || !core_has_room(span, PyDict_GET_SIZE(attributes))) return 0;
    Py_ssize_t at = 0;
    while (PyDict_Next(attributes, &at, &key, &value)) {
        int known = PyDict_Contains(raw, key); /* what is set again is the newest, as in the SDK */
        if (known < 0 || (known && PyDict_DelItem(raw, key) < 0) || PyDict_SetItem(raw, key, value) < 0) return -1;
    }
    return 1;
}

PyObject *core_limit_of_length(PyObject *limits) { return PySequence_GetItem(limits, 5); }

int core_has_ended(PyObject *span) { return !is_zero(SLOT(span, of_span[ENDED_NS])); }

PyObject *core_attributes_of(PyObject *span) { return SLOT(span, of_span[RAW_ATTRIBUTES]); }

void core_rename_span(PyObject *span, PyObject *name) { core_set_new(span, of_span[NAME], name); }

PyObject *core_trace_id_of(PyObject *span) { return SLOT(span, of_span[TRACE_ID]); }

/* `SpanQueue.on_end(self, span)` */
static PyObject *queue_on_end(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    if (PyVectorcall_NARGS(count) == 2 && !names && queue_type && Py_IS_TYPE(args[0], (PyTypeObject *)queue_type)) {
        PyObject *spans = SLOT(args[0], of_queue[SPANS]), *free = SLOT(args[0], of_queue[FREE]);
        Py_ssize_t waiting = spans && free ? PyObject_Size(spans) : -1;
        if (waiting >= 0 && waiting < PyLong_AsSsize_t(free)) {
            if (core_is_span(args[1]) && core_has_ended(args[1])) PyObject_GC_UnTrack(args[1]); /* see `core_end_span` */
            return PyObject_CallMethodOneArg(spans, append_name, args[1]);
        }
        if (PyErr_Occurred()) PyErr_Clear();
    }
    return core_original(callable, args, count, names);
}

/* --- OpenTelemetry's interface */

enum { A_NAME = 1, A_CONTEXT, A_KIND, A_ATTRIBUTES, A_LINKS, A_START_TIME, A_RECORD, A_MARK, A_END_ON_EXIT, ARGUMENTS };
static const char *const argument_names[ARGUMENTS] = {
    "self", "name", "context", "kind", "attributes", "links", "start_time", "record_exception",
    "set_status_on_exception", "end_on_exit"};
static PyObject *arguments[ARGUMENTS];

/* Put a call's arguments in their places. 1: done; 0: it is to be left to Python, which may refuse it. */
static int placed(PyObject *const *args, size_t count, PyObject *names, PyObject **found, int most) {
    Py_ssize_t by_place = PyVectorcall_NARGS(count);
    if (by_place < 2 || by_place > most) return 0;
    for (Py_ssize_t at = 0; at < by_place; at++) found[at] = args[at];
    for (Py_ssize_t named = 0; names && named < PyTuple_GET_SIZE(names); named++) {
        PyObject *name = PyTuple_GET_ITEM(names, named);
        int at = 1;
        while (at < most && arguments[at] != name) at++; /* names in a call are interned */
        if (at == most || found[at]) return 0;
        found[at] = args[by_place + named];
    }
    return 1;
}

/* Start what the arguments ask for. NULL without an exception: Python's form is to do it. */
static PyObject *started(PyObject **of) {
    PyObject *attributes = of[A_ATTRIBUTES] == Py_None ? NULL : of[A_ATTRIBUTES];
    int is_own = of[A_CONTEXT] && of[A_CONTEXT] != Py_None, is_block = !is_own && of[A_END_ON_EXIT];
    if ((of[A_LINKS] && of[A_LINKS] != Py_None) || (of[A_START_TIME] && of[A_START_TIME] != Py_None)) return NULL;
    if (attributes && (!PyDict_CheckExact(attributes) || !core_are_scalars(attributes))) return NULL;
    if (is_own && !PyDict_Check(of[A_CONTEXT])) return NULL;
    if (attributes && !PyDict_GET_SIZE(attributes)) attributes = NULL;
    long kind = core_number_of_kind(of[A_KIND]);
    if (kind < 0) return NULL;
    PyObject *here = is_own ? Py_NewRef(of[A_CONTEXT]) : core_current();
    PyObject *copied = here && attributes ? PyDict_Copy(attributes) : NULL;
    PyObject *span = here && (copied || !attributes) ? core_start_span(of[0], of[A_NAME], here, kind, copied, is_block ? AT_ENTRY : 0) : NULL;
    if (span) {
        core_set_new(span, of_span[RECORD_ERROR], of[A_RECORD] ? of[A_RECORD] : Py_True);
        core_set_new(span, of_span[MARK_ERROR], of[A_MARK] ? of[A_MARK] : Py_True);
        if (is_block) { /* it is to be current in a block */
            core_set_new(span, of_span[PARENT_CONTEXT], here);
            core_set_new(span, of_span[ATTACHED], of[A_END_ON_EXIT]);
        }
    }
    Py_XDECREF(here);
    Py_XDECREF(copied);
    return span;
}

static PyObject *left_to_python(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    PyErr_Clear(); /* of a fault of ours: Python's form has what to do about one */
    return core_original(callable, args, count, names);
}

/* `RecordingTracer.start_span` */
static PyObject *start_span(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *of[ARGUMENTS] = {NULL};
    PyObject *span = placed(args, count, names, of, A_END_ON_EXIT) ? started(of) : NULL;
    return span ? span : left_to_python(callable, args, count, names);
}

/* `RecordingTracer.start_as_current_span` */
static PyObject *start_as_current_span(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *of[ARGUMENTS] = {NULL};
    int usual = placed(args, count, names, of, ARGUMENTS) && (!of[A_CONTEXT] || of[A_CONTEXT] == Py_None);
    if (usual && !of[A_END_ON_EXIT]) of[A_END_ON_EXIT] = Py_True;
    PyObject *span = usual ? started(of) : NULL;
    return span ? span : left_to_python(callable, args, count, names);
}

/* `RecordedSpan.__enter__` */
static PyObject *span_enter(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    if (PyVectorcall_NARGS(count) != 1 || names || !core_is_span(args[0])) return core_original(callable, args, count, names);
    PyObject *span = args[0], *around = SLOT(span, of_span[PARENT_CONTEXT]);
    if (!around || !PyDict_Check(around)) return core_original(callable, args, count, names);
    if (is_zero(SLOT(span, of_span[STARTED_NS]))) { /* it begins only now */
        PyObject *here = core_current();
        Py_XDECREF(here);
        if (!here) return left_to_python(callable, args, count, names);
        if (here != around) return core_original(callable, args, count, names); /* it is entered elsewhere */
        if (begins_now(span, 0) < 0) return left_to_python(callable, args, count, names);
    }
    PyObject *there = core_context_with(around, span), *token = there ? core_enter(there) : NULL;
    Py_XDECREF(there);
    if (!token) return left_to_python(callable, args, count, names);
    core_set(span, of_span[TOKEN], token);
    return Py_NewRef(span);
}

/* `RecordedSpan.__exit__` */
static PyObject *span_exit(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    if (PyVectorcall_NARGS(count) != 4 || names || args[2] != Py_None || !core_is_span(args[0])) return core_original(callable, args, count, names);
    PyObject *span = args[0], *token = SLOT(span, of_span[TOKEN]);
    if (!token) return core_original(callable, args, count, names);
    if (token != Py_None) {
        Py_INCREF(token);
        core_set_new(span, of_span[TOKEN], Py_None);
        int left = core_leave(token);
        Py_DECREF(token);
        if (left < 0) PyErr_Clear(); /* a variable that cannot be reset: nothing is there to be restored */
    }
    if (SLOT(span, of_span[ATTACHED]) != Py_False && core_end_span(span, 0) < 0 &&
        core_fault(((CoreMethod *)callable)->state, "leaving a span") < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* --- setting up */

static PyObject *bind_spans(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *span, *tracer, *details, *kind, *bits, *id, *key;
    unsigned long long anchor;
    if (!PyArg_ParseTuple(args, "OOOOOOOK", &span, &tracer, &details, &kind, &bits, &id, &key, &anchor)) return NULL;
    anchor_ns = anchor;
    if (core_offsets(span, span_names, of_span) < 0 || core_offsets(tracer, tracer_names, of_tracer) < 0 ||
        core_offsets(details, details_names, of_details) < 0)
        return NULL;
    Py_XSETREF(core_span_type, Py_NewRef(span));
    Py_XSETREF(tracer_type, Py_NewRef(tracer));
    Py_XSETREF(internal_kind, Py_NewRef(kind));
    Py_XSETREF(random_bits, Py_NewRef(bits));
    Py_XSETREF(new_id, Py_NewRef(id));
    Py_XSETREF(trace_id_key, Py_NewRef(key));
    Py_RETURN_NONE;
}

static PyObject *note_forks(PyObject *Py_UNUSED(module), PyObject *number) {
    Py_XSETREF(forks, Py_NewRef(number));
    Py_RETURN_NONE;
}

CORE_METHOD(start_span, 0)
CORE_METHOD(start_as_current_span, 0)
CORE_METHOD(span_enter, 0)
CORE_METHOD(span_exit, 1)
CORE_METHOD(queue_on_end, 0)
CORE_KEEPS(bind_queue, {&queue_type, queue_names, of_queue})

static PyMethodDef functions[] = {
    {"bind_spans", bind_spans, METH_VARARGS, "Take the classes of spans, of tracers and of details, and how ids are drawn."},
    {"note_forks", note_forks, METH_O, "Take the number of forks behind this process."},
    {"start_span", start_span_for, METH_VARARGS, "Return what stands in the place of `RecordingTracer.start_span`."},
    {"start_as_current_span", start_as_current_span_for, METH_VARARGS, "Likewise, of `start_as_current_span`."},
    {"span_enter", span_enter_for, METH_VARARGS, "Likewise, of `RecordedSpan.__enter__`."},
    {"span_exit", span_exit_for, METH_VARARGS, "Likewise, of `RecordedSpan.__exit__`; and what takes faults."},
    {"queue_on_end", queue_on_end_for, METH_VARARGS, "Likewise, of `SpanQueue.on_end`."},
    {"bind_queue", bind_queue, METH_VARARGS, "Take the class of the queue."},
    {NULL, NULL, 0, NULL}};

int spans_ready(PyObject *module) {
    for (int at = 1; at < ARGUMENTS; at++)
        if (!(arguments[at] = PyUnicode_InternFromString(argument_names[at]))) return -1;
    if (!(bits_of_span = PyLong_FromLong(64)) || !(bits_of_trace = PyLong_FromLong(128)) || !(zero = PyLong_FromLong(0)) ||
        !(forks = PyLong_FromLong(0)) || !(on_start_name = PyUnicode_InternFromString("on_start")) ||
        !(value_name = PyUnicode_InternFromString("_value_")) || !(append_name = PyUnicode_InternFromString("append")) ||
        !(on_end_name = PyUnicode_InternFromString("on_end")))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
