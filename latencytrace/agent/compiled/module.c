/* The module `latencytrace.agent.compiled._core`, and what its parts share; see `core.h`. */
#include "core.h"
#include <sched.h>
#include <structmember.h>

PyObject *core_variable, *core_span_key, *core_context_type;
static const int collects_within = PY_VERSION_HEX < 0x030c0000; /* see `agent/context.py` */

Py_ssize_t core_offset(PyObject *type, const char *name) {
    PyObject *found = PyObject_GetAttrString(type, name);
    if (!found) return -1;
    Py_ssize_t offset = -1;
    if (Py_IS_TYPE(found, &PyMemberDescr_Type) && ((PyMemberDescrObject *)found)->d_member->type == T_OBJECT_EX)
        offset = ((PyMemberDescrObject *)found)->d_member->offset;
    else
        PyErr_Format(PyExc_TypeError, "%R has no slot of the name %s", type, name);
    Py_DECREF(found);
    return offset;
}

int core_offsets(PyObject *type, const char *const *names, Py_ssize_t *offsets) {
    for (Py_ssize_t at = 0; names[at]; at++) {
        Py_ssize_t offset = core_offset(type, names[at]);
        if (offset < 0) return -1;
        if (offsets) offsets[at] = offset;
    }
    return 0;
}

const char *const core_no_slots[] = {NULL};

PyObject *core_keep(PyObject *args, Py_ssize_t count, const Kept *kept) {
    if (PyTuple_GET_SIZE(args) != count) return PyErr_Format(PyExc_TypeError, "%zd arguments are taken", count);
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *given = PyTuple_GET_ITEM(args, at);
        if (!kept[at].names && !PyUnicode_Check(given)) return PyErr_Format(PyExc_TypeError, "%R is no text", given);
        if (kept[at].names && core_offsets(given, kept[at].names, NULL) < 0) return NULL;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *given = PyTuple_GET_ITEM(args, at);
        if (kept[at].names && core_offsets(given, kept[at].names, kept[at].offsets) < 0) return NULL;
        if (kept[at].place) Py_XSETREF(*kept[at].place, Py_NewRef(given));
    }
    Py_RETURN_NONE;
}

/* --- OpenTelemetry's current context */

PyObject *core_current(void) {
    PyObject *here;
    if (PyContextVar_Get(core_variable, NULL, &here) < 0) return NULL;
    if (!here) PyErr_SetString(PyExc_LookupError, "no context of OpenTelemetry's is current");
    return here;
}

PyObject *core_enter(PyObject *context) {
    PyObject *held = collects_within ? PyContext_CopyCurrent() : NULL;
    if (collects_within && !held) return NULL;
    PyObject *token = PyContextVar_Set(core_variable, context);
    Py_XDECREF(held);
    return token;
}

int core_leave(PyObject *token) {
    PyObject *held = collects_within ? PyContext_CopyCurrent() : NULL;
    if (collects_within && !held) return -1;
    int left = PyContextVar_Reset(core_variable, token);
    Py_XDECREF(held);
    if (left < 0 && PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_Clear();
        return 0;
    }
    return left;
}

PyObject *core_context_with(PyObject *context, PyObject *span) {
    PyObject *nothing = PyTuple_New(0);
    PyObject *made = nothing ? PyDict_Type.tp_new((PyTypeObject *)core_context_type, nothing, NULL) : NULL;
    Py_XDECREF(nothing);
    if (!made) return NULL;
    if ((PyDict_GET_SIZE(context) && PyDict_Update(made, context) < 0) || PyDict_SetItem(made, core_span_key, span) < 0)
        Py_CLEAR(made);
    return made;
}

/* --- faults of our own */

int core_fault(PyObject *on_fault, const char *doing) {
    PyObject *type, *fault, *trace;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "an object of the agent's is not as it was made");
    PyErr_Fetch(&type, &fault, &trace);
    PyErr_NormalizeException(&type, &fault, &trace);
    if (!PyErr_GivenExceptionMatches(type, PyExc_Exception)) {
        PyErr_Restore(type, fault, trace);
        return -1;
    }
    if (trace) PyException_SetTraceback(fault, trace);
    PyObject *done = PyObject_CallFunction(on_fault, "sO", doing, fault);
    Py_XDECREF(type);
    Py_XDECREF(fault);
    Py_XDECREF(trace);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* --- functions that stand in a class */

