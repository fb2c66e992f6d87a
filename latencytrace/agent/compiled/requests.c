/* A request that an ASGI application serves, in the usual case: traced in full detail by a tracer of ours,
 * its caller named by a `traceparent` or not at all. `hooks/asgi.py` and `toolkit/http/server.py` have the
 * forms in Python. */
#include "recorder.h"

enum { CONCURRENCY, IN_LIBRARY, LOOP_THREAD, NOTED_GAPS, OWN_GAPS, PAGED_IN, POOLED_WAIT, G_PROCESSOR, QUEUE_DEPTH, G_RAN_NS, G_REQUEST, RETURNED_NS, UNFINISHED, WAITS, GAPS_SLOTS };
static const char *const gaps_names[] = {
    "concurrency", "in_library", "loop_thread", "_noted", "_own", "paged_in", "pooled_wait_ns", "processor", "queue_depth", "ran_ns", "request", "returned_ns", "unfinished", "waits", NULL};
static Py_ssize_t of_gaps[GAPS_SLOTS];

enum { LAST_SERVED, LOCK, OPEN, PROCESSOR, UNWATCHED, WAITING, WATCH, OPEN_SLOTS };
static const char *const open_names[] = {"last_served", "_lock", "open", "processor", "_unwatched", "_waiting", "_watch", NULL};
static Py_ssize_t of_open[OPEN_SLOTS];

enum { DUE_NS, LIKELY_BY_NS, PROCESSOR_SLOTS };
static const char *const processor_names[] = {"due_ns", "likely_by_ns", NULL};
static Py_ssize_t of_processor[PROCESSOR_SLOTS];

enum {
    ANSWERED, BODY_WANTED, CARRIED, R_GAPS, HAS_ENDED, IN_ONE_PIECE, R_INTERVALS, IS_SPARED, LACKS, HAS_GONE, MADE, R_NAME, NOTED,
    RECORDER, R_DETAIL, SCOPE, R_STAGES, TIMING, R_TOKEN, REQUEST_SLOTS
};
static const char *const request_names[] = {
    "_answered", "_body_wanted", "_carried", "_gaps", "has_ended", "_in_one_piece", "intervals", "is_spared", "_lacks", "_left", "made",
    "name", "_noted", "recorder", "detail", "_scope", "stages", "timing", "_token", NULL};
static Py_ssize_t of_request[REQUEST_SLOTS];

enum { LAYERS_SEEN, LAYERS_SLOTS };
static const char *const layers_names[] = {"_seen", NULL};
static Py_ssize_t of_layers[LAYERS_SLOTS];

enum { ANSWER, START_NS, STREAM_STAGES, STREAMED_SLOTS };
static const char *const streamed_names[] = {"_answer", "_span_start_ns", "_stages", NULL};
static Py_ssize_t of_streamed[STREAMED_SLOTS];

enum { ST_ON_END, ST_SLOTS };
static const char *const st_names[] = {"_on_end", NULL};
static Py_ssize_t of_st[ST_SLOTS];

/* Classes, functions and keys, by name in `bind_requests`; in the order of `known_names`. */
enum {
    REQUEST_TYPE, GAPS_TYPE, OPEN_TYPE, PROCESSOR_TYPE, LAYERS_TYPE, TIMINGS_TYPE, DETAILS_TYPE, FULL, EMPTY_STATE, READS_W3C_ALONE, CALLBACKS, RESPOND,
    GAPS_KEY, REQUEST_KEY, ANSWER_KEY, TIMED_KEY, SUPPRESSED_KEY, SUPPRESS_KEY, METHOD_KEY, SCHEME_KEY, PATH_KEY,
    VERSION_KEY, ADDRESS_KEY, PORT_KEY, STATUS_KEY, ROUTE_KEY, CONCURRENCY_KEY, DEPTH_KEY, STREAMED_TYPE, TIMES_KEY, ARRIVED_KEY,
    KNOWN
};
static const char *const known_names[] = {
    "request_type", "gaps_type", "open_type", "processor_type", "layers_type", "timings_type", "details_type", "full", "empty_state", "reads_w3c_alone",
    "callbacks", "respond", "gaps", "request", "answer", "timed", "suppressed", "suppress", "method", "scheme", "path",
    "version", "address", "port", "status", "route", "concurrency", "depth", "streamed_type", "times", "arrived"};
static PyObject *known[KNOWN];

static PyObject *zero, *name_acquire, *name_release, *name_stack, *name_describe, *name_describe_answer, *name_end,
    *name_add, *name_headers, *name_type, *name_method, *name_scheme, *name_path, *name_version, *name_server, *name_status,
    *name_route, *name_fastapi, *name_effective, *name_original_route, *name_path_format, *name_app_root,
    *name_remote, *name_state, *name_random, *name_note, *name_follow, *name_kernel_reports;

enum { HELD = 2048, TIME_BYTES = 40, MOST_DEFERRED = 8, SERVER_KIND = 1, FIRST_SERVER_ERROR = 500, NOTICED_NS = 1000000 };

/* --- requests under way, behind their lock as in Python */

