/* Spans of hooks under way: `Timing`, and what a recorder says of the moment. */
#include "recorder.h"
#include "buffer.h"

enum { MOST_DEFERRED = 8, TIME_BYTES = 40, FEW_TIMES = 32 };

PyObject *recorder_type, *detail_type, *timing_type, *intervals_type, *starting_type;
static PyObject *deferred_type, *noted_type, *intervals_key, *zero, *name_pending, *name_waiting;

Py_ssize_t of_recorder[RECORDER_SLOTS], of_detail[DETAIL_SLOTS], of_timing[TIMING_SLOTS], of_intervals[INTERVALS_SLOTS];
static const char *const recorder_names[] = {"detail", "devices", "on_fault", "open_requests", "server_timings", "starting", "tracer", NULL};
static const char *const detail_names[] = {"chunks", "gaps", "intervals", "lacks", "requests", "skips_calls", "spares", "threshold", NULL};
static const char *const timing_names[] = {"intervals", "pending", "span", "started_ns", "token", NULL};
static const char *const intervals_names[] = {"_open", "_stages", NULL};

enum { UNDER_WAY, STARTING_SLOTS };
static const char *const starting_names[] = {"under_way", NULL};
static Py_ssize_t of_starting[STARTING_SLOTS];

enum { ATTRIBUTES, FOUND, WEIGHT, DEFERRED_SLOTS };
static const char *const deferred_names[] = {"_attributes", "_found", "weight", NULL};
static Py_ssize_t of_deferred[DEFERRED_SLOTS];

enum { SPAN_START_NS, STAGES, NOTED_SLOTS };
static const char *const noted_names[] = {"span_start_ns", "stages", NULL};
static Py_ssize_t of_noted[NOTED_SLOTS];

