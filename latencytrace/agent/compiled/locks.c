/* Waits for the locks of `threading`, whose types are in C and refuse `setattr`. What is noted of a wait stays in Python. */
#include "core.h"

enum { ACQUIRE, RELEASE, NOTE, AT_LEAST };

/* Note a wait that is over. NULL: a signal's handler raised meanwhile, which is as if it had interrupted the wait. */
static APART PyObject *noted(PyObject *state, PyObject *lock, PyObject *taken, int64_t started_ns, int64_t ended_ns) {
    PyObject *done = PyObject_CallFunction(PyTuple_GET_ITEM(state, NOTE), "LL", (long long)started_ns, (long long)ended_ns);
    Py_XDECREF(done);
    if (done) return taken;
    if (taken == Py_True) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyObject *released = PyObject_CallOneArg(PyTuple_GET_ITEM(state, RELEASE), lock);
        if (!released) PyErr_Clear();
        Py_XDECREF(released);
        PyErr_Restore(type, value, trace);
    }
    Py_DECREF(taken);
    return NULL;
}

/* `acquire(self, …)` or `__enter__(self)`. A lock that is free is taken at once, as the original does. */
static PyObject *acquire(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *state = ((CoreMethod *)callable)->state;
    if (USUALLY(PyVectorcall_NARGS(count) == 1 && !names)) {
        PyObject *at_once[] = {args[0], Py_False};
        PyObject *taken = PyObject_Vectorcall(PyTuple_GET_ITEM(state, ACQUIRE), at_once, 2, NULL);
        if (USUALLY(taken != Py_False)) return taken;
        Py_DECREF(taken);
    }
    int64_t started_ns = core_monotonic_ns();
    PyObject *taken = core_original(callable, args, count, names);
    if (!taken) return NULL;
    int64_t ended_ns = core_monotonic_ns();
    int is_long = ended_ns - started_ns >= PyLong_AsLongLong(PyTuple_GET_ITEM(state, AT_LEAST));
    return is_long ? noted(state, args[0], taken, started_ns, ended_ns) : taken;
}

static PyObject *acquire_for(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *original, *take, *release, *note;
    long long at_least_ns;
    if (!PyArg_ParseTuple(args, "OOOOL", &original, &take, &release, &note, &at_least_ns)) return NULL;
    PyObject *state = Py_BuildValue("OOOL", take, release, note, at_least_ns);
    PyObject *made = state ? core_method(acquire, original, state) : NULL;
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
     "`note(started_ns, ended_ns)`, and how long a wait must be to be noted."},
    {"set_in_type", set_in_type, METH_VARARGS, "Put a value in the place of what a type in C has by a name."},
    {NULL, NULL, 0, NULL}};

int locks_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
