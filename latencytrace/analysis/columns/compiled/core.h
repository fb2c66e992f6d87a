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

/* Whether all are bound; else RuntimeError. */
int core_are_bound(const Name *names);

/* --- the parts: each adds its functions to the module; -1 with an exception */

int critical_paths_ready(PyObject *module);
int paths_ready(PyObject *module);
int packed_ready(PyObject *module);
int reported_ready(PyObject *module);
int trees_ready(PyObject *module);

/* --- what functions begin and end with */

/* Drop arrays of which one is not as long as the others say, with ValueError. Returns NULL. */
PyObject *core_misfit(Held *held);

/* Memory for so many numbers, to be freed; NULL: there is none, the arrays are dropped, and MemoryError is set. */
int64_t *core_scratch(Held *held, int64_t count);

/* Likewise for flags, all of them 0. */
uint8_t *core_flags(Held *held, int64_t count);

/* Take the first numbers of what is left of scratch. */
static inline int64_t *taken(int64_t **scratch, int64_t count) {
    int64_t *first = *scratch;
    *scratch += count;
    return first;
}

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
