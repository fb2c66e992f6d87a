/* What an event loop runs once a server runs on one, or while a request is under way, timed: uvloop's `call_soon` and asyncio's
 * `Handle._run`. What a held loop is noted of stays in Python (`OpenRequests`). */
#include "core.h"

enum { OPEN, RESUMED_BY, SERVES, OPEN_SLOTS };
static const char *const open_names[] = {"open", "resumed_by_ns", "serves", NULL};
static Py_ssize_t of_open[OPEN_SLOTS];
static PyObject *open_type, *self_context_name;
static int64_t noticed_ns, callbacks; /* that were timed so far */

/* Runs one callback; a call of it is what the loop is given. `requests` are those under way. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *requests, *note_wait, *note_hold; /* `note_…(context, times)` keep their faults in */
} Run;

static PyTypeObject RunType;

static int64_t resumed_by(PyObject *requests) {
    PyObject *at = SLOT(requests, of_open[RESUMED_BY]);
    int overflow;
    return at && PyLong_CheckExact(at) ? PyLong_AsLongLongAndOverflow(at, &overflow) : 0;
}

/* Whether callbacks are to be timed now. */
static int are_timed(PyObject *requests) {
    PyObject *open = SLOT(requests, of_open[OPEN]);
    return open && (PySet_Size(open) || SLOT(requests, of_open[SERVES]) == Py_True);
}

/* Call what notes a wait or a hold of a callback; NULL: the variables of here. -1: an exception that is none of ours. */
static int note(PyObject *noting, PyObject *variables, int64_t start_ns, int64_t end_ns, PyObject *callback) {
    PyObject *here = variables ? Py_NewRef(variables) : PyContext_CopyCurrent();
    PyObject *done = here ? PyObject_CallFunction(noting, "OLLO", here, (long long)start_ns, (long long)end_ns, callback) : NULL;
    Py_XDECREF(here);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *run_call(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    Run *self = (Run *)callable;
    Py_ssize_t by_place = PyVectorcall_NARGS(count);
    if (!by_place || names) {
        PyErr_SetString(PyExc_TypeError, "a callback is wanted, and its arguments by place");
        return NULL;
    }
    callbacks++;
    int64_t started_ns = core_monotonic_ns();
    if (started_ns < resumed_by(self->requests) && note(self->note_wait, NULL, started_ns, started_ns, args[0]) < 0) return NULL;
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)(by_place - 1), NULL);
    int64_t ended_ns = core_monotonic_ns();
    if (ended_ns - started_ns >= noticed_ns) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        int noted = note(self->note_hold, NULL, started_ns, ended_ns, args[0]);
        if (noted < 0 && !type) Py_CLEAR(result);
        if (type) PyErr_Restore(type, value, trace);
    }
    Py_XDECREF(result); /* a loop asks for none */
    return result ? Py_NewRef(Py_None) : NULL;
}

static int run_traverse(Run *self, visitproc visit, void *arg) {
    Py_VISIT(self->requests);
    Py_VISIT(self->note_wait);
    Py_VISIT(self->note_hold);
    return 0;
}

static int run_clear(Run *self) {
    Py_CLEAR(self->requests);
    Py_CLEAR(self->note_wait);
    Py_CLEAR(self->note_hold);
    return 0;
}

static void run_dealloc(Run *self) {
    PyObject_GC_UnTrack(self);
    run_clear(self);
    PyObject_GC_Del(self);
}

static PyTypeObject RunType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "latencytrace.agent.compiled._core.Run", .tp_basicsize = sizeof(Run),
    .tp_doc = "Runs a callback of an event loop, timed.", .tp_dealloc = (destructor)run_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Run, call), .tp_traverse = (traverseproc)run_traverse, .tp_clear = (inquiry)run_clear};

