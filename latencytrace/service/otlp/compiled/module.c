/* The module. What each function takes and gives, it says where it is. */
#include "records.h"

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))core_##name, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    METHOD(scan),  METHOD(from_json), METHOD(forms), METHOD(gather), METHOD(values),      METHOD(filter),     METHOD(judge),
    METHOD(tells), METHOD(asked),     METHOD(shape), METHOD(carry),  METHOD(shown_texts), METHOD(word_hashes),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_core", .m_methods = methods};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
