/* The module `latencytrace.analysis.columns.compiled._core`, and what its parts share; see `core.h`. */
#include "core.h"

/* --- numbers of Python's */

static Name *const parts[] = {critical_paths_names, packed_names, paths_names, reported_names, trees_names};
#define PARTS (sizeof parts / sizeof *parts)

int core_are_bound(const Name *names) {
    for (; names->name; names++)
        if (!names->is_bound) {
            PyErr_Format(PyExc_RuntimeError, "the number %s was not bound", names->name);
            return 0;
        }
    return 1;
}

/* Set a number wherever it is known, or, with `number` NULL, only look for it. Returns whether it is known. */
static int set_everywhere(const char *name, const int64_t *number) {
    int is_known = 0;
    for (size_t part = 0; part < PARTS; part++)
        for (Name *one = parts[part]; one->name; one++)
            if (!strcmp(one->name, name)) {
                is_known = 1;
                if (number) {
                    *one->number = *number;
                    one->is_bound = 1;
                }
            }
    return is_known;
}

/* All of them, or none with an exception. */
static PyObject *bind(PyObject *Py_UNUSED(module), PyObject *numbers) {
    for (int sets = 0; sets < 2; sets++) {
        PyObject *key, *value;
        Py_ssize_t at = 0;
        if (!PyDict_Check(numbers)) {
            PyErr_SetString(PyExc_TypeError, "numbers come as a dict, by their names");
            return NULL;
        }
        while (PyDict_Next(numbers, &at, &key, &value)) {
            const char *name = PyUnicode_AsUTF8(key);
            if (!name)
                return NULL;
            int64_t number = PyLong_AsLongLong(value);
            if (number == -1 && PyErr_Occurred())
                return NULL;
            if (!set_everywhere(name, sets ? &number : NULL)) {
                PyErr_SetObject(PyExc_KeyError, key);
                return NULL;
            }
        }
    }
    Py_RETURN_NONE;
}

/* --- what functions begin and end with */

PyObject *core_misfit(Held *held) {
    arrays_drop(held);
    PyErr_SetString(PyExc_ValueError, "an array is not as long as it has to be beside the others");
    return NULL;
}

int64_t *core_scratch(Held *held, int64_t count) {
    int64_t *made = (uint64_t)count < PY_SSIZE_T_MAX / sizeof *made ? malloc((size_t)(count + 1) * sizeof *made) : NULL;
    if (!made) {
        arrays_drop(held);
        PyErr_NoMemory();
    }
    return made;
}

uint8_t *core_flags(Held *held, int64_t count) {
    uint8_t *made = calloc((size_t)(count + 1), 1);
    if (!made) {
        arrays_drop(held);
        PyErr_NoMemory();
    }
    return made;
}

/* --- sorting */

static void merge(const int64_t *from, int64_t count, int64_t of_left, const int64_t *keys, int64_t *to) {
    const int64_t *left = from, *middle = from + of_left, *right = middle, *beyond = from + count;
    while (left < middle && right < beyond)
        *to++ = keys[*right] < keys[*left] ? *right++ : *left++;
    while (left < middle)
        *to++ = *left++;
    while (right < beyond)
        *to++ = *right++;
}

void core_merge_sort(int64_t *places, int64_t count, const int64_t *keys, int64_t *room) {
    for (int64_t run = 0; run < count; run += FEW)
        insertion_sort(places + run, smaller(FEW, count - run), keys);
    for (int64_t width = FEW; width < count; width *= 2)
        for (int64_t left = 0; left + width < count; left += 2 * width) {
            int64_t *from = places + left, both = smaller(2 * width, count - left);
            if (keys[from[width - 1]] <= keys[from[width]])
                continue; /* in order, as most that is sent is */
            merge(from, both, width, keys, room);
            memcpy(from, room, (size_t)both * sizeof *room);
        }
}

static void put_in_order(int64_t *column, const int64_t *places, int64_t count, int64_t *room) {
    for (int64_t one = 0; one < count; one++)
        room[one] = column[places[one]];
    memcpy(column, room, (size_t)count * sizeof *room);
}

void core_sort_many(int64_t *keys, int64_t *second, int64_t *third, int64_t count, int64_t *room) {
    int64_t *places = room + count;
    for (int64_t one = 0; one < count; one++)
        places[one] = one;
    core_merge_sort(places, count, keys, room);
    put_in_order(second, places, count, room);
    put_in_order(third, places, count, room);
    put_in_order(keys, places, count, room);
}

/* --- the module */

static PyMethodDef functions[] = {
    {"bind", bind, METH_O, "Take numbers of Python's, by the names that C knows them by."}, {NULL, NULL, 0, NULL}};

static int fill_module(PyObject *module) {
    static int (*const ready[])(PyObject *) = {critical_paths_ready, packed_ready, paths_ready, reported_ready,
                                               trees_ready};
    for (size_t part = 0; part < sizeof ready / sizeof *ready; part++)
        if (ready[part](module) < 0)
            return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "_core",
                                        "The attribution over columns, as array functions.",
                                        0,
                                        functions,
                                        slots,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
