/* Waits for the locks of `threading` and for `queue.SimpleQueue`, whose types are in C and refuse `setattr`. What is noted of
 * a wait stays in Python. */
#include "core.h"

enum { TAKE, RELEASE, NOTE, AT_LEAST, REQUEST_KEY, EMPTY = RELEASE };

enum { SETS = 512, WAYS = 4 };
/* By whom locks were taken: the last ones of those whose places in memory have the same hash, the newest first. Objects are
 * compared here, and never used. */
typedef struct {
    const PyObject *lock, *variables;
    unsigned long thread;
} Taken;
static Taken takings[SETS][WAYS];

static inline Taken *set_of(const PyObject *lock) { return takings[((uint32_t)((uintptr_t)lock >> 4) * 0x9E3779B1u) >> 23]; }

static inline PyObject *taken_here(PyObject *lock) {
    PyThreadState *here = PyThreadState_Get();
    Taken *set = set_of(lock);
    size_t at = 0;
    while (at < WAYS - 1 && set[at].lock != lock) at++;
    for (; at; at--) set[at] = set[at - 1];
    *set = (Taken){lock, here->context, here->thread_id};
    return Py_True;
}

/* By whom a lock was taken last; with a thread of 0: that is not known. */
static Taken last_taking(const PyObject *lock) {
    const Taken *set = set_of(lock);
    for (size_t at = 0; at < WAYS; at++)
        if (set[at].lock == lock) return set[at];
    return (Taken){0};
}

/* The request that is served with such variables; NULL without an exception: there is none. */
static PyObject *request_in(PyObject *variables, PyObject *key) {
    PyObject *otel = variables && core_variable ? PyObject_GetItem(variables, core_variable) : NULL;
    PyObject *request = otel && PyDict_Check(otel) ? Py_XNewRef(PyDict_GetItemWithError(otel, key)) : NULL;
    Py_XDECREF(otel);
    PyErr_Clear();
    return request;
}

/* The request that has a lock for which another one waits; None: none has, or it is not known. Its thread must run with the
 * variables with which it took the lock: an event loop's may run another task by now. */
static APART PyObject *holder_of(PyObject *lock, PyObject *key) {
    if (key == Py_None) return Py_NewRef(Py_None);
    PyObject *own = request_in(PyThreadState_Get()->context, key), *holder = NULL;
    Taken last = last_taking(lock);
    if (own && last.thread) {
        PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
        while (thread && thread->thread_id != last.thread) thread = PyThreadState_Next(thread);
        if (thread && thread->context == last.variables) holder = request_in(thread->context, key);
        if (holder == own) Py_CLEAR(holder);
    }
    Py_XDECREF(own);
    return holder ? holder : Py_NewRef(Py_None);
}

/* Note a wait that is over, long or not. -1: a signal's handler raised meanwhile. */
static int note(PyObject *state, int64_t started_ns, PyObject *holder) {
    int64_t ended_ns = core_monotonic_ns();
    if (ended_ns - started_ns < PyLong_AsLongLong(PyTuple_GET_ITEM(state, AT_LEAST))) return 0;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *done = PyObject_CallFunction(PyTuple_GET_ITEM(state, NOTE), "LLO", (long long)started_ns, (long long)ended_ns, holder);
    Py_XDECREF(done);
    if (type && done) PyErr_Restore(type, value, trace);
    else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    }
    return done ? 0 : -1;
}

static int is_plain(size_t count, PyObject *names) { return PyVectorcall_NARGS(count) == 1 && !names; }

/* Take something if it is there at once. */
static PyObject *taken_at_once(PyObject *state, PyObject *from) {
    PyObject *args[] = {from, Py_False};
    return PyObject_Vectorcall(PyTuple_GET_ITEM(state, TAKE), args, 2, NULL);
}

