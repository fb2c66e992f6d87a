/* Timed calls of hooks, and stages that a program names: how each begins and ends in the usual case. */
#include "recorder.h"

enum { C_DESCRIBE_RESULT, C_ON_FAULT, C_PASSES, C_STAGE, CALL_SLOTS };
static const char *const call_names[] = {"_describe_result", "_on_fault", "_passes", "_stage", NULL};
static Py_ssize_t of_call[CALL_SLOTS];

static PyObject *call_type, *stage_key, *stream_key, *suppressed_key, *suppress_key;

/* What a `Patch` says of its calls, in the order that `begin_call` takes it. */
typedef struct {
    PyObject *recorder, *name, *of_stage, *outer, *stage, *describe, *arguments_of, *describe_result, *interleaved;
} Patch;

static int has_either(PyObject *here, PyObject *one, PyObject *other) {
    int found = PyDict_Contains(here, one);
    return found ? found : PyDict_Contains(here, other);
}

/* Whether a call here would be the inner half of one of the same stages. 1, 0, or -1: Python's form is to tell. */
static int is_inner(PyObject *here, PyObject *outer) {
    PyObject *around = PyDict_GetItemWithError(here, core_span_key);
    if (!around) return PyErr_Occurred() ? -1 : 0;
    if (!Py_IS_TYPE(around, (PyTypeObject *)core_span_type) || !core_is_span(around)) return -1;
    PyObject *raw = core_attributes_of(around), *stage = PyDict_CheckExact(raw) ? PyDict_GetItemWithError(raw, stage_key) : NULL;
    if (!stage || core_has_ended(around)) return PyErr_Occurred() ? -1 : 0;
    return PyUnicode_Check(stage) ? PySequence_Contains(outer, stage) : -1;
}

/* The attributes of a call. NULL: an exception is set, or one is no scalar. */
static PyObject *noted_of(const Patch *patch, PyObject *args, PyObject *kwargs) {
    if (patch->describe == Py_None) return PyDict_Copy(patch->of_stage);
    PyObject *arguments = PyObject_CallFunctionObjArgs(patch->arguments_of, args, kwargs, NULL);
    PyObject *described = arguments ? PyObject_CallOneArg(patch->describe, arguments) : NULL;
    PyObject *noted = described && PyDict_CheckExact(described) ? PyDict_Copy(described) : NULL;
    Py_XDECREF(arguments);
    Py_XDECREF(described);
    if (noted && (PyDict_Update(noted, patch->of_stage) < 0 || !core_are_scalars(noted))) Py_CLEAR(noted);
    return noted;
}

static PyObject *new_call(const Patch *patch, PyObject *span) {
    PyObject *call = core_new(call_type);
    if (!call) return NULL;
    SLOT(call, of_call[C_STAGE]) = Py_NewRef(patch->stage);
    SLOT(call, of_call[C_ON_FAULT]) = Py_NewRef(SLOT(patch->recorder, of_recorder[ON_FAULT]));
    SLOT(call, of_call[C_DESCRIBE_RESULT]) = Py_NewRef(patch->describe_result);
    SLOT(call, of_call[C_PASSES]) = Py_NewRef(Py_None);
    if (timing_fill(call, patch->recorder, span) < 0) Py_CLEAR(call);
    return call;
}

/* Begin a call. None: it is not to be timed. NULL, perhaps with an exception: Python's form is to tell. */
static PyObject *begun(const Patch *patch, PyObject *args, PyObject *kwargs) {
    if (!call_type || !recorder_is_usual(patch->recorder)) return NULL;
    PyObject *here = core_current(), *call = NULL;
    if (here && PyDict_Check(here) && !has_either(here, suppressed_key, suppress_key) && 
        !(patch->interleaved == Py_True && PyDict_Contains(here, stream_key))) {
        int inner = is_inner(here, patch->outer);
        if (inner > 0) {
            call = Py_NewRef(Py_None);
        } else if (!inner) {
            PyObject *noted = noted_of(patch, args, kwargs), *tracer = SLOT(patch->recorder, of_recorder[TRACER_OF_RECORDER]);
            PyObject *span = noted ? core_start_span(tracer, patch->name, here, 0, noted, 0) : NULL;
            Py_XDECREF(noted);
            if (span) call = new_call(patch, span);
            Py_XDECREF(span);
        }
    }
    Py_XDECREF(here);
    return call;
}

