/* What the parts of the compiled core share. Each part is a quick form of functions in Python, which
 * stay the rule: it does the usual case alone, and leaves all others to them. Objects are the same:
 * classes are Python's, with `__slots__`, and C fills the same places. */
#ifndef LATENCYTRACE_CORE_H
#define LATENCYTRACE_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* --- time */

static inline int64_t core_monotonic_ns(void) { /* as `time.monotonic_ns` on Linux and macOS */
    struct timespec now;
#ifdef __APPLE__
    clock_gettime(CLOCK_UPTIME_RAW, &now);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- for the compiler: a condition that nearly always holds, and a function to be kept out of its callers */

#define USUALLY(condition) __builtin_expect(!!(condition), 1)
#define APART __attribute__((noinline))

/* --- objects with `__slots__`, made and filled without their `__init__` */

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

/* A new object of a class of Python's, its slots empty. NULL: an exception is set. */
static inline PyObject *core_new(PyObject *type) { return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0); }

/* Set a slot, whose reference is taken over; the value must not be NULL. */
static inline void core_set(PyObject *object, Py_ssize_t offset, PyObject *value) {
    PyObject *before = SLOT(object, offset);
    SLOT(object, offset) = value;
    Py_XDECREF(before);
}

static inline void core_set_new(PyObject *object, Py_ssize_t offset, PyObject *value) {
    core_set(object, offset, Py_NewRef(value));
}

/* Append a time to a list. -1 with an exception. */
static inline int append_time(PyObject *times, int64_t at_ns) {
    PyObject *time = PyLong_FromLongLong(at_ns);
    int done = time ? PyList_Append(times, time) : -1;
    Py_XDECREF(time);
    return done;
}

/* The place of a slot of a class; -1 and TypeError: it has none of this name. */
Py_ssize_t core_offset(PyObject *type, const char *name);

/* Find the places of several slots, or with NULL only whether there are such; `names` ends with NULL. 0, or -1 with an
 * exception. */
int core_offsets(PyObject *type, const char *const *names, Py_ssize_t *offsets);

/* --- what parts are given of Python's: classes, keys of attributes and the like */

typedef struct {
    PyObject **place;          /* where it is kept; NULL: nowhere */
    const char *const *names;  /* of the slots of a class, whose places are found; NULL: it is a text */
    Py_ssize_t *offsets;
} Kept;

/* Keep the arguments of a function, all of them or none. None; NULL with an exception. */
PyObject *core_keep(PyObject *args, Py_ssize_t count, const Kept *kept);

extern const char *const core_no_slots[];
#define KEPT_OBJECT(place) {&place, core_no_slots, NULL}
#define KEPT_TEXT(place) {&place, NULL, NULL}

/* Define a function that does nothing else. */
#define CORE_KEEPS(function, ...)                                               \
    static PyObject *function(PyObject *Py_UNUSED(module), PyObject *args) {    \
        static const Kept kept[] = {__VA_ARGS__};                               \
        return core_keep(args, (Py_ssize_t)(sizeof kept / sizeof *kept), kept); \
    }

/* --- OpenTelemetry's current context */

extern PyObject *core_variable;     /* the ContextVar that holds it; NULL: nothing was bound */
extern PyObject *core_span_key;     /* under which a context holds its span */
extern PyObject *core_context_type; /* `opentelemetry.context.Context`, a dict */

PyObject *core_current(void);                 /* a new reference; NULL: an exception is set */
PyObject *core_enter(PyObject *context);      /* returns the token to leave it with */
int core_leave(PyObject *token);              /* in another task or thread: does nothing */
/* A copy of a context with its span; NULL: an exception is set. */
PyObject *core_context_with(PyObject *context, PyObject *span);

/* --- faults of our own */

/* Hand the exception that is set to `on_fault(doing, exception)`, as `except FAULTS` does: only what
 * is an `Exception`. 0: it is dealt with. -1: an exception is set, for it is none of ours. */
int core_fault(PyObject *on_fault, const char *doing);

/* --- a function that stands in a class in the place of Python's, whose form it keeps */

typedef struct core_method {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *original; /* Python's form, for every case but the usual one */
    PyObject *state;    /* what the part keeps for this function; may be NULL */
    PyObject *attributes;
    PyObject *weakrefs;
} CoreMethod;

extern PyTypeObject CoreMethodType;

PyObject *core_method(vectorcallfunc call, PyObject *original, PyObject *state);

/* Define `…_for`, which makes one of Python's form, and of a state where there is one: 1, else 0. */
#define CORE_METHOD(call, has_state)                                                                      \
    static PyObject *call##_for(PyObject *Py_UNUSED(module), PyObject *args) {                            \
        PyObject *original, *state = NULL;                                                                \
        int is_given = PyArg_UnpackTuple(args, #call, 1 + has_state, 1 + has_state, &original, &state);   \
        return is_given ? core_method(call, original, state) : NULL;                                      \
    }