/* `acquire(self, …)` or `__enter__(self)`. A lock that is free is taken at once, as the original does. */
static PyObject *acquire(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *state = ((CoreMethod *)callable)->state, *taken, *holder = NULL;
    unsigned long had_it = 0;
    if (USUALLY(is_plain(count, names))) {
        taken = taken_at_once(state, args[0]);
        if (USUALLY(taken == Py_True)) return taken_here(args[0]);
        if (!taken) return NULL;
        Py_DECREF(taken);
        had_it = last_taking(args[0]).thread;
        holder = holder_of(args[0], PyTuple_GET_ITEM(state, REQUEST_KEY));
    }
    int64_t started_ns = core_monotonic_ns();
    taken = core_original(callable, args, count, names);
    /* Another one that waited may have had it since, or already then: it notes itself as it goes on. */
    if (holder && last_taking(args[0]).thread != had_it) Py_CLEAR(holder);
    if (taken == Py_True) taken_here(args[0]);
    if (taken && note(state, started_ns, holder ? holder : Py_None) < 0) { /* as if the signal had interrupted the wait */
        if (taken == Py_True) {
            PyObject *type, *value, *trace;
            PyErr_Fetch(&type, &value, &trace);
            PyObject *released = PyObject_CallOneArg(PyTuple_GET_ITEM(state, RELEASE), args[0]);
            if (!released) PyErr_Clear();
            Py_XDECREF(released);
            PyErr_Restore(type, value, trace);
        }
        Py_CLEAR(taken);
    }
    Py_XDECREF(holder);
    return taken;
}

/* `SimpleQueue.get(self, …)`. A signal's handler that raises as a wait is noted loses what was taken, as one would that raises
 * just after. */
static PyObject *get(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *state = ((CoreMethod *)callable)->state, *taken;
    if (USUALLY(is_plain(count, names))) {
        taken = taken_at_once(state, args[0]);
        if (USUALLY(taken != NULL) || !PyErr_ExceptionMatches(PyTuple_GET_ITEM(state, EMPTY))) return taken;
        PyErr_Clear();
    }
    int64_t started_ns = core_monotonic_ns();
    taken = core_original(callable, args, count, names);
    if (note(state, started_ns, Py_None) < 0) Py_CLEAR(taken);
    return taken;
}

static PyObject *acquire_for(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *original, *take, *release, *noting, *key;
    long long at_least_ns;
    if (!PyArg_ParseTuple(args, "OOOOLO", &original, &take, &release, &noting, &at_least_ns, &key)) return NULL;
    PyObject *state = Py_BuildValue("OOOLO", take, release, noting, at_least_ns, key);
    PyObject *made = state ? core_method(acquire, original, state) : NULL;
    Py_XDECREF(state);
    return made;
}

static PyObject *get_for(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *original, *empty, *noting;
    long long at_least_ns;
    if (!PyArg_ParseTuple(args, "OOOL", &original, &empty, &noting, &at_least_ns)) return NULL;
    PyObject *state = Py_BuildValue("OOOL", original, empty, noting, at_least_ns);
    PyObject *made = state ? core_method(get, original, state) : NULL;
    Py_XDECREF(state);
    return made;
}

static PyObject *set_in_type(PyObject *Py_UNUSED(module), PyObject *args) {
    PyTypeObject *type;
    PyObject *name, *value;
    if (!PyArg_ParseTuple(args, "O!UO", &PyType_Type, &type, &name, &value)) return NULL;
    /* Of those that all interpreters share, and of those that have none of the name, nothing is changed. */
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || !type->tp_dict || !PyDict_GetItemWithError(type->tp_dict, name))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "%U of %R cannot be replaced", name, type);
    if (PyDict_SetItem(type->tp_dict, name, value) < 0) return NULL;
    PyType_Modified(type);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"acquire", acquire_for, METH_VARARGS,
     "Return what stands in the place of a lock's method that waits for it: given that, the type's `acquire` and `release`, "
     "`note(started_ns, ended_ns, holder)`, how long a wait must be to be noted, and the key of a context's request; None: who has it is not asked."},
    {"simple_get", get_for, METH_VARARGS, "Likewise, of `SimpleQueue.get`; given what says that it is empty, no `release` and no key."},
    {"set_in_type", set_in_type, METH_VARARGS, "Put a value in the place of what a type in C has by a name."},
    {NULL, NULL, 0, NULL}};

int locks_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