static int locked(PyObject *requests, PyObject *name) {
    PyObject *lock = SLOT(requests, of_open[LOCK]), *done;
    if (!lock) {
        PyErr_SetString(PyExc_AttributeError, "requests under way have no lock");
        return -1;
    }
    Py_INCREF(lock);
    done = PyObject_CallMethodNoArgs(lock, name);
    Py_DECREF(lock);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Take a request up among those under way. -1 with an exception. */
static int take_up(PyObject *requests, PyObject *gaps) {
    if (locked(requests, name_acquire) < 0) return -1;
    PyObject *open = SLOT(requests, of_open[OPEN]), *unwatched = SLOT(requests, of_open[UNWATCHED]);
    int failed = !open || !unwatched || PySet_Add(open, gaps) < 0;
    if (!failed) {
        PyObject *concurrency = PyLong_FromSsize_t(PySet_Size(open) + PySet_Size(unwatched));
        if (concurrency) core_set(gaps, of_gaps[CONCURRENCY], concurrency);
        failed = !concurrency || (PySet_Size(open) == 1 && PyList_Append(known[CALLBACKS], SLOT(requests, of_open[WATCH])) < 0);
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (failed && open && PySet_Discard(open, gaps) < 0) PyErr_Clear();
    if (locked(requests, name_release) < 0) failed = 1;
    if (type) PyErr_Restore(type, value, trace);
    return failed ? -1 : 0;
}

/* Let go of a request; a second time changes nothing. */
static int let_go(PyObject *requests, PyObject *gaps) {
    core_set_new(gaps, of_gaps[G_REQUEST], Py_None);
    if (locked(requests, name_acquire) < 0) return -1;
    PyObject *open = SLOT(requests, of_open[OPEN]), *unwatched = SLOT(requests, of_open[UNWATCHED]),
             *waiting = SLOT(requests, of_open[WAITING]), *watch = SLOT(requests, of_open[WATCH]);
    int failed = !open || !unwatched || !waiting || !watch || PySet_Discard(open, gaps) < 0;
    if (!failed && PySet_Size(unwatched)) failed = PySet_Discard(unwatched, gaps) < 0;
    if (!failed && PyDict_GET_SIZE(waiting) && PyDict_Contains(waiting, gaps) > 0) failed = PyDict_DelItem(waiting, gaps) < 0;
    if (!failed && !PySet_Size(open)) {
        PyObject *callbacks = known[CALLBACKS];
        for (Py_ssize_t at = PyList_GET_SIZE(callbacks) - 1; at >= 0; at--)
            if (PyList_GET_ITEM(callbacks, at) == watch) {
                failed = PyList_SetSlice(callbacks, at, at + 1, NULL) < 0;
                break;
            }
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (locked(requests, name_release) < 0) failed = 1;
    if (type) PyErr_Restore(type, value, trace);
    return failed ? -1 : 0;
}

/* Read how long this thread has waited for a processor, where `ProcessorWaits.follow` would. -1 with an exception. */
static int follow(PyObject *processor, long long now_ns) {
    if (processor == Py_None) return 0;
    long long due_ns = PyLong_AsLongLong(SLOT(processor, of_processor[DUE_NS])),
              likely_by_ns = PyLong_AsLongLong(SLOT(processor, of_processor[LIKELY_BY_NS]));
    if (PyErr_Occurred()) return -1;
    if (now_ns < due_ns && now_ns >= likely_by_ns) return 0;
    PyObject *now = PyLong_FromLongLong(now_ns), *done = now ? PyObject_CallMethodOneArg(processor, name_follow, now) : NULL;
    Py_XDECREF(now);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *new_gaps(PyObject *requests, PyObject *request, PyObject *started) {
    PyObject *gaps = core_new(known[GAPS_TYPE]), *processor = SLOT(requests, of_open[PROCESSOR]);
    if (!gaps) return NULL;
    if (!processor) processor = Py_None;
    SLOT(gaps, of_gaps[G_PROCESSOR]) = Py_NewRef(processor);
    SLOT(gaps, of_gaps[CONCURRENCY]) = Py_NewRef(zero);
    SLOT(gaps, of_gaps[QUEUE_DEPTH]) = Py_NewRef(Py_None);
    SLOT(gaps, of_gaps[IN_LIBRARY]) = Py_NewRef(Py_False);
    SLOT(gaps, of_gaps[PAGED_IN]) = Py_NewRef(Py_False);
    SLOT(gaps, of_gaps[POOLED_WAIT]) = Py_NewRef(zero);
    SLOT(gaps, of_gaps[G_RAN_NS]) = Py_NewRef(started);
    SLOT(gaps, of_gaps[G_REQUEST]) = Py_NewRef(request);
    SLOT(gaps, of_gaps[RETURNED_NS]) = Py_NewRef(zero);
    SLOT(gaps, of_gaps[UNFINISHED]) = Py_NewRef(Py_None);
    SLOT(gaps, of_gaps[WAITS]) = Py_NewRef(zero);
    SLOT(gaps, of_gaps[OWN_GAPS]) = PyList_New(0);
    SLOT(gaps, of_gaps[NOTED_GAPS]) = PyDict_New();
    SLOT(gaps, of_gaps[LOOP_THREAD]) = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    if (!SLOT(gaps, of_gaps[OWN_GAPS]) || !SLOT(gaps, of_gaps[NOTED_GAPS]) || !SLOT(gaps, of_gaps[LOOP_THREAD]) || follow(processor, PyLong_AsLongLong(started)) < 0)
        Py_CLEAR(gaps);
    return gaps;
}

/* --- the headers: the caller */

typedef struct {
    PyObject *trace_id, *parent_id, *details; /* new references, or NULL without a caller */
} Caller;

static void drop_caller(Caller *caller) {
    Py_CLEAR(caller->trace_id);
    Py_CLEAR(caller->parent_id);
    Py_CLEAR(caller->details);
}

static int from_hex(const char *digits, Py_ssize_t bytes, unsigned char *found) {
    int any = 0;
    for (Py_ssize_t at = 0; at < 2 * bytes; at++) {
        char digit = digits[at];
        int value = digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
        if (value < 0) return -1;
        found[at / 2] = (unsigned char)(at % 2 ? found[at / 2] | value : value << 4);
        any |= value;
    }
    return any != 0;
}

/* Read a `traceparent` of the usual form, whose trace is recorded. 1: read; 0: not such a one; -1: an exception. */
static int read_parent(PyObject *header, Caller *caller) {
    unsigned char trace[16], span[8], flags;
    const char *text = PyBytes_AS_STRING(header);
    if (PyBytes_GET_SIZE(header) != 55 || memcmp(text, "00-", 3) || text[35] != '-' || text[52] != '-' ||
        from_hex(text + 3, 16, trace) <= 0 || from_hex(text + 36, 8, span) <= 0 || from_hex(text + 53, 1, &flags) < 0 ||
        !(flags & 1))
        return 0;
    caller->trace_id = _PyLong_FromByteArray(trace, 16, 0, 0);
    caller->parent_id = _PyLong_FromByteArray(span, 8, 0, 0);
    caller->details = PyObject_CallNoArgs(known[DETAILS_TYPE]);
    int failed = !caller->trace_id || !caller->parent_id || !caller->details ||
                 PyObject_SetAttr(caller->details, name_remote, Py_True) < 0 ||
                 PyObject_SetAttr(caller->details, name_state, known[EMPTY_STATE]) < 0 ||
                 PyObject_SetAttr(caller->details, name_random, flags & 2 ? Py_True : Py_False) < 0;
    if (failed) drop_caller(caller);
    return failed ? -1 : 1;
}

/* Find the caller among the headers. 1: found, or there is none; 0: they say more than that; -1: an exception. */
static int find_caller(PyObject *headers, Caller *caller) {
    PyObject *parent = NULL;
    if (headers) {
        if (!PyList_CheckExact(headers) && !PyTuple_CheckExact(headers)) return 0;
        for (Py_ssize_t at = 0; at < PySequence_Fast_GET_SIZE(headers); at++) {
            PyObject *header = PySequence_Fast_GET_ITEM(headers, at);
            if ((!PyTuple_CheckExact(header) && !PyList_CheckExact(header)) || PySequence_Fast_GET_SIZE(header) != 2) return 0;
            PyObject *name = PySequence_Fast_GET_ITEM(header, 0), *value = PySequence_Fast_GET_ITEM(header, 1);
            if (!PyBytes_CheckExact(name) || !PyBytes_CheckExact(value)) return 0;
            const char *text = PyBytes_AS_STRING(name);
            switch (PyBytes_GET_SIZE(name)) {
            case 7:
                if (!memcmp(text, "baggage", 7)) return 0;
                break;
            case 10:
                if (!memcmp(text, "tracestate", 10)) return 0;
                break;
            case 11:
                if (!memcmp(text, "traceparent", 11)) {
                    if (parent) return 0;
                    parent = value;
                }
                break;
            case 13:
                if (!memcmp(text, "x-queue-start", 13)) return 0;
                break;
            case 15:
                if (!memcmp(text, "x-request-start", 15)) return 0;
                break;
            default:
                break;
            }
        }
    }
    if (parent) Py_INCREF(parent); /* what is called below may be any propagator's */
    PyObject *alone = PyObject_CallNoArgs(known[READS_W3C_ALONE]);
    int found = !alone ? -1 : alone == Py_True;
    Py_XDECREF(alone);
    if (found > 0 && parent) found = read_parent(parent, caller);
    Py_XDECREF(parent);
    return found;
}

/* --- what the request says of itself */

static int note_text(PyObject *attributes, PyObject *scope, PyObject *name, PyObject *key, const char *otherwise) {
    PyObject *value = PyDict_GetItemWithError(scope, name);
    if (!value && PyErr_Occurred()) return -1;
    if (value && !PyUnicode_CheckExact(value)) return 0;
    if (value) return PyDict_SetItem(attributes, key, value) < 0 ? -1 : 1;
    PyObject *text = PyUnicode_FromString(otherwise);
    int failed = !text || PyDict_SetItem(attributes, key, text) < 0;
    Py_XDECREF(text);
    return failed ? -1 : 1;
}

static int note_server(PyObject *attributes, PyObject *scope) {
    PyObject *server = PyDict_GetItemWithError(scope, name_server);
    if (!server || server == Py_None) return PyErr_Occurred() ? -1 : 1;
    if ((!PyTuple_CheckExact(server) && !PyList_CheckExact(server)) || PySequence_Fast_GET_SIZE(server) < 2) return 0;
    PyObject *host = PySequence_Fast_GET_ITEM(server, 0), *port = PySequence_Fast_GET_ITEM(server, 1);
    if (!PyUnicode_CheckExact(host) || (port != Py_None && !PyLong_CheckExact(port))) return 0;
    if (PyDict_SetItem(attributes, known[ADDRESS_KEY], host) < 0) return -1;
    return port != Py_None && PyDict_SetItem(attributes, known[PORT_KEY], port) < 0 ? -1 : 1;
}

/* The attributes of a request. NULL without an exception: one is of no usual type. */
static PyObject *said_by(PyObject *scope) {
    PyObject *attributes = PyDict_New();
    if (!attributes) return NULL;
    int done = note_text(attributes, scope, name_method, known[METHOD_KEY], "_OTHER");
    if (done > 0) done = note_text(attributes, scope, name_scheme, known[SCHEME_KEY], "http");
    if (done > 0) done = note_text(attributes, scope, name_path, known[PATH_KEY], "");
    if (done > 0) done = note_text(attributes, scope, name_version, known[VERSION_KEY], "");
    if (done > 0) done = note_server(attributes, scope);
    if (done <= 0) Py_CLEAR(attributes);
    return attributes;
}

/* --- its beginning */

/* Whether requests of a recorder are the usual ones now. */
static int are_usual(PyObject *recorder) {
    if (!recorder_is_usual(recorder)) return 0;
    PyObject *timings = SLOT(recorder, of_recorder[SERVER_TIMINGS]);
    return is_a(timings, known[TIMINGS_TYPE]) && is_a(SLOT(recorder, of_recorder[OPEN_REQUESTS]), known[OPEN_TYPE]) &&
           SLOT(SLOT(recorder, of_recorder[DETAIL]), of_detail[D_GAPS]) == Py_True && SLOT(timings, of_st[ST_ON_END]) == Py_None &&
           core_records_roots(SLOT(recorder, of_recorder[TRACER_OF_RECORDER]));
}

/* Whether nothing in the current context says more of the request. 1, 0 or -1 with an exception. */
static int is_new_here(void) {
    PyObject *here = core_current();
    if (!here) return -1;
    int found = !PyDict_Check(here);
    if (!found && PyDict_GET_SIZE(here))
        found = PyDict_Contains(here, core_span_key) || PyDict_Contains(here, known[SUPPRESSED_KEY]) || PyDict_Contains(here, known[SUPPRESS_KEY]);
    Py_DECREF(here);
    return PyErr_Occurred() ? -1 : !found;
}

/* Whether an application's layers were looked through, and contrib's middleware is none of them. */
static int has_own_layers(PyObject *application, PyObject *layers) {
    PyObject *seen = is_a(layers, known[LAYERS_TYPE]) ? SLOT(layers, of_layers[LAYERS_SEEN]) : NULL;
    if (!seen || !PyTuple_CheckExact(seen) || PyTuple_GET_SIZE(seen) != 2 || PyTuple_GET_ITEM(seen, 1) != Py_False) return 0;
    PyObject *stack = PyObject_GetAttr(application, name_stack);
    if (!stack) {
        PyErr_Clear();
        return PyTuple_GET_ITEM(seen, 0) == application;
    }
    Py_DECREF(stack);
    return stack != Py_None && PyTuple_GET_ITEM(seen, 0) == stack;
}

static PyObject *new_intervals(void) {
    PyObject *intervals = core_new(intervals_type);
    if (!intervals) return NULL;
    SLOT(intervals, of_intervals[I_STAGES]) = PyDict_New();
    SLOT(intervals, of_intervals[I_OPEN]) = PySet_New(NULL);
    if (!SLOT(intervals, of_intervals[I_STAGES]) || !SLOT(intervals, of_intervals[I_OPEN])) Py_CLEAR(intervals);
    return intervals;
}

static PyObject *new_timing(PyObject *recorder, PyObject *span) {
    PyObject *timing = core_new(timing_type);
    if (timing && timing_fill(timing, recorder, span) < 0) Py_CLEAR(timing);
    return timing;
}

static int count_request(PyObject *detail) {
    PyObject *before = SLOT(detail, of_detail[D_REQUESTS]);
    long long count = before ? PyLong_AsLongLong(before) : -1;
    PyObject *after = count < 0 ? NULL : PyLong_FromLongLong(count + 1);
    if (!after) return -1;
    core_set(detail, of_detail[D_REQUESTS], after);
    return 0;
}

/* A request whose span has begun, in the scope that says so. */
static PyObject *new_request(PyObject *recorder, PyObject *scope, PyObject *name, PyObject *span) {
    PyObject *request = core_new(known[REQUEST_TYPE]);
    if (!request) return NULL;
    SLOT(request, of_request[RECORDER]) = Py_NewRef(recorder);
    SLOT(request, of_request[SCOPE]) = Py_NewRef(scope);
    SLOT(request, of_request[R_NAME]) = Py_NewRef(name);
    SLOT(request, of_request[R_DETAIL]) = Py_NewRef(known[FULL]);
    SLOT(request, of_request[IS_SPARED]) = Py_NewRef(Py_False);
    SLOT(request, of_request[LACKS]) = Py_NewRef(Py_None);
    SLOT(request, of_request[R_TOKEN]) = Py_NewRef(Py_None);
    SLOT(request, of_request[CARRIED]) = Py_NewRef(Py_None);
    SLOT(request, of_request[R_STAGES]) = Py_NewRef(Py_None);
    SLOT(request, of_request[HAS_ENDED]) = Py_NewRef(Py_False);
    SLOT(request, of_request[MADE]) = Py_NewRef(Py_None);
    SLOT(request, of_request[BODY_WANTED]) = Py_NewRef(Py_True);
    SLOT(request, of_request[ANSWERED]) = Py_NewRef(Py_False);
    SLOT(request, of_request[HAS_GONE]) = Py_NewRef(Py_False);
    SLOT(request, of_request[IN_ONE_PIECE]) = Py_NewRef(Py_False);
    int failed = !(SLOT(request, of_request[TIMING]) = new_timing(recorder, span));
    failed = failed || !(SLOT(request, of_request[R_INTERVALS]) = new_intervals());
    failed = failed || !(SLOT(request, of_request[NOTED]) = PyDict_New());
    PyObject *started = failed ? zero : SLOT(SLOT(request, of_request[TIMING]), of_timing[T_STARTED_NS]);
    failed = failed || !(SLOT(request, of_request[R_GAPS]) = new_gaps(SLOT(recorder, of_recorder[OPEN_REQUESTS]), request, started));
    failed = failed || PyDict_SetItem(scope, known[TIMED_KEY], Py_True) < 0;
    failed = failed || count_request(SLOT(recorder, of_recorder[DETAIL])) < 0;
    failed = failed || take_up(SLOT(recorder, of_recorder[OPEN_REQUESTS]), SLOT(request, of_request[R_GAPS])) < 0;
    if (failed) Py_CLEAR(request);
    return request;
}

/* Whether a request came some time ago, as its server noted: Python's form says for what it waited. */
static int has_waited(PyObject *scope) {
    PyObject *arrived = PyDict_GetItemWithError(scope, known[ARRIVED_KEY]);
    int overflow;
    return arrived && PyLong_CheckExact(arrived) &&
           core_monotonic_ns() - PyLong_AsLongLongAndOverflow(arrived, &overflow) >= NOTICED_NS;
}

/* Begin the usual request. NULL, perhaps with an exception: Python's form is to. */
static PyObject *begun(PyObject *recorder, PyObject *application, PyObject *scope, PyObject *layers) {
    if (!known[REQUEST_TYPE] || !PyDict_CheckExact(scope) || !are_usual(recorder)) return NULL;
    PyObject *type = PyDict_GetItemWithError(scope, name_type), *name = PyDict_GetItemWithError(scope, name_method);
    if (!type || !PyUnicode_Check(type) || PyUnicode_CompareWithASCIIString(type, "http")) return NULL;
    if (!name || !PyUnicode_CheckExact(name) || is_new_here() <= 0 || !has_own_layers(application, layers)) return NULL;
    PyObject *headers = PyDict_GetItemWithError(scope, name_headers), *request = NULL;
    if (has_waited(scope)) return NULL;
    Caller caller = {NULL, NULL, NULL};
    if (PyErr_Occurred() || find_caller(headers, &caller) <= 0) return NULL;
    PyObject *attributes = said_by(scope);
    PyObject *span = attributes ? core_span_of(SLOT(recorder, of_recorder[TRACER_OF_RECORDER]), name, SERVER_KIND, attributes, caller.trace_id,
                                               caller.parent_id, caller.details, 0)
                                : NULL;
    if (span) request = new_request(recorder, scope, name, span);
    Py_XDECREF(span);
    Py_XDECREF(attributes);
    drop_caller(&caller);
    return request;
}

/* `_begun(recorder, application, scope, layers)` */
static PyObject *begin(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    if (PyVectorcall_NARGS(count) == 4 && !names) {
        PyObject *request = begun(args[0], args[1], args[2], args[3]);
        if (request) return request;
        PyErr_Clear(); /* of a fault of ours: Python's form has what to do about one */
    }
    return core_original(callable, args, count, names);
}

/* --- what is current in it */

static PyObject *told_of(PyObject *request, PyObject *span) {
    PyObject *here = core_current(), *entries = here && PyDict_Check(here) ? core_context_with(here, span) : NULL;
    Py_XDECREF(here);
    if (entries && (PyDict_SetItem(entries, known[GAPS_KEY], SLOT(request, of_request[R_GAPS])) < 0 ||
                    PyDict_SetItem(entries, known[REQUEST_KEY], request) < 0 ||
                    PyDict_SetItem(entries, known[ANSWER_KEY], request) < 0))
        Py_CLEAR(entries);
    return entries;
}

int core_is_request(PyObject *request) {
    if (!is_a(request, known[REQUEST_TYPE])) return 0;
    for (int at = 0; at < REQUEST_SLOTS; at++)
        if (!SLOT(request, of_request[at])) return 0;
    return is_a(SLOT(request, of_request[TIMING]), timing_type) && is_a(SLOT(request, of_request[R_INTERVALS]), intervals_type) &&
           is_a(SLOT(request, of_request[RECORDER]), recorder_type);
}

/* `RequestTiming.activate(self)` */
static PyObject *activate(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *request = PyVectorcall_NARGS(count) ? args[0] : NULL;
    if (PyVectorcall_NARGS(count) != 1 || names || !core_is_request(request) || SLOT(request, of_request[IS_SPARED]) != Py_False ||
        SLOT(request, of_request[CARRIED]) != Py_None)
        return core_original(callable, args, count, names);
    PyObject *span = SLOT(SLOT(request, of_request[TIMING]), of_timing[T_SPAN]);
    PyObject *entries = span ? told_of(request, span) : NULL, *token = entries ? core_enter(entries) : NULL;
    Py_XDECREF(entries);
    if (!token) {
        PyErr_Clear();
        return core_original(callable, args, count, names);
    }
    core_set(request, of_request[R_TOKEN], token);
    Py_RETURN_NONE;
}

/* `RequestTiming.deactivate(self)` */
static PyObject *deactivate(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *request = PyVectorcall_NARGS(count) ? args[0] : NULL;
    if (PyVectorcall_NARGS(count) != 1 || names || !core_is_request(request)) return core_original(callable, args, count, names);
    PyObject *token = SLOT(request, of_request[R_TOKEN]);
    if (token == Py_None) Py_RETURN_NONE;
    Py_INCREF(token);
    core_set_new(request, of_request[R_TOKEN], Py_None);
    int left = core_leave(token);
    Py_DECREF(token);
    if (left < 0 && core_fault(core_fault_handler_of(request), "leaving a request") < 0) return NULL;
    Py_RETURN_NONE;
}

/* --- its answer */

PyObject *core_fault_handler_of(PyObject *request) { return SLOT(SLOT(request, of_request[RECORDER]), of_recorder[ON_FAULT]); }

PyObject *core_answer_of(PyObject *request) { return SLOT(request, of_request[MADE]); }

PyObject **core_place_of_answer(PyObject *request) { return &SLOT(request, of_request[MADE]); }

/* The list of a request's sends, borrowed. NULL: an exception is set. */
static PyObject *sends_of(PyObject *request) {
    PyObject *stages = SLOT(SLOT(request, of_request[R_INTERVALS]), of_intervals[I_STAGES]);
    PyObject *times = stages && PyDict_CheckExact(stages) ? PyDict_GetItemWithError(stages, known[RESPOND]) : NULL;
    if (times || PyErr_Occurred()) return times;
    PyObject *made = PyList_New(0);
    int failed = !made || !stages || PyDict_SetItem(stages, known[RESPOND], made) < 0;
    Py_XDECREF(made); /* the stages hold it */
    return failed ? NULL : made;
}

int core_respond(PyObject *request, int64_t started_ns, int64_t sent_ns) {
    PyObject *intervals = SLOT(request, of_request[R_INTERVALS]), *open = SLOT(intervals, of_intervals[I_OPEN]);
    if (!open || (PySet_Size(open) && PySet_Discard(open, known[RESPOND]) < 0)) return -1;
    PyObject *times = sends_of(request);
    if (!times) return -1;
    if (!PyList_CheckExact(times) || PyList_GET_SIZE(times) + 2 >= HELD) { /* neighbours are to be merged */
        PyObject *done = PyObject_CallMethod(intervals, "add", "OLL", known[RESPOND], (long long)started_ns, (long long)sent_ns);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    return append_time(times, started_ns) < 0 || append_time(times, sent_ns) < 0 ? -1 : 0;
}

static int is_named(PyObject *name, const char *lower, Py_ssize_t length) {
    if (PyBytes_GET_SIZE(name) != length) return 0;
    const char *text = PyBytes_AS_STRING(name);
    for (Py_ssize_t at = 0; at < length; at++)
        if ((text[at] >= 'A' && text[at] <= 'Z' ? text[at] | 0x20 : text[at]) != lower[at]) return 0;
    return 1;
}

/* What the headers say of the answer's form: 1, it comes in one piece; 2, it is streamed, of a content type or NULL;
 * 0: Python's form is to tell. */
static int form_in(PyObject *headers, PyObject **content_type) {
    *content_type = NULL;
    if (!headers || (!PyList_CheckExact(headers) && !PyTuple_CheckExact(headers))) return 0;
    for (Py_ssize_t at = 0; at < PySequence_Fast_GET_SIZE(headers); at++) {
        PyObject *header = PySequence_Fast_GET_ITEM(headers, at);
        if ((!PyTuple_CheckExact(header) && !PyList_CheckExact(header)) || PySequence_Fast_GET_SIZE(header) != 2) return 0;
        PyObject *name = PySequence_Fast_GET_ITEM(header, 0), *value = PySequence_Fast_GET_ITEM(header, 1);
        if (!PyBytes_CheckExact(name) || !PyBytes_CheckExact(value) || is_named(name, "content-encoding", 16)) return 0;
        if (is_named(name, "content-length", 14)) return 1;
        if (is_named(name, "content-type", 12)) *content_type = value;
    }
    return 2;
}

/* Make the answer that begins to be streamed. -1 with an exception. */
static int stream_begins(PyObject *request, PyObject *content_type) {
    PyObject *sends = sends_of(request), *form = content_type ? Py_NewRef(content_type) : PyBytes_FromString("");
    PyObject *answer = sends && PyList_CheckExact(sends) && form ? core_new_answer(form, sends) : NULL;
    Py_XDECREF(form);
    if (!answer) return -1;
    core_set(request, of_request[MADE], answer);
    return 0;
}

int core_answer_begins(PyObject *request, PyObject *message) {
    PyObject *status = PyDict_GetItemWithError(message, name_status), *content_type;
    if (!status || !PyLong_CheckExact(status) || core_answer_of(request) != Py_None) return PyErr_Occurred() ? -1 : 0;
    int overflow;
    long code = PyLong_AsLongAndOverflow(status, &overflow);
    int form = overflow || code >= FIRST_SERVER_ERROR ? 0 : form_in(PyDict_GetItemWithError(message, name_headers), &content_type);
    if (!form) return PyErr_Occurred() ? -1 : 0;
    PyObject *noted = SLOT(request, of_request[NOTED]);
    if (!PyDict_CheckExact(noted) || PyDict_SetItem(noted, known[STATUS_KEY], status) < 0) return -1;
    if (form == 2 && stream_begins(request, content_type) < 0) return -1;
    core_set_new(request, of_request[BODY_WANTED], Py_False);
    core_set_new(request, of_request[IN_ONE_PIECE], form == 1 ? Py_True : Py_False);
    return 1;
}

/* --- its end */

/* The template of the route that matched, as a new reference. NULL, perhaps with an exception: there is none in its
 * usual form, or a mount was passed. */
static PyObject *route_in(PyObject *scope) {
    PyObject *route = PyDict_GetItemWithError(scope, name_route), *fastapi = PyDict_GetItemWithError(scope, name_fastapi);
    int is_mounted = PyDict_Contains(scope, name_app_root);
    if (PyErr_Occurred() || is_mounted || !route || route == Py_None) return NULL;
    Py_INCREF(route);
    PyObject *effective = fastapi && PyDict_CheckExact(fastapi) ? PyDict_GetItemWithError(fastapi, name_effective) : NULL;
    if (effective && effective != Py_None) { /* of a route that an included router brought */
        Py_INCREF(effective);
        PyObject *original = PyObject_GetAttr(effective, name_original_route);
        if (original == route) Py_SETREF(route, Py_NewRef(effective));
        Py_DECREF(effective);
        Py_XDECREF(original);
        if (!original) {
            Py_DECREF(route);
            return NULL;
        }
    }
    PyObject *path = PyObject_GetAttr(route, name_path_format);
    Py_DECREF(route);
    if (path && (!PyUnicode_CheckExact(path) || !PyUnicode_GET_LENGTH(path))) Py_CLEAR(path);
    return path;
}

/* `describe_answer` of a stream all of whose parts were read as they left. 1: done; 0: Python's form is to. */
static int describe_stream(PyObject *request, PyObject *detail, PyObject *timing, PyObject *span) {
    PyObject *answer = core_answer_of(request), *intervals = SLOT(request, of_request[R_INTERVALS]), *stage, *times;
    PyObject *before = SLOT(detail, of_detail[D_CHUNKS]), *noted = SLOT(intervals, of_intervals[I_STAGES]);
    Py_ssize_t kept = core_kept_chunks(answer), at = 0, count = 0;
    if (kept < 0 || !noted || !PyDict_CheckExact(noted) || !before || !PyLong_CheckExact(before) ||
        SLOT(detail, of_detail[D_INTERVALS]) != Py_True || !core_has_room(span, MOST_DEFERRED))
        return 0;
    while (PyDict_Next(noted, &at, &stage, &times)) {
        if (!PyList_CheckExact(times)) return 0;
        count += PyList_GET_SIZE(times);
    }
    PyObject *stages = core_taken_stages(intervals), *streamed = stages ? core_new(known[STREAMED_TYPE]) : NULL;
    PyObject *chunks = PyLong_FromLongLong(PyLong_AsLongLong(before) + kept + 2);
    int done = -1;
    if (streamed && chunks) {
        SLOT(streamed, of_streamed[ANSWER]) = Py_NewRef(answer);
        SLOT(streamed, of_streamed[START_NS]) = Py_NewRef(SLOT(timing, of_timing[T_STARTED_NS]));
        SLOT(streamed, of_streamed[STREAM_STAGES]) = Py_NewRef(stages);
        core_set_new(detail, of_detail[D_CHUNKS], chunks);
        done = core_defer(span, known[TIMES_KEY], streamed, (2 * kept + count) * TIME_BYTES);
        if (done > 0) core_answer_rests(streamed);
    }
    Py_XDECREF(stages);
    Py_XDECREF(streamed);
    Py_XDECREF(chunks);
    return done;
}

/* Note what the kernel tells of its threads, where it took long, as `RuntimeGaps.described` does. -1 with an exception. */
static int note_kernel(PyObject *gaps, PyObject *timing, PyObject *noted) {
    long long started_ns = PyLong_AsLongLong(SLOT(timing, of_timing[T_STARTED_NS]));
    if (started_ns == -1 && PyErr_Occurred()) return -1;
    if (core_monotonic_ns() - started_ns < NOTICED_NS) return 0;
    PyObject *found = PyObject_CallMethodOneArg(gaps, name_kernel_reports, SLOT(timing, of_timing[T_STARTED_NS]));
    int failed = !found || PyDict_Update(noted, found) < 0;
    Py_XDECREF(found);
    return failed ? -1 : 0;
}

/* Note what is known of a request only at its end. 1: done; 0: Python's form is to; -1: an exception. */
static int described(PyObject *request) {
    PyObject *gaps = SLOT(request, of_request[R_GAPS]), *noted = SLOT(request, of_request[NOTED]),
             *detail = SLOT(SLOT(request, of_request[RECORDER]), of_recorder[DETAIL]), *timing = SLOT(request, of_request[TIMING]);
    PyObject *span = SLOT(timing, of_timing[T_SPAN]), *scope = SLOT(request, of_request[SCOPE]);
    if (SLOT(request, of_request[LACKS]) != Py_None || !is_a(gaps, known[GAPS_TYPE]) ||
        !is_a(detail, detail_type) || SLOT(detail, of_detail[D_LACKS]) != Py_None || !PyDict_CheckExact(noted) ||
        !PyDict_CheckExact(scope))
        return 0;
    if (!PyUnicode_Check(SLOT(request, of_request[R_NAME]))) return 0;
    PyObject *own = SLOT(gaps, of_gaps[OWN_GAPS]), *more = SLOT(gaps, of_gaps[NOTED_GAPS]),
             *concurrency = SLOT(gaps, of_gaps[CONCURRENCY]), *depth = SLOT(gaps, of_gaps[QUEUE_DEPTH]);
    if (!own || !more || !concurrency || !depth || PyList_GET_SIZE(own) || PyDict_GET_SIZE(more) || SLOT(gaps, of_gaps[UNFINISHED]) != Py_None) return 0;
    int is_known = PyDict_Contains(noted, known[ROUTE_KEY]); /* by what an application within found */
    PyObject *route = is_known ? NULL : route_in(scope);
    if (!route) {
        PyErr_Clear();
        return 0;
    }
    PyObject *name = PyUnicode_FromFormat("%U %U", SLOT(request, of_request[R_NAME]), route);
    int failed = !name || PyDict_SetItem(noted, known[ROUTE_KEY], route) < 0 ||
                 PyDict_SetItem(noted, known[CONCURRENCY_KEY], concurrency) < 0 ||
                 (depth != Py_None && PyDict_SetItem(noted, known[DEPTH_KEY], depth) < 0) ||
                 note_kernel(gaps, timing, noted) < 0;
    Py_DECREF(route);
    if (!failed && core_answer_of(request) != Py_None) {
        core_rename_span(span, name);
        int done = describe_stream(request, detail, timing, span);
        failed = done < 0 || (!done && core_ask(request, name_describe_answer, NULL) < 0);
    } else if (!failed) {
        core_rename_span(span, name);
        int wanted = SLOT(detail, of_detail[D_INTERVALS]) == Py_True;
        core_set_new(timing, of_timing[T_INTERVALS], wanted ? SLOT(request, of_request[R_INTERVALS]) : Py_None);
    }
    Py_XDECREF(name);
    return failed ? -1 : 1;
}

static int ended(PyObject *request) {
    if (SLOT(request, of_request[HAS_ENDED]) == Py_True) return 0;
    core_set_new(request, of_request[HAS_ENDED], Py_True);
    PyObject *timing = SLOT(request, of_request[TIMING]), *span = SLOT(timing, of_timing[T_SPAN]);
    PyObject *requests = SLOT(SLOT(request, of_request[RECORDER]), of_recorder[OPEN_REQUESTS]);
    if (let_go(requests, SLOT(request, of_request[R_GAPS])) < 0) return -1;
    core_set_new(requests, of_open[LAST_SERVED], span);
    if (core_has_ended(span)) return 0;
    int done = described(request);
    if (done < 0 || (!done && core_ask(request, name_describe, NULL) < 0)) return -1;
    PyObject *noted = SLOT(request, of_request[NOTED]);
    done = PyDict_CheckExact(noted) ? core_note(span, noted) : 0;
    if (done < 0 || (!done && core_ask(timing, name_note, noted) < 0)) return -1;
    done = timing_end(timing, 0);
    return done ? done : core_ask(timing, name_end, NULL);
}

/* Whether the C form may end a request. */
static int ends_usually(PyObject *request) {
    if (!core_is_request(request) || SLOT(request, of_request[R_STAGES]) != Py_None || SLOT(request, of_request[IS_SPARED]) != Py_False)
        return 0;
    PyObject *timing = SLOT(request, of_request[TIMING]), *span = SLOT(timing, of_timing[T_SPAN]);
    return span && Py_IS_TYPE(span, (PyTypeObject *)core_span_type) && core_is_span(span) && core_is_tracer(core_tracer_of(span)) &&
           SLOT(timing, of_timing[T_PENDING]) && SLOT(timing, of_timing[T_INTERVALS]) && SLOT(timing, of_timing[T_STARTED_NS]) &&
           is_a(SLOT(SLOT(request, of_request[RECORDER]), of_recorder[OPEN_REQUESTS]), known[OPEN_TYPE]);
}

int core_times_sends(PyObject *request) {
    return SLOT(request, of_request[R_STAGES]) == Py_None && SLOT(request, of_request[IS_SPARED]) == Py_False;
}

int core_answer_ends(PyObject *request) {
    if (!ends_usually(request)) return 0;
    core_set_new(request, of_request[ANSWERED], Py_True);
    return ended(request) < 0 && core_fault(core_fault_handler_of(request), "ending a request") < 0 ? -1 : 1;
}

/* `RequestTiming.end(self)` */
static PyObject *end(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    if (PyVectorcall_NARGS(count) != 1 || names || !ends_usually(args[0])) return core_original(callable, args, count, names);
    if (ended(args[0]) < 0 && core_fault(core_fault_handler_of(args[0]), "ending a request") < 0) return NULL;
    Py_RETURN_NONE;
}

/* --- setting up */

CORE_METHOD(begin, 0)
CORE_METHOD(activate, 0)
CORE_METHOD(deactivate, 0)
CORE_METHOD(end, 0)

static PyObject *bind_requests(PyObject *Py_UNUSED(module), PyObject *names) {
    if (!PyDict_CheckExact(names)) {
        PyErr_SetString(PyExc_TypeError, "what requests are made of comes as a dict");
        return NULL;
    }
    PyObject *found[KNOWN];
    for (int at = 0; at < KNOWN; at++)
        if (!(found[at] = PyDict_GetItemString(names, known_names[at]))) {
            PyErr_SetString(PyExc_KeyError, known_names[at]);
            return NULL;
        }
    if (core_offsets(found[REQUEST_TYPE], request_names, of_request) < 0 || core_offsets(found[GAPS_TYPE], gaps_names, of_gaps) < 0 ||
        core_offsets(found[OPEN_TYPE], open_names, of_open) < 0 ||
        core_offsets(found[PROCESSOR_TYPE], processor_names, of_processor) < 0 || core_offsets(found[LAYERS_TYPE], layers_names, of_layers) < 0 ||
        core_offsets(found[TIMINGS_TYPE], st_names, of_st) < 0 || core_offsets(found[STREAMED_TYPE], streamed_names, of_streamed) < 0)
        return NULL;
    for (int at = 0; at < KNOWN; at++) Py_XSETREF(known[at], Py_NewRef(found[at]));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind_requests", bind_requests, METH_O, "Take the classes that requests are made of, and the keys of what they note."},
    {"begin_request", begin_for, METH_VARARGS, "Return what stands in the place of the ASGI hook's `_begun`."},
    {"activate_request", activate_for, METH_VARARGS, "Likewise, of `RequestTiming.activate`."},
    {"deactivate_request", deactivate_for, METH_VARARGS, "Likewise, of `RequestTiming.deactivate`."},
    {"end_request", end_for, METH_VARARGS, "Likewise, of `RequestTiming.end`."},
    {NULL, NULL, 0, NULL}};

int requests_ready(PyObject *module) {
    static struct { PyObject **place; const char *text; } const texts[] = {
        {&name_acquire, "acquire"}, {&name_release, "release"}, {&name_stack, "middleware_stack"}, 
        {&name_describe, "describe"}, {&name_describe_answer, "describe_answer"}, {&name_end, "end"}, {&name_add, "add"}, {&name_headers, "headers"},
        {&name_type, "type"}, {&name_method, "method"}, {&name_scheme, "scheme"}, {&name_path, "path"}, {&name_version, "http_version"},
        {&name_server, "server"}, {&name_status, "status"}, {&name_route, "route"}, {&name_fastapi, "fastapi"},
        {&name_effective, "effective_route_context"}, {&name_original_route, "original_route"}, {&name_path_format, "path_format"},
        {&name_app_root, "app_root_path"}, {&name_remote, "remote_parent"}, {&name_state, "trace_state"},
        {&name_random, "random_id"}, {&name_note, "note"}, {&name_follow, "follow"}, {&name_kernel_reports, "kernel_reports"}};
    for (size_t at = 0; at < sizeof texts / sizeof *texts; at++)
        if (!(*texts[at].place = PyUnicode_InternFromString(texts[at].text))) return -1;
    if (!(zero = PyLong_FromLong(0))) return -1;
    return PyModule_AddFunctions(module, functions);
}
