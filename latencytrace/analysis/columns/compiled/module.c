/* The module `latencytrace.analysis.columns.compiled._core`, and what its parts share; see `core.h`. */
#include "core.h"

/* --- numbers of Python's */

static Name *const parts[] = {critical_paths_names, packed_names, paths_names, reported_names, trees_names};
#define PARTS (sizeof parts / sizeof *parts)

static int are_bound(const Name *names) {
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

void core_end(Lent *lent) {
    arrays_drop(&lent->held);
    while (lent->room_count)
        free(lent->rooms[--lent->room_count]);
}

PyObject *core_misfit(Lent *lent) {
    core_end(lent);
    PyErr_SetString(PyExc_ValueError, "an array is not as long as it has to be beside the others");
    return NULL;
}

/* Take an array, whose size is written behind its kind. */
static int take_array(Lent *lent, PyObject *from, const char *kind, int64_t factor, void *place) {
    int is_written = *kind < 'a';
    Array array;
    if (!arrays_take_one(&lent->held, from, is_written, (*kind | 0x20) == 'q' ? 8 : 1, &array))
        return 0;
    memcpy(place, &array.any, sizeof array.any);
    int has_factor = kind[1] == '*' || (kind[1] >= '0' && kind[1] <= '9');
    const char *letter = kind + 1 + has_factor;
    int64_t one = 1, *size = &one;
    if (*letter >= 'a' && *letter <= 'z')
        size = &lent->sizes[*letter++ - 'a'];
    else if (!has_factor)
        return 1;
    int64_t more = *letter == '+';
    if (*size < 0 && factor > 0)
        *size = (array.count - more) / factor;
    if (*size >= 0 && array.count == factor * *size + more)
        return 1;
    core_misfit(lent);
    return 0;
}

int core_take(Lent *lent, const Name *names, PyObject *const *args, Py_ssize_t given, const char *kinds, ...) {
    va_list places;
    Py_ssize_t wanted = 1;
    int taken = 1;
    lent->held.count = lent->room_count = 0;
    memset(lent->sizes, -1, sizeof lent->sizes);
    for (const char *at = kinds; *at; at++)
        wanted += *at == ' ';
    if (!are_bound(names))
        return 0;
    if (given != wanted) {
        PyErr_Format(PyExc_TypeError, "%zd arguments are taken, not %zd", wanted, given);
        return 0;
    }
    va_start(places, kinds);
    for (Py_ssize_t number = 0; taken && number < given; number++, kinds += strcspn(kinds, " ") + 1) {
        int64_t factor = kinds[1] == '*' ? va_arg(places, int64_t) : kinds[1] >= '0' && kinds[1] <= '9' ? kinds[1] - '0' : 1;
        void *place = va_arg(places, void *);
        if (*kinds == 'n') {
            *(int64_t *)place = PyLong_AsLongLong(args[number]);
            taken = !(*(int64_t *)place == -1 && PyErr_Occurred());
        } else {
            taken = take_array(lent, args[number], kinds, factor, place);
        }
    }
    va_end(places);
    if (!taken)
        core_end(lent);
    return taken;
}

int core_rooms(Lent *lent, int64_t count, ...) {
    va_list places;
    int is_made = 1;
    va_start(places, count);
    for (void *place; is_made && (place = va_arg(places, void *));) {
        void *made = lent->room_count < MOST_ROOMS && (uint64_t)count < PY_SSIZE_T_MAX / sizeof(int64_t)
                         ? malloc((size_t)(count + 1) * sizeof(int64_t))
                         : NULL;
        if ((is_made = made != NULL))
            memcpy(place, &made, sizeof made);
        if (made)
            lent->rooms[lent->room_count++] = made;
    }
    va_end(places);
    if (!is_made) {
        core_end(lent);
        PyErr_NoMemory();
    }
    return is_made;
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
