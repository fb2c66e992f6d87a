/* What an event loop runs once a server runs on one, or while a request is under way, timed: uvloop's `call_soon` and asyncio's
 * `Handle._run`. What a held loop is noted of stays in Python (`OpenRequests`). */
#include "core.h"

enum { RAN_NS, GAPS_SLOTS };
static const char *const gaps_names[] = {"ran_ns", NULL};
static Py_ssize_t of_gaps[GAPS_SLOTS];
enum { OPEN, RESUMED_BY, SERVES, OPEN_SLOTS };
static const char *const open_names[] = {"open", "resumed_by_ns", "serves", NULL};
static Py_ssize_t of_open[OPEN_SLOTS];
static PyObject *open_type, *gaps_type, *gaps_key, *self_context_name;
static int64_t noticed_ns, waited_ns, messenger_ns, callbacks; /* that were timed so far */

/* What this thread's loop runs now: when it began, and since when what it wakes waits (0: since it is woken). */
static _Thread_local struct {
    int64_t started_ns, ready_ns;
} step;

enum { SETS = 512, WAYS = 4 };
/* When handles of asyncio were scheduled: the last ones of those whose places in memory have the same hash. Objects are compared
 * here, and never used. */
typedef struct {
    const PyObject *handle, *callback;
    int64_t ready_ns;
} Scheduled;
static Scheduled scheduled[SETS][WAYS];
static PyTypeObject *handle_type; /* of asyncio's */
static Py_ssize_t of_callback;

/* Runs one callback; a call of it is what the loop is given. `requests` are those under way. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *requests, *note_wait, *note_hold, *note_turn; /* `note_…(context, times)` keep their faults in */
} Run;

static PyTypeObject RunType;

static int64_t time_in(PyObject *at) {
    int overflow;
    return at && PyLong_CheckExact(at) ? PyLong_AsLongLongAndOverflow(at, &overflow) : 0;
}

static int64_t resumed_by(PyObject *requests) { return time_in(SLOT(requests, of_open[RESUMED_BY])); }

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

/* The gaps of the request whose variables these are, or the current ones (NULL); NULL without an exception: there is none. */
static PyObject *gaps_in(PyObject *variables) {
    PyObject *otel = NULL, *gaps = NULL;
    if (!core_variable) return NULL;
    if (variables)
        otel = PyObject_GetItem(variables, core_variable);
    else if (PyContextVar_Get(core_variable, NULL, &otel) < 0)
        otel = NULL;
    if (otel && PyDict_Check(otel)) gaps = PyDict_GetItemWithError(otel, gaps_key);
    gaps = gaps && Py_IS_TYPE(gaps, (PyTypeObject *)gaps_type) ? Py_NewRef(gaps) : NULL;
    Py_XDECREF(otel);
    PyErr_Clear();
    return gaps;
}

/* Since when what is scheduled now waits: what only hands on a result has waited for the loop on behalf of what it wakes. */
static int64_t ready_ns(void) {
    int64_t now_ns = core_monotonic_ns();
    return step.ready_ns && now_ns - step.started_ns < messenger_ns ? step.ready_ns : now_ns;
}

/* What was scheduled at a time runs from now on. -1: an exception that is none of ours. */
static int begin_step(Run *run, PyObject *variables, int64_t since_ns, int64_t started_ns) {
    step.started_ns = started_ns;
    step.ready_ns = 0;
    if (!since_ns || started_ns - since_ns < waited_ns) return 0;
    PyObject *gaps = gaps_in(variables);
    if (!gaps) {
        step.ready_ns = since_ns;
        return 0;
    }
    int64_t ran_ns = time_in(SLOT(gaps, of_gaps[RAN_NS]));
    Py_DECREF(gaps);
    if (ran_ns > since_ns) since_ns = ran_ns;
    return started_ns - since_ns < waited_ns ? 0 : note(run->note_turn, variables, since_ns, started_ns, Py_None);
}