static PyObject *run_for(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *requests, *wait, *hold;
    if (!PyArg_ParseTuple(args, "OOO", &requests, &wait, &hold)) return NULL;
    if (!open_type || !Py_IS_TYPE(requests, (PyTypeObject *)open_type)) {
        PyErr_SetString(PyExc_TypeError, "requests under way are wanted");
        return NULL;
    }
    Run *self = PyObject_GC_New(Run, &RunType);
    if (!self) return NULL;
    self->call = run_call;
    self->requests = Py_NewRef(requests);
    self->note_wait = Py_NewRef(wait);
    self->note_hold = Py_NewRef(hold);
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

/* `call_soon(self, callback, *args, context=None)`; the state is what runs it, timed. */
static PyObject *call_soon(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    CoreMethod *self = (CoreMethod *)callable;
    Py_ssize_t by_place = PyVectorcall_NARGS(count), named = names ? PyTuple_GET_SIZE(names) : 0;
    if (by_place < 2 || !are_timed(((Run *)self->state)->requests) || !PyCallable_Check(args[1]))
        return core_original(callable, args, count, names);
    PyObject *few[8], **given = by_place + named + 1 <= 8 ? few : PyMem_Malloc((size_t)(by_place + named + 1) * sizeof *given);
    if (!given) return PyErr_NoMemory();
    given[0] = args[0];
    given[1] = self->state;
    memcpy(given + 2, args + 1, (size_t)(by_place + named - 1) * sizeof *given);
    PyObject *handle = PyObject_Vectorcall(self->original, given, (size_t)(by_place + 1), names);
    if (given != few) PyMem_Free(given);
    return handle;
}

/* `Handle._run(self)`; the state is a `Run` for its requests and what notes. */
static PyObject *handle_run(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    Run *of = (Run *)((CoreMethod *)callable)->state;
    if (PyVectorcall_NARGS(count) != 1 || names || !are_timed(of->requests)) return core_original(callable, args, count, names);
    callbacks++;
    int64_t started_ns = core_monotonic_ns();
    if (started_ns < resumed_by(of->requests)) {
        PyObject *variables = PyObject_GetAttr(args[0], self_context_name);
        int noted = variables ? note(of->note_wait, variables, started_ns, started_ns, args[0]) : -1;
        if (!variables) PyErr_Clear();
        Py_XDECREF(variables);
        if (noted < 0 && PyErr_Occurred()) return NULL;
    }
    PyObject *result = core_original(callable, args, count, names);
    int64_t ended_ns = core_monotonic_ns();
    if (ended_ns - started_ns >= noticed_ns && result) {
        PyObject *variables = PyObject_GetAttr(args[0], self_context_name);
        if (!variables) PyErr_Clear();
        else if (note(of->note_hold, variables, started_ns, ended_ns, args[0]) < 0) Py_CLEAR(result);
        Py_XDECREF(variables);
    }
    return result;
}

static PyObject *method_with_run(PyObject *args, vectorcallfunc call) {
    PyObject *original, *run;
    return PyArg_ParseTuple(args, "OO!", &original, &RunType, &run) ? core_method(call, original, run) : NULL;
}

static PyObject *call_soon_for(PyObject *Py_UNUSED(module), PyObject *args) { return method_with_run(args, call_soon); }

static PyObject *handle_run_for(PyObject *Py_UNUSED(module), PyObject *args) { return method_with_run(args, handle_run); }

static PyObject *bind_loop(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *requests;
    long long noticed;
    if (!PyArg_ParseTuple(args, "OL", &requests, &noticed) || core_offsets(requests, open_names, of_open) < 0) return NULL;
    Py_XSETREF(open_type, Py_NewRef(requests));
    noticed_ns = noticed;
    Py_RETURN_NONE;
}

static PyObject *count_callbacks(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) { return PyLong_FromLongLong(callbacks); }

static PyMethodDef functions[] = {
    {"bind_loop", bind_loop, METH_VARARGS, "Take the class of requests under way, and how long a hold must be to be noted."},
    {"callbacks", count_callbacks, METH_NOARGS, "Return how many callbacks were timed so far."},
    {"timed_run", run_for, METH_VARARGS, "Return what runs a callback, timed, for requests under way and two that note."},
    {"call_soon", call_soon_for, METH_VARARGS, "Return what stands in the place of `call_soon`, and has callbacks run timed."},
    {"handle_run", handle_run_for, METH_VARARGS, "Likewise, of `Handle._run`."},
    {NULL, NULL, 0, NULL}};

int loop_ready(PyObject *module) {
    if (!(self_context_name = PyUnicode_InternFromString("_context")) || PyType_Ready(&RunType) < 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