int core_ask(PyObject *object, PyObject *name, PyObject *argument) {
    PyObject *done = PyObject_CallMethodObjArgs(object, name, argument, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

int core_detail_records_all(PyObject *detail) { return is_a(detail, detail_type) && SLOT(detail, of_detail[D_THRESHOLD]) == zero; }

int recorder_is_usual(PyObject *recorder) {
    if (!is_a(recorder, recorder_type)) return 0;
    PyObject *detail = SLOT(recorder, of_recorder[DETAIL]), *starting = SLOT(recorder, of_recorder[STARTING]);
    return is_a(detail, detail_type) && is_a(starting, starting_type) && SLOT(recorder, of_recorder[DEVICES]) &&
           SLOT(detail, of_detail[D_SPARES]) == Py_False && SLOT(detail, of_detail[D_SKIPS_CALLS]) == Py_False &&
           SLOT(detail, of_detail[D_LACKS]) == Py_None && SLOT(starting, of_starting[UNDER_WAY]) == zero &&
           core_is_tracer(SLOT(recorder, of_recorder[TRACER_OF_RECORDER]));
}

int timing_fill(PyObject *timing, PyObject *recorder, PyObject *span) {
    PyObject *pending = PyObject_GetAttr(SLOT(recorder, of_recorder[DEVICES]), name_pending);
    if (!pending) return -1;
    core_set(timing, of_timing[T_PENDING], pending);
    core_set_new(timing, of_timing[T_SPAN], span);
    core_set_new(timing, of_timing[T_STARTED_NS], core_started_of(span));
    core_set_new(timing, of_timing[T_INTERVALS], Py_None);
    core_set_new(timing, of_timing[T_TOKEN], Py_None);
    return 0;
}

/* --- its end */

/* A `Deferred` of what works attributes out. NULL: an exception is set. */
static PyObject *deferred_of(PyObject *attributes, Py_ssize_t weighs) {
    PyObject *deferred = core_new(deferred_type), *weight = PyLong_FromSsize_t(weighs), *found = PyDict_New();
    if (deferred && weight && found) {
        SLOT(deferred, of_deferred[ATTRIBUTES]) = Py_NewRef(attributes);
        SLOT(deferred, of_deferred[FOUND]) = Py_NewRef(found);
        SLOT(deferred, of_deferred[WEIGHT]) = Py_NewRef(weight);
    } else {
        Py_CLEAR(deferred);
    }
    Py_XDECREF(weight);
    Py_XDECREF(found);
    return deferred;
}

/* A span's intervals, to be written when it is sent. NULL: an exception is set. */
static PyObject *noted_of(PyObject *stages, PyObject *span_start_ns, Py_ssize_t times) {
    PyObject *noted = core_new(noted_type), *deferred = NULL;
    if (!noted) return NULL;
    SLOT(noted, of_noted[STAGES]) = Py_NewRef(stages);
    SLOT(noted, of_noted[SPAN_START_NS]) = Py_NewRef(span_start_ns);
    deferred = deferred_of(noted, times * TIME_BYTES);
    Py_DECREF(noted);
    return deferred;
}

int core_defer(PyObject *span, PyObject *key, PyObject *attributes, Py_ssize_t weight) {
    PyObject *raw = core_attributes_of(span);
    if (!PyDict_CheckExact(raw) || !deferred_type || !core_has_room(span, MOST_DEFERRED)) return 0;
    PyObject *deferred = deferred_of(attributes, weight);
    int done = deferred && PyDict_SetItem(raw, key, deferred) == 0 ? 1 : -1;
    if (done > 0) { /* as the span itself, once it has ended: see `core_end_span` */
        PyObject_GC_UnTrack(deferred);
        PyObject_GC_UnTrack(raw);
    }
    Py_XDECREF(deferred);
    return done;
}

PyObject *core_taken_stages(PyObject *intervals) {
    PyObject *anew = PyDict_New(), *stages = SLOT(intervals, of_intervals[I_STAGES]);
    if (!anew) return NULL;
    SLOT(intervals, of_intervals[I_STAGES]) = anew;
    return stages;
}

/* Give a span's intervals away. 1: done; 0: Python's form is to; -1: an exception is set. */
static int give_away(PyObject *timing, PyObject *span) {
    PyObject *intervals = SLOT(timing, of_timing[T_INTERVALS]), *stage, *times;
    if (intervals == Py_None) return 1;
    if (!is_a(intervals, intervals_type) || !deferred_type) return 0;
    PyObject *stages = SLOT(intervals, of_intervals[I_STAGES]), *raw = core_attributes_of(span);
    if (!stages || !PyDict_CheckExact(stages) || !PyDict_CheckExact(raw) || !core_has_room(span, MOST_DEFERRED)) return 0;
    Py_ssize_t at = 0, noted = 0;
    while (PyDict_Next(stages, &at, &stage, &times)) {
        if (!PyList_CheckExact(times)) return 0;
        noted += PyList_GET_SIZE(times);
    }
    if (!noted) return 1;
    /* A few are written at once, for what is kept costs more than their text. */
    PyObject *span_start_ns = SLOT(timing, of_timing[T_STARTED_NS]), *kept = NULL;
    if (noted > FEW_TIMES) {
        kept = noted_of(stages, span_start_ns, noted);
    } else {
        Buffer text = {0};
        int packed = core_pack(stages, span_start_ns, &text);
        if (packed > 0 && !text.failed) kept = PyUnicode_FromStringAndSize(text.bytes, text.length);
        buffer_free(&text);
        if (!kept && !PyErr_Occurred()) return 0;
    }
    PyObject *anew = kept ? PyDict_New() : NULL;
    int is_empty = kept && PyUnicode_CheckExact(kept) && !PyUnicode_GET_LENGTH(kept);
    int failed = !anew || (!is_empty && PyDict_SetItem(raw, intervals_key, kept) < 0);
    if (!failed) core_set_new(intervals, of_intervals[I_STAGES], anew);
    Py_XDECREF(anew);
    Py_XDECREF(kept);
    return failed ? -1 : 1;
}

int timing_end(PyObject *timing, int64_t ended_ns) {
    PyObject *span = SLOT(timing, of_timing[T_SPAN]), *pending = SLOT(timing, of_timing[T_PENDING]);
    if (!span || !Py_IS_TYPE(span, (PyTypeObject *)core_span_type) || !core_is_span(span) || !pending ||
        !SLOT(timing, of_timing[T_INTERVALS]) || !SLOT(timing, of_timing[T_STARTED_NS]))
        return 0;
    if (core_has_ended(span)) return 1;
    PyObject *waiting = PyObject_GetAttr(pending, name_waiting);
    int is_idle = waiting && PyDict_CheckExact(waiting) && !PyDict_GET_SIZE(waiting);
    Py_XDECREF(waiting);
    if (PyErr_Occurred()) return -1;
    int given = is_idle ? give_away(timing, span) : 0;
    return given > 0 && core_end_span(span, ended_ns) < 0 ? -1 : given;
}

/* `Timing.activate(self)` */
static PyObject *activate(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *timing = PyVectorcall_NARGS(count) ? args[0] : NULL;
    int is_usual = PyVectorcall_NARGS(count) == 1 && !names && timing_type && PyObject_TypeCheck(timing, (PyTypeObject *)timing_type);
    PyObject *span = is_usual && SLOT(timing, of_timing[T_INTERVALS]) == Py_None ? SLOT(timing, of_timing[T_SPAN]) : NULL;
    PyObject *here = span ? core_current() : NULL, *there = here && PyDict_Check(here) ? core_context_with(here, span) : NULL;
    PyObject *token = there ? core_enter(there) : NULL;
    Py_XDECREF(here);
    Py_XDECREF(there);
    if (!token) {
        PyErr_Clear(); /* of a fault of ours: Python's form has what to do about one */
        return core_original(callable, args, count, names);
    }
    core_set(timing, of_timing[T_TOKEN], token);
    Py_RETURN_NONE;
}

/* `Timing.deactivate(self)` */
static PyObject *deactivate(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *timing = PyVectorcall_NARGS(count) ? args[0] : NULL;
    int is_usual = PyVectorcall_NARGS(count) == 1 && !names && timing_type && PyObject_TypeCheck(timing, (PyTypeObject *)timing_type);
    PyObject *token = is_usual ? SLOT(timing, of_timing[T_TOKEN]) : NULL;
    if (!token) return core_original(callable, args, count, names);
    if (token == Py_None) Py_RETURN_NONE;
    Py_INCREF(token);
    core_set_new(timing, of_timing[T_TOKEN], Py_None);
    int left = core_leave(token);
    Py_DECREF(token);
    if (left < 0 && core_fault(((CoreMethod *)callable)->state, "making the span before it current") < 0) return NULL;
    Py_RETURN_NONE;
}

/* --- setting up */

CORE_METHOD(activate, 0)
CORE_METHOD(deactivate, 1)
CORE_KEEPS(bind_detail, {&detail_type, detail_names, of_detail})
CORE_KEEPS(bind_intervals, {&intervals_type, intervals_names, of_intervals}, {&deferred_type, deferred_names, of_deferred},
           {&noted_type, noted_names, of_noted}, KEPT_TEXT(intervals_key))
CORE_KEEPS(bind_recorder, {&recorder_type, recorder_names, of_recorder}, {&timing_type, timing_names, of_timing},
           {&starting_type, starting_names, of_starting})

static PyMethodDef functions[] = {
    {"bind_detail", bind_detail, METH_VARARGS, "Take the class that decides on the detail of requests."},
    {"bind_intervals", bind_intervals, METH_VARARGS, "Take the classes of intervals and of what they are written by, and their key."},
    {"bind_recorder", bind_recorder, METH_VARARGS, "Take the classes of the recorder, of spans under way and of starting servers."},
    {"activate_timing", activate_for, METH_VARARGS, "Return what stands in the place of `Timing.activate`."},
    {"deactivate_timing", deactivate_for, METH_VARARGS, "Likewise, of `Timing.deactivate`; and what takes faults."},
    {NULL, NULL, 0, NULL}};

int recorder_ready(PyObject *module) {
    if (!(zero = PyLong_FromLong(0)) || !(name_pending = PyUnicode_InternFromString("pending")) ||
        !(name_waiting = PyUnicode_InternFromString("waiting")))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