PyObject *core_method(vectorcallfunc call, PyObject *original, PyObject *state) {
    CoreMethod *self = PyObject_GC_New(CoreMethod, &CoreMethodType);
    if (!self) return NULL;
    self->call = call;
    self->original = Py_NewRef(original);
    self->state = Py_XNewRef(state);
    self->attributes = self->weakrefs = NULL;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static PyObject *method_get(PyObject *self, PyObject *instance, PyObject *Py_UNUSED(type)) {
    return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

static int method_traverse(CoreMethod *self, visitproc visit, void *arg) {
    Py_VISIT(self->original);
    Py_VISIT(self->state);
    Py_VISIT(self->attributes);
    return 0;
}

static int method_clear(CoreMethod *self) {
    Py_CLEAR(self->original);
    Py_CLEAR(self->state);
    Py_CLEAR(self->attributes);
    return 0;
}

static void method_dealloc(CoreMethod *self) {
    PyObject_GC_UnTrack(self);
    if (self->weakrefs) PyObject_ClearWeakRefs((PyObject *)self);
    method_clear(self);
    PyObject_GC_Del(self);
}

/* What else the function has: tools read its `__code__`, and some set it. */
static PyObject *method_getattro(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    return PyObject_GetAttr(((CoreMethod *)self)->original, name);
}

static PyObject *of_original(PyObject *self, void *name) {
    return PyObject_GetAttrString(((CoreMethod *)self)->original, name);
}

static int set_of_original(PyObject *self, PyObject *value, void *name) {
    return PyObject_SetAttrString(((CoreMethod *)self)->original, name, value);
}

static PyGetSetDef method_values[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"__code__", of_original, set_of_original, NULL, "__code__"},
    {"__defaults__", of_original, set_of_original, NULL, "__defaults__"},
    {"__kwdefaults__", of_original, set_of_original, NULL, "__kwdefaults__"},
    {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject CoreMethodType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "latencytrace.agent.compiled._core.Method",
    .tp_doc = "A function in C, in the place of one in Python (`__wrapped__`) that it is a quicker form of.",
    .tp_basicsize = sizeof(CoreMethod), .tp_dealloc = (destructor)method_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(CoreMethod, call), .tp_call = PyVectorcall_Call,
    .tp_descr_get = method_get, .tp_getattro = method_getattro, .tp_traverse = (traverseproc)method_traverse, .tp_clear = (inquiry)method_clear,
    .tp_getset = method_values, .tp_dictoffset = offsetof(CoreMethod, attributes),
    .tp_weaklistoffset = offsetof(CoreMethod, weakrefs)};

/* --- the module */

static PyObject *bind_context(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *variable, *key, *type;
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) { /* what is bound here is of one interpreter */
        PyErr_SetString(PyExc_ImportError, "the compiled core serves the main interpreter alone");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!UO!", &PyContextVar_Type, &variable, &key, &PyType_Type, &type)) return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)type, &PyDict_Type)) {
        PyErr_SetString(PyExc_TypeError, "a context is no dict");
        return NULL;
    }
    Py_XSETREF(core_variable, Py_NewRef(variable));
    Py_XSETREF(core_span_key, Py_NewRef(key));
    Py_XSETREF(core_context_type, Py_NewRef(type));
    Py_RETURN_NONE;
}

static PyObject *yield_processor(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    Py_BEGIN_ALLOW_THREADS
    sched_yield();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind_context", bind_context, METH_VARARGS,
     "Take OpenTelemetry's variable of the current context, the key of its span, and its class."},
    {"yield_processor", yield_processor, METH_NOARGS, "Let another thread run, with the interpreter released."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", "Quick forms of what the agent does most often.", -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) {
    static int (*const parts[])(PyObject *) = {encoder_ready, packing_ready, events_ready, loop_ready, locks_ready, calls_ready, recorder_ready, spans_ready, requests_ready, sends_ready, streams_ready, termination_ready};
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    int failed = PyType_Ready(&CoreMethodType) < 0;
    for (size_t part = 0; !failed && part < sizeof parts / sizeof *parts; part++) failed = parts[part](module) < 0;
    if (failed) Py_CLEAR(module);
    return module;
}
