/* The recorder of hooks, the detail that it records in, and the spans that it has under way. */
#ifndef LATENCYTRACE_RECORDER_H
#define LATENCYTRACE_RECORDER_H

#include "core.h"

enum { DETAIL, DEVICES, ON_FAULT, OPEN_REQUESTS, SERVER_TIMINGS, STARTING, TRACER_OF_RECORDER, RECORDER_SLOTS };
extern Py_ssize_t of_recorder[RECORDER_SLOTS];

enum { D_CHUNKS, D_GAPS, D_INTERVALS, D_LACKS, D_REQUESTS, D_SKIPS_CALLS, D_SPARES, D_THRESHOLD, DETAIL_SLOTS };
extern Py_ssize_t of_detail[DETAIL_SLOTS];

enum { T_INTERVALS, T_PENDING, T_SPAN, T_STARTED_NS, T_TOKEN, TIMING_SLOTS };
extern Py_ssize_t of_timing[TIMING_SLOTS];

enum { I_OPEN, I_STAGES, INTERVALS_SLOTS };
extern Py_ssize_t of_intervals[INTERVALS_SLOTS];

extern PyObject *recorder_type, *detail_type, *timing_type, *intervals_type, *starting_type;

static inline int is_a(PyObject *object, PyObject *type) { return object && type && Py_IS_TYPE(object, (PyTypeObject *)type); }

/* Whether this is a recorder of hooks with a tracer of ours, in full detail, while no server starts. */
int recorder_is_usual(PyObject *recorder);

/* Have a timing, made without `__init__`, hold a span that has begun. -1 with an exception. */
int timing_fill(PyObject *timing, PyObject *recorder, PyObject *span);

/* End a timing's span at a monotonic time, 0: now, as `Timing.end` does. 1: done; 0: Python's form is to;
 * -1: an exception is set. */
int timing_end(PyObject *timing, int64_t ended_ns);

/* Have attributes worked out by an object of Python's when a span is sent, in the place of a key. 1: done; 0: there is
 * no room; -1: an exception is set. */
int core_defer(PyObject *span, PyObject *key, PyObject *attributes, Py_ssize_t weight);

/* Take what was noted out of intervals, which begin anew: a new reference. NULL: an exception is set. */
PyObject *core_taken_stages(PyObject *intervals);

/* Call a method of Python's, with an argument or NULL, for what it does. -1 with an exception. */
int core_ask(PyObject *object, PyObject *name, PyObject *argument);

#endif