/* It has run. No exception may be set. */
static void end_step(PyObject *variables, int64_t started_ns, int64_t ended_ns) {
    step.ready_ns = 0;
    PyObject *gaps = ended_ns - started_ns < messenger_ns ? NULL : gaps_in(variables);
    PyObject *at = gaps ? PyLong_FromLongLong(ended_ns) : NULL;
    if (at) core_set(gaps, of_gaps[RAN_NS], at);
    Py_XDECREF(gaps);
    PyErr_Clear();
}

static PyObject *run_call(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    Run *self = (Run *)callable;
    Py_ssize_t by_place = PyVectorcall_NARGS(count);
    if (by_place < 2 || names) {
        PyErr_SetString(PyExc_TypeError, "when it was scheduled and a callback are wanted, and its arguments by place");
        return NULL;
    }
    callbacks++;
    int64_t started_ns = core_monotonic_ns();
    if (started_ns < resumed_by(self->requests) && note(self->note_wait, NULL, started_ns, started_ns, args[1]) < 0) return NULL;
    if (begin_step(self, NULL, time_in(args[0]), started_ns) < 0) return NULL;
    PyObject *result = PyObject_Vectorcall(args[1], args + 2, (size_t)(by_place - 2), NULL);
    int64_t ended_ns = core_monotonic_ns();
    step.ready_ns = 0;
    if (ended_ns - started_ns >= messenger_ns) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        end_step(NULL, started_ns, ended_ns);
        int noted = ended_ns - started_ns < noticed_ns ? 0 : note(self->note_hold, NULL, started_ns, ended_ns, args[1]);
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
    Py_VISIT(self->note_turn);
    return 0;
}

