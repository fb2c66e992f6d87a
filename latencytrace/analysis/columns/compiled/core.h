/* What the parts of the compiled array functions share. Functions in Python allocate what is found, and say in
 * their docstrings what the arrays are; the functions here fill it, and return how much there is. Tables are
 * held row by row. The oracles are the functions for objects: they say why each step is taken. */
#ifndef LATENCYTRACE_COLUMNS_H
#define LATENCYTRACE_COLUMNS_H

#include "arrays.h"
#include <math.h>

#define FEW 32 /* up to which sorting by insertion is fastest */

/* --- numbers of Python's, each in a variable of its name: `bind` sets them */

typedef struct {
    const char *name; /* NULL: behind the last */
    int64_t *number;
    int is_bound;
} Name;

#define CORE_VARIABLE(name) static int64_t name;
#define CORE_NAME(name) {#name, &name, 0},

/* Declare the numbers that a part needs, and the list of them. */
#define CORE_NAMES(list, NAMES) \
    NAMES(CORE_VARIABLE)        \
    Name list[] = {NAMES(CORE_NAME){NULL, NULL, 0}};

extern Name critical_paths_names[], paths_names[], packed_names[], reported_names[], trees_names[];

/* --- the parts: each adds its functions to the module; -1 with an exception */

int critical_paths_ready(PyObject *module);
int paths_ready(PyObject *module);
int packed_ready(PyObject *module);
int reported_ready(PyObject *module);
int trees_ready(PyObject *module);

/* --- what functions begin and end with */

#define CORE_FUNCTION(name) static PyObject *name(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
#define CORE_METHOD(name, doc) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, doc}
#define MOST_ROOMS 16

typedef struct { /* what a function works on */
    Held held;
    int64_t sizes[26]; /* by letter; below 0: no array has said it */
    void *rooms[MOST_ROOMS];
    int room_count;
} Lent;

/* Take a function's arguments, once the numbers of its part are bound, each to where a further argument points. Between
 * blanks stands the kind of each: `q` an array of int64, `b` of single bytes, in capitals one that is written to; `n` an
 * int64. Behind it stands how long the array is: a letter that means one size in all of them, after a factor and before
 * a plus where there is one more; `*` is a factor that comes before the place; nothing: any. 1, or 0 with an exception
 * and nothing held: ValueError where one array is not as long as the others say. */
int core_take(Lent *lent, const Name *names, PyObject *const *args, Py_ssize_t given, const char *kinds, ...);

/* The size that a letter means. */
static inline int64_t size_of(const Lent *lent, char letter) { return lent->sizes[letter - 'a']; }

/* Give each place memory for so many numbers. 1, or 0 with MemoryError and nothing held. */
#define core_room(lent, count, ...) core_rooms(lent, count, __VA_ARGS__, NULL)
int core_rooms(Lent *lent, int64_t count, ...);

/* Drop all of it. */
void core_end(Lent *lent);

/* Likewise, with ValueError. Returns NULL. */
PyObject *core_misfit(Lent *lent);

/* --- arithmetic: what senders make up may go beyond what fits, and then goes round */

static inline int64_t plus(int64_t one, int64_t other) { return (int64_t)((uint64_t)one + (uint64_t)other); }
static inline int64_t minus(int64_t one, int64_t other) { return (int64_t)((uint64_t)one - (uint64_t)other); }
static inline int64_t times(int64_t one, int64_t other) { return (int64_t)((uint64_t)one * (uint64_t)other); }
static inline int64_t larger(int64_t one, int64_t other) { return one > other ? one : other; }
static inline int64_t smaller(int64_t one, int64_t other) { return one < other ? one : other; }

/* --- sorting: what is equal stays in order */

/* Sort the numbers of places by the keys that are there. `room` is for as many numbers. */
void core_merge_sort(int64_t *places, int64_t count, const int64_t *keys, int64_t *room);

static inline void insertion_sort(int64_t *places, int64_t count, const int64_t *keys) {
    for (int64_t one = 1; one < count; one++) {
        int64_t place = one, moved = places[one], key = keys[moved];
        for (; place && keys[places[place - 1]] > key; place--)
            places[place] = places[place - 1];
        places[place] = moved;
    }
}

static inline void sort_places(int64_t *places, int64_t count, const int64_t *keys, int64_t *room) {
    if (count > FEW)
        core_merge_sort(places, count, keys, room);
    else
        insertion_sort(places, count, keys);
}

/* Sort three columns by the first. `room` is for twice as many numbers as one has. */
void core_sort_many(int64_t *keys, int64_t *second, int64_t *third, int64_t count, int64_t *room);

static inline void sort_columns(int64_t *keys, int64_t *second, int64_t *third, int64_t count, int64_t *room) {
    if (count > FEW) {
        core_sort_many(keys, second, third, count, room);
        return;
    }
    for (int64_t one = 1; one < count; one++) {
        int64_t place = one, key = keys[one], of_second = second[one], of_third = third[one];
        for (; place && keys[place - 1] > key; place--) {
            keys[place] = keys[place - 1];
            second[place] = second[place - 1];
            third[place] = third[place - 1];
        }
        keys[place] = key;
        second[place] = of_second;
        third[place] = of_third;
    }
}

#endif