static inline PyObject *core_original(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    return PyObject_Vectorcall(((CoreMethod *)callable)->original, args, count, names);
}

/* --- the parts: each adds its functions and its types to the module; -1 with an exception */

int encoder_ready(PyObject *module);
int packing_ready(PyObject *module);
int events_ready(PyObject *module);
int loop_ready(PyObject *module);
int locks_ready(PyObject *module);
int calls_ready(PyObject *module);
int recorder_ready(PyObject *module);
int spans_ready(PyObject *module);
int streams_ready(PyObject *module);
int requests_ready(PyObject *module);
int sends_ready(PyObject *module);
int termination_ready(PyObject *module);

/* spans.c, for all that starts spans */

/* The number of a `SpanKind`; NULL: internal. -1: unknown. */
long core_number_of_kind(PyObject *kind);

/* Start a span of ours below the context `here`, as `RecordingTracer.start_span` does. `attributes`, a
 * dict of scalars or NULL, becomes the span's own. `started_ns` 0: now. Returns a new reference;
 * NULL without an exception: not the usual case, so that Python's form has to start it. */
PyObject *core_start_span(PyObject *tracer, PyObject *name, PyObject *here, long kind, PyObject *attributes,
                          int64_t started_ns);
/* The same with ids that are known: `trace_id` NULL is drawn, `parent_id` NULL is none, `details` NULL is
 * None; no sampler is asked about one that begins a trace. */
PyObject *core_span_of(PyObject *tracer, PyObject *name, long kind, PyObject *attributes, PyObject *trace_id,
                       PyObject *parent_id, PyObject *details, int64_t started_ns);
/* End a span of ours now or at a time, as `Timing.end` does. -1 with an exception. */
int core_end_span(PyObject *span, int64_t ended_ns);
int core_has_ended(PyObject *span);
int core_is_span(PyObject *span); /* whether it is one of ours, with all that is read of it below */
PyObject *core_details_of(PyObject *span);   /* borrowed, as the next */
PyObject *core_name_of(PyObject *span);
PyObject *core_parent_id_of(PyObject *span);
PyObject *core_span_id_of(PyObject *span);
PyObject *core_started_of(PyObject *span);
PyObject *core_tracer_of(PyObject *span);
long core_kind_of(PyObject *span);
int core_times_of(PyObject *span, uint64_t *started_ns, uint64_t *ended_ns); /* since the Unix epoch */
int core_note(PyObject *span, PyObject *attributes);
PyObject *core_limit_of_length(PyObject *limits); /* a new reference */
int core_are_scalars(PyObject *attributes); /* whether no value of a dict needs to be copied */
int core_is_tracer(PyObject *tracer); /* ours, whose spans go to the exporter alone */
int core_records_roots(PyObject *tracer);
int core_has_room(PyObject *span, Py_ssize_t more); /* for so many attributes, within the limits of its tracer */

/* recorder.c */
int core_detail_records_all(PyObject *detail); /* of a `Detail`: it leaves out no trace that begins here */

/* events.c */
int core_event_learned(PyObject *events, PyObject *chunk);

/* sends.c: the times of an answer's chunks, borrowed: each handed over and left. NULL: it is no such object. */
const int64_t *core_chunks(PyObject *chunks, Py_ssize_t *count);

/* How many chunks are kept of an answer all of whose parts were read as they left; -1: it is another. */
Py_ssize_t core_kept_chunks(PyObject *answer);

/* streams.c: an `AnswerStream` of a form, the value of `content-type`, whose sends are noted in a list */
PyObject *core_new_answer(PyObject *content_type, PyObject *sends);
void core_answer_rests(PyObject *streamed); /* of an answer that is over: its `StreamedAttributes` */

/* packing.c: what works out a `Deferred`'s attributes, borrowed; NULL: they are worked out */
PyObject *core_worked_out_by(PyObject *deferred);

/* requests.c: a served request, for its sends */
int core_is_request(PyObject *request); /* one of the ASGI hook's, made whole */
int core_times_sends(PyObject *request); /* nothing but its sends is to be timed or told of them */
PyObject *core_answer_of(PyObject *request); /* borrowed: an `AnswerStream`, or None until there is one */
PyObject **core_place_of_answer(PyObject *request); /* where it is, as long as the request is */
int core_respond(PyObject *request, int64_t started_ns, int64_t sent_ns); /* note a send; -1 with an exception */
/* Note what an answer begins with, or that it has left. 1: done; 0: Python's form is to; -1: an exception. */
int core_answer_begins(PyObject *request, PyObject *message);
int core_answer_ends(PyObject *request);
PyObject *core_fault_handler_of(PyObject *request); /* borrowed */
PyObject *core_attributes_of(PyObject *span); /* borrowed: a dict, or None */
PyObject *core_trace_id_of(PyObject *span);   /* borrowed */
void core_rename_span(PyObject *span, PyObject *name);
extern PyObject *core_span_type; /* `RecordedSpan` */

#endif