static int run_clear(Run *self) {
    Py_CLEAR(self->requests);
    Py_CLEAR(self->note_wait);
    Py_CLEAR(self->note_hold);
    Py_CLEAR(self->note_turn);
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
    PyObject *requests, *wait, *hold, *turn;
    if (!PyArg_ParseTuple(args, "OOOO", &requests, &wait, &hold, &turn)) return NULL;
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
    self->note_turn = Py_NewRef(turn);
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

/* `call_soon(self, callback, *args, context=None)`; the state is what runs it, timed. */
static PyObject *call_soon(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    CoreMethod *self = (CoreMethod *)callable;
    Py_ssize_t by_place = PyVectorcall_NARGS(count), named = names ? PyTuple_GET_SIZE(names) : 0;
    if (by_place < 2 || !are_timed(((Run *)self->state)->requests) || !PyCallable_Check(args[1]))
        return core_original(callable, args, count, names);
    PyObject *few[8], **given = by_place + named + 2 <= 8 ? few : PyMem_Malloc((size_t)(by_place + named + 2) * sizeof *given);
    PyObject *since = given ? PyLong_FromLongLong(ready_ns()) : PyErr_NoMemory(), *handle = NULL;
    if (since) {
        given[0] = args[0];
        given[1] = self->state;
        given[2] = since;
        memcpy(given + 3, args + 1, (size_t)(by_place + named - 1) * sizeof *given);
        handle = PyObject_Vectorcall(self->original, given, (size_t)(by_place + 2), names);
        Py_DECREF(since);
    }
    if (given != few) PyMem_Free(given);
    return handle;
}

static inline Scheduled *set_of(const PyObject *handle) { return scheduled[((uint32_t)((uintptr_t)handle >> 4) * 0x9E3779B1u) >> 23]; }

/* Where what is known of a handle goes: where it has been, else in the place of the one that was scheduled first. */
static Scheduled *place_for(const PyObject *handle) {
    Scheduled *set = set_of(handle), *place = set;
    for (Scheduled *one = set; one < set + WAYS; one++) {
        if (one->handle == handle) return one;
        if (one->ready_ns < place->ready_ns) place = one;
    }
    return place;
}

/* `BaseEventLoop._call_soon(self, callback, args, context)`, which makes a handle; the state is a `Run` for its requests. */
static PyObject *handle_scheduled(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    int64_t since_ns = are_timed(((Run *)((CoreMethod *)callable)->state)->requests) ? ready_ns() : 0;
    PyObject *handle = core_original(callable, args, count, names);
    if (!since_ns || !handle) return handle;
    if (Py_IS_TYPE(handle, handle_type)) {
        *place_for(handle) = (Scheduled){handle, SLOT(handle, of_callback), since_ns};
    }
    return handle;
}

/* When a handle was scheduled; 0: that is not known. */
static int64_t scheduled_ns(PyObject *handle) {
    if (!handle_type || !Py_IS_TYPE(handle, handle_type)) return 0;
    Scheduled *place = place_for(handle);
    if (place->handle != handle || place->callback != SLOT(handle, of_callback)) return 0;
    int64_t ready_ns = place->ready_ns;
    *place = (Scheduled){0};
    return ready_ns;
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
    int64_t since_ns = scheduled_ns(args[0]);
    if (since_ns && started_ns - since_ns >= waited_ns) {
        PyObject *variables = PyObject_GetAttr(args[0], self_context_name);
        int begun = variables ? begin_step(of, variables, since_ns, started_ns) : -1;
        if (!variables) PyErr_Clear();
        Py_XDECREF(variables);
        if (begun < 0 && PyErr_Occurred()) return NULL;
    } else
        begin_step(of, NULL, 0, started_ns);
    PyObject *result = core_original(callable, args, count, names);
    int64_t ended_ns = core_monotonic_ns();
    step.ready_ns = 0;
    if (ended_ns - started_ns >= messenger_ns && result) {
        PyObject *variables = PyObject_GetAttr(args[0], self_context_name);
        if (!variables) PyErr_Clear();
        else {
            end_step(variables, started_ns, ended_ns);
            if (ended_ns - started_ns >= noticed_ns && note(of->note_hold, variables, started_ns, ended_ns, args[0]) < 0)
                Py_CLEAR(result);
        }
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

static PyObject *handle_scheduled_for(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *original, *run, *handles;
    if (!PyArg_ParseTuple(args, "OO!O!", &original, &RunType, &run, &PyType_Type, &handles)) return NULL;
    Py_ssize_t offset = core_offset(handles, "_callback");
    if (offset < 0) return NULL;
    of_callback = offset;
    Py_XSETREF(handle_type, (PyTypeObject *)Py_NewRef(handles));
    return core_method(handle_scheduled, original, run);
}

static PyObject *bind_loop(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *requests, *gaps, *key;
    long long noticed, waited, messenger;
    if (!PyArg_ParseTuple(args, "OOOLLL", &requests, &gaps, &key, &noticed, &waited, &messenger) ||
        core_offsets(requests, open_names, of_open) < 0 || core_offsets(gaps, gaps_names, of_gaps) < 0)
        return NULL;
    Py_XSETREF(open_type, Py_NewRef(requests));
    Py_XSETREF(gaps_type, Py_NewRef(gaps));
    Py_XSETREF(gaps_key, Py_NewRef(key));
    noticed_ns = noticed;
    waited_ns = waited;
    messenger_ns = messenger;
    Py_RETURN_NONE;
}

static PyObject *count_callbacks(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) { return PyLong_FromLongLong(callbacks); }

static PyMethodDef functions[] = {
    {"bind_loop", bind_loop, METH_VARARGS, "Take the classes of requests under way and of gaps, the key of these, and how long what is noted must be."},
    {"callbacks", count_callbacks, METH_NOARGS, "Return how many callbacks were timed so far."},
    {"timed_run", run_for, METH_VARARGS, "Return what runs a callback, timed, for requests under way and three that note."},
    {"call_soon", call_soon_for, METH_VARARGS, "Return what stands in the place of `call_soon`, and has callbacks run timed."},
    {"handle_scheduled", handle_scheduled_for, METH_VARARGS, "Likewise, of `BaseEventLoop._call_soon`; of the class of its handles."},
    {"handle_run", handle_run_for, METH_VARARGS, "Likewise, of `Handle._run`."},
    {NULL, NULL, 0, NULL}};

int loop_ready(PyObject *module) {
    if (!(self_context_name = PyUnicode_InternFromString("_context")) || PyType_Ready(&RunType) < 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