/* `begin(args, kwargs)` of `wrapping.beginning` */
static PyObject *begin(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    if (PyVectorcall_NARGS(count) == 2 && !names) {
        PyObject **of = PySequence_Fast_ITEMS(((CoreMethod *)callable)->state);
        Patch patch = {of[0], of[1], of[2], of[3], of[4], of[5], of[6], of[7], of[8]};
        PyObject *call = begun(&patch, args[0], args[1]);
        if (call) return call;
        PyErr_Clear(); /* of a fault of ours, or of what describes: Python's form has what to do about one */
    }
    return core_original(callable, args, count, names);
}

/* `Call.finish(self, result)` */
static PyObject *finish(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *call = PyVectorcall_NARGS(count) ? args[0] : NULL;
    if (PyVectorcall_NARGS(count) != 2 || names || !is_a(call, call_type) || SLOT(call, of_call[C_DESCRIBE_RESULT]) != Py_None ||
        SLOT(call, of_call[C_PASSES]) != Py_None)
        return core_original(callable, args, count, names);
    int done = timing_end(call, core_monotonic_ns());
    if (!done) return core_original(callable, args, count, names);
    if (done < 0 && core_fault(((CoreMethod *)callable)->state, "ending a span") < 0) return NULL;
    Py_RETURN_NONE;
}

/* `Timing.end(self)` */
static PyObject *end(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    int is_usual = PyVectorcall_NARGS(count) == 1 && !names && timing_type && PyObject_TypeCheck(args[0], (PyTypeObject *)timing_type);
    int done = is_usual ? timing_end(args[0], 0) : 0;
    if (!done) return core_original(callable, args, count, names);
    if (done < 0 && core_fault(((CoreMethod *)callable)->state, "ending a span") < 0) return NULL;
    Py_RETURN_NONE;
}

/* `Recorder.start_call(self, timing, name, noted, here, kind)` */
static PyObject *start_call(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    Py_ssize_t given = PyVectorcall_NARGS(count);
    long kind = given == 6 ? core_number_of_kind(args[5]) : 0;
    int is_usual = (given == 5 || given == 6) && kind >= 0 && !names && recorder_is_usual(args[0]) && timing_type &&
                   PyObject_TypeCheck(args[1], (PyTypeObject *)timing_type) && PyDict_CheckExact(args[3]) && PyDict_Check(args[4]) &&
                   core_are_scalars(args[3]);
    PyObject *noted = is_usual ? PyDict_Copy(args[3]) : NULL;
    PyObject *span = noted ? core_start_span(SLOT(args[0], of_recorder[TRACER_OF_RECORDER]), args[2], args[4], kind, noted, 0) : NULL;
    int done = span && timing_fill(args[1], args[0], span) == 0;
    Py_XDECREF(noted);
    Py_XDECREF(span);
    if (done) Py_RETURN_NONE;
    PyErr_Clear();
    return core_original(callable, args, count, names);
}

/* --- setting up */

static PyObject *begin_for(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *original, *patch;
    if (!PyArg_ParseTuple(args, "OO!", &original, &PyTuple_Type, &patch)) return NULL;
    if (PyTuple_GET_SIZE(patch) != 9 || !PyUnicode_CheckExact(PyTuple_GET_ITEM(patch, 1)) || !PyDict_CheckExact(PyTuple_GET_ITEM(patch, 2))) {
        PyErr_SetString(PyExc_TypeError, "a patch has nine parts, among them a name and attributes");
        return NULL;
    }
    return core_method(begin, original, patch);
}

CORE_METHOD(finish, 1)
CORE_METHOD(end, 1)
CORE_METHOD(start_call, 0)
CORE_KEEPS(bind_calls, {&call_type, call_names, of_call}, KEPT_TEXT(stage_key), KEPT_TEXT(stream_key), KEPT_TEXT(suppressed_key), KEPT_TEXT(suppress_key))

static PyMethodDef functions[] = {
    {"bind_calls", bind_calls, METH_VARARGS, "Take the class of timed calls, and keys of attributes and contexts."},
    {"begin_call", begin_for, METH_VARARGS, "Return what stands in the place of what `beginning` returns, for a patch."},
    {"finish_call", finish_for, METH_VARARGS, "Likewise, of `Call.finish`; and what takes faults."},
    {"end_timing", end_for, METH_VARARGS, "Likewise, of `Timing.end`; and what takes faults."},
    {"start_call", start_call_for, METH_VARARGS, "Likewise, of `Recorder.start_call`."},
    {NULL, NULL, 0, NULL}};

int calls_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
