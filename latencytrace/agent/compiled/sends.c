/* The sends of an answer, each timed while it is awaited: `RequestTiming._timed`. A chunk of a stream costs
 * its two times and a look at where its output lies; what is no usual message is left to `has_sent`. */
#include "recorder.h"

enum { A_CARRIED, A_CHUNKS, A_EAGER, A_EVENTS, A_FIRST_KNOWN, A_FIRST_READ, A_FOLD_AT, A_HELD, A_KNOWN, A_OPEN, A_PLAIN_OVER, ANSWER_SLOTS };
static const char *const answer_names[] = {
    "carried", "chunks", "eager", "_events", "_first_known", "_first_read", "_fold_at", "held", "known", "_open", "_plain_over", NULL};
static Py_ssize_t of_answer[ANSWER_SLOTS];

enum { E_BEGINS, E_KEY, E_KEY_AT, EVENTS_SLOTS };
static const char *const events_names[] = {"begins", "key", "key_at", NULL};
static Py_ssize_t of_events[EVENTS_SLOTS];

static PyObject *answer_type, *one;
static Py_ssize_t most_held, held_bytes, most_chunks;
static PyObject *name_type, *name_catch_up, *name_has_sent, *name_has_failed, *name_has_left, *name_throw, *name_close;

/* What every chunk is held against, side by side: between two chunks the kernel sends one, and leaves little of the
 * caches. Objects of the interpreter are named here too, each of which is else looked up in a table of its own. */
static struct {
    PyObject *name_body, *name_more, *zero, *yes, *no, *none;
    PyTypeObject *bytes_type, *dict_type, *coroutine_type, *events_type;
    sendfunc go_on; /* of a coroutine */
    int most_times, held, known, carried, eager, events; /* the last five: places in an answer */
} usual __attribute__((aligned(64)));
#define USUAL(answer, place) SLOT(answer, usual.place)

/* --- the chunks of one answer that have left, as two times each */


typedef struct {
    PyObject_HEAD
    int64_t *times; /* handed over, left, handed over, left … */
    Py_ssize_t count, room;
} Chunks;

/* Where a stream's events have their output, as numbers, read off `AnswerEvents`; all NULL: nothing was read. */
typedef struct {
    PyObject *begins, *key, *key_at; /* its values, which are replaced, never changed */
    Py_ssize_t until, from;          /* as numbers; `until` 0: no chunk is alike */
} OutputPlace;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    struct sending *spare; /* one that is over, to be used again */
    PyObject **made;       /* the place of the request's answer */
    PyObject *answer;      /* the request's, once a chunk has left; NULL: not yet */
    PyObject *function, *bound_to; /* of a method that sends; NULL: it is none */
    Chunks *chunks;
    OutputPlace place;
    Py_ssize_t parts_at; /* where the last message had its parts */
    PyObject *request, *send, *weakrefs;
} Sends;

typedef struct sending {
    PyObject_HEAD
    Sends *sends;
    PyObject *message;
    PyObject *inner; /* what is awaited; NULL: not yet, or no longer */
    PyObject *known; /* tokens made when the message was handed over; NULL: none */
    int64_t started_ns;
    char state; /* 0: not begun, 1: under way, 2: over */
    char runs;  /* it is on the stack */
    char waits; /* it has waited, so that the collector knows of it */
    PyObject *weakrefs;
} Sending;

static PyTypeObject ChunksType, SendsType, SendingType;

static int chunks_add(Chunks *chunks, int64_t started_ns, int64_t sent_ns);

/* Keep a chunk that there is room for. */
static inline void chunks_put(Chunks *chunks, int64_t started_ns, int64_t sent_ns) {
    chunks->times[chunks->count++] = started_ns;
    chunks->times[chunks->count++] = sent_ns;
}

/* `drain(sends, times)`: move what is here to the ends of two lists. */
static PyObject *chunks_drain(PyObject *object, PyObject *args) {
    Chunks *self = (Chunks *)object;
    PyObject *sends, *times;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &sends, &PyList_Type, &times)) return NULL;
    Py_ssize_t count = self->count;
    self->count = 0;
    for (Py_ssize_t at = 0; at < count; at += 2)
        if (append_time(sends, self->times[at]) < 0 || append_time(sends, self->times[at + 1]) < 0 ||
            PyList_Append(times, PyList_GET_ITEM(sends, PyList_GET_SIZE(sends) - 1)) < 0)
            return NULL;
    Py_RETURN_NONE;
}

/* `add(started_ns, sent_ns)`, as a chunk that has left does. */
static PyObject *chunks_add_method(PyObject *self, PyObject *args) {
    long long started_ns, sent_ns;
    if (!PyArg_ParseTuple(args, "LL", &started_ns, &sent_ns) || chunks_add((Chunks *)self, started_ns, sent_ns) < 0) return NULL;
    Py_RETURN_NONE;
}

/* `first_ns()`: when the first had left; None: there is none. */
static PyObject *chunks_first_ns(PyObject *object, PyObject *Py_UNUSED(ignored)) {
    Chunks *self = (Chunks *)object;
    return self->count ? PyLong_FromLongLong(self->times[1]) : Py_NewRef(Py_None);
}

static Py_ssize_t chunks_length(PyObject *self) { return ((Chunks *)self)->count / 2; }

static void chunks_dealloc(Chunks *self) {
    PyMem_Free(self->times);
    PyObject_Free(self);
}

const int64_t *core_chunks(PyObject *chunks, Py_ssize_t *count) {
    if (!Py_IS_TYPE(chunks, &ChunksType)) return NULL;
    *count = ((Chunks *)chunks)->count;
    return ((Chunks *)chunks)->times;
}

static Chunks *new_chunks(void) {
    Chunks *chunks = PyObject_New(Chunks, &ChunksType);
    if (!chunks) return NULL;
    chunks->count = 0;
    chunks->room = 64;
    chunks->times = PyMem_Malloc((size_t)chunks->room * sizeof *chunks->times);
    if (!chunks->times) {
        Py_DECREF(chunks);
        PyErr_NoMemory();
        return NULL;
    }
    return chunks;
}

static int chunks_add(Chunks *chunks, int64_t started_ns, int64_t sent_ns) {
    if (chunks->count + 2 > chunks->room) {
        int64_t *times = PyMem_Realloc(chunks->times, (size_t)chunks->room * 2 * sizeof *times);
        if (!times) {
            PyErr_NoMemory();
            return -1;
        }
        chunks->times = times;
        chunks->room *= 2;
    }
    chunks_put(chunks, started_ns, sent_ns);
    return 0;
}

/* --- what is noted of a message that has left */

static int64_t number_of(PyObject *number, int64_t otherwise) {
    int overflow = 1;
    if (number == usual.zero) return 0;
    int64_t found = number && PyLong_CheckExact(number) ? PyLong_AsLongLongAndOverflow(number, &overflow) : otherwise;
    return overflow ? otherwise : found;
}

static void forget(OutputPlace *place) {
    Py_CLEAR(place->begins);
    Py_CLEAR(place->key);
    Py_CLEAR(place->key_at);
    place->until = 0;
}

static APART void read_place(OutputPlace *place, PyObject *begins, PyObject *key, PyObject *key_at) {
    Py_ssize_t until = (Py_ssize_t)number_of(begins, 0), from = (Py_ssize_t)number_of(key_at, -1);
    int is_known = until > 0 && from >= 0 && key && PyBytes_CheckExact(key) && PyBytes_GET_SIZE(key) == until - from;
    forget(place);
    place->begins = Py_XNewRef(begins);
    place->key = Py_XNewRef(key);
    place->key_at = Py_XNewRef(key_at);
    place->until = is_known ? until : 0;
    place->from = from;
}

/* Whether so many bytes are the same; most keys are compared at one go, as two numbers that overlap. */
static inline int are_same(const char *some, const char *others, Py_ssize_t count) {
    uint64_t first[2], last[2];
    if (!USUALLY(count >= 8 && count <= 16)) return !memcmp(some, others, (size_t)count);
    memcpy(&first[0], some, 8);
    memcpy(&first[1], others, 8);
    memcpy(&last[0], some + count - 8, 8);
    memcpy(&last[1], others + count - 8, 8);
    return first[0] == first[1] && last[0] == last[1];
}

/* Whether a chunk is one event, with output where this stream's events have it. */
static inline int is_alike(OutputPlace *place, PyObject *events, PyObject *body) {
    if (!USUALLY(Py_IS_TYPE(events, usual.events_type))) return 0;
    PyObject *begins = SLOT(events, of_events[E_BEGINS]), *key = SLOT(events, of_events[E_KEY]), *key_at = SLOT(events, of_events[E_KEY_AT]);
    if (!USUALLY(begins == place->begins && key == place->key && key_at == place->key_at)) read_place(place, begins, key, key_at);
    Py_ssize_t length = PyBytes_GET_SIZE(body), until = place->until;
    if (!USUALLY(until && length > until && length < 2 * until)) return 0;
    const char *text = PyBytes_AS_STRING(body);
    return text[until] != '"' && are_same(text + place->from, PyBytes_AS_STRING(key), until - place->from);
}

static int catch_up(PyObject *answer) {
    PyObject *done = PyObject_CallMethodNoArgs(answer, name_catch_up);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Keep a chunk until many are read together, or now. -1 with an exception. */
static int hold(PyObject *answer, PyObject *body, PyObject *known, int64_t started_ns, int64_t sent_ns) {
    PyObject *held = SLOT(answer, of_answer[A_HELD]);
    if (append_time(held, started_ns) < 0 || append_time(held, sent_ns) < 0 || PyList_Append(held, known) < 0 ||
        PyList_Append(held, body) < 0)
        return -1;
    if (SLOT(answer, of_answer[A_EAGER]) != Py_True && PyList_GET_SIZE(held) < most_held && PyBytes_GET_SIZE(body) <= held_bytes)
        return 0;
    return catch_up(answer);
}

/* Learn from one of the first events with output. 1: that is what the chunk is; 0: Python's form is to read it. */
static int learned_from(PyObject *answer, PyObject *body, PyObject *known) {
    PyObject *events = SLOT(answer, of_answer[A_EVENTS]);
    int is_first = SLOT(answer, of_answer[A_FIRST_READ]) == usual.zero;
    if (SLOT(answer, of_answer[A_OPEN]) != Py_True || PyBytes_GET_SIZE(body) > held_bytes) return 0;
    int learned = core_event_learned(events, body);
    if (learned <= 0 || !is_first) return learned;
    core_set_new(answer, of_answer[A_FIRST_KNOWN], known);
    core_set_new(answer, of_answer[A_FIRST_READ], one);
    return 1;
}

/* Note a chunk of a stream. -1 with an exception. */
static int chunk_left(Sends *sends, PyObject *body, PyObject *known, int64_t started_ns, int64_t sent_ns) {
    PyObject *answer = sends->answer;
    Chunks *chunks = sends->chunks;
    if (PyList_GET_SIZE(SLOT(answer, of_answer[A_HELD]))) return hold(answer, body, known, started_ns, sent_ns);
    int is_plain = 0;
    if (known != usual.zero && PyBytes_GET_SIZE(body)) {
        int64_t tokens = number_of(known, 0);
        is_plain = tokens > number_of(SLOT(answer, of_answer[A_PLAIN_OVER]), INT64_MAX);
        if (is_plain && tokens >= number_of(SLOT(answer, of_answer[A_FOLD_AT]), 0)) return hold(answer, body, known, started_ns, sent_ns);
    }
    if (!is_plain && !is_alike(&sends->place, SLOT(answer, of_answer[A_EVENTS]), body)) {
        int learned = learned_from(answer, body, known);
        if (learned <= 0) return learned < 0 ? -1 : hold(answer, body, known, started_ns, sent_ns);
    }
    if (chunks_add(chunks, started_ns, sent_ns) < 0) return -1;
    int place = is_plain ? A_PLAIN_OVER : A_CARRIED;
    if (SLOT(answer, of_answer[place]) != known) core_set_new(answer, of_answer[place], known);
    /* What models make meanwhile is noted by them until a token of theirs has left. */
    PyObject *made = SLOT(answer, of_answer[A_KNOWN]), *carried = SLOT(answer, of_answer[A_CARRIED]);
    int eager = made != usual.zero && carried == usual.zero && SLOT(answer, of_answer[A_OPEN]) == Py_True;
    if (SLOT(answer, of_answer[A_EAGER]) != (eager ? Py_True : Py_False)) core_set_new(answer, of_answer[A_EAGER], eager ? Py_True : Py_False);
    return chunks->count < 2 * most_chunks ? 0 : catch_up(answer);
}

static APART int is_answer(PyObject *answer) {
    if (!answer_type || !Py_IS_TYPE(answer, (PyTypeObject *)answer_type)) return 0;
    for (int at = 0; at < ANSWER_SLOTS; at++)
        if (!SLOT(answer, of_answer[at])) return 0;
    return PyList_CheckExact(SLOT(answer, of_answer[A_HELD]));
}

Py_ssize_t core_kept_chunks(PyObject *answer) {
    if (!is_answer(answer) || PyList_GET_SIZE(SLOT(answer, of_answer[A_HELD]))) return -1;
    PyObject *chunks = SLOT(answer, of_answer[A_CHUNKS]);
    return Py_IS_TYPE(chunks, &ChunksType) && ((Chunks *)chunks)->count ? ((Chunks *)chunks)->count / 2 : -1;
}

/* Have the times of chunks kept for an answer. 1: they are; 0: it is none of the usual; -1: an exception. */
static int keeps_chunks(Sends *sends, PyObject *answer) {
    if (sends->answer) return sends->answer == answer;
    if (!is_answer(answer) || SLOT(answer, of_answer[A_CHUNKS]) != Py_None) return 0;
    sends->chunks = new_chunks();
    if (!sends->chunks) return -1;
    core_set_new(answer, of_answer[A_CHUNKS], (PyObject *)sends->chunks);
    sends->answer = Py_NewRef(answer);
    return 1;
}

/* The parts of a message whose keys are the very strings, a body and behind it whether more follows, in the place where
 * the last message had them: a framework writes each chunk like the one before. 0: they are not there. */
static inline int usual_parts_of(Sends *sends, PyObject *message, PyObject **more, PyObject **body) {
    PyObject *key;
    Py_ssize_t at = sends->parts_at;
    return PyDict_Next(message, &at, &key, body) && key == usual.name_body && PyDict_Next(message, &at, &key, more) && key == usual.name_more;
}

/* The same of any message, whose place for a body is looked at first the next time; NULL: it has no such part. */
static APART int parts_of(Sends *sends, PyObject *message, PyObject **more, PyObject **body) {
    PyObject *key, *value;
    if (usual_parts_of(sends, message, more, body)) return 0;
    for (Py_ssize_t at = 0, before = 0; PyDict_Next(message, &at, &key, &value); before = at)
        if (key == usual.name_body) sends->parts_at = before;
    *more = PyDict_GetItemWithError(message, usual.name_more);
    *body = *more || !PyErr_Occurred() ? PyDict_GetItemWithError(message, usual.name_body) : NULL;
    return PyErr_Occurred() ? -1 : 0;
}

/* Note a chunk like those before it: one event, while no model says what it makes. 0: nothing was noted. */
static inline int noted_alike(Sending *self, int64_t sent_ns) {
    Sends *sends = self->sends;
    PyObject *answer = sends->answer, *message = self->message, *more, *body;
    if (!USUALLY(answer && *sends->made == answer && !self->known && USUAL(answer, known) == usual.zero && USUAL(answer, carried) == usual.zero &&
                 USUAL(answer, eager) == usual.no && !PyList_GET_SIZE(USUAL(answer, held)) && Py_IS_TYPE(message, usual.dict_type)) ||
        !USUALLY(usual_parts_of(sends, message, &more, &body) && more == usual.yes && Py_IS_TYPE(body, usual.bytes_type)) ||
        !USUALLY(is_alike(&sends->place, USUAL(answer, events), body)))
        return 0;
    Chunks *chunks = sends->chunks;
    if (!USUALLY(chunks->count + 2 <= chunks->room && chunks->count + 2 < usual.most_times)) return 0;
    chunks_put(chunks, self->started_ns, sent_ns);
    return 1;
}

/* The tokens made when a message was handed over, borrowed. */
static inline PyObject *made_before(Sending *self) { return self->known ? self->known : usual.zero; }

/* Whether its request is there still: the collector may have taken it. */
static inline int has_request(Sending *self) { return self->sends && self->sends->request; }

/* 1: noted; 0: Python's form is to; -1: an exception is set. */
static int noted(Sending *self, int64_t sent_ns) {
    PyObject *request = self->sends->request, *message = self->message;
    PyObject *more, *body, *answer = core_answer_of(request);
    if (!PyDict_CheckExact(message)) return 0;
    if (parts_of(self->sends, message, &more, &body) < 0) return -1;
    if (more == Py_True && answer != Py_None) {
        if (!body || !PyBytes_CheckExact(body)) return 0;
        int kept = keeps_chunks(self->sends, answer);
        if (kept > 0) return chunk_left(self->sends, body, made_before(self), self->started_ns, sent_ns) < 0 ? -1 : 1;
        return kept;
    }
    PyObject *type = PyDict_GetItemWithError(message, name_type);
    if (!type || !PyUnicode_Check(type) || (more && more != Py_False) || !core_is_request(request)) return PyErr_Occurred() ? -1 : 0;
    if (!PyUnicode_CompareWithASCIIString(type, "http.response.start")) {
        int done = core_answer_begins(request, message);
        return done <= 0 ? done : core_respond(request, self->started_ns, sent_ns) < 0 ? -1 : 1;
    }
    if (PyUnicode_CompareWithASCIIString(type, "http.response.body")) return 0;
    if (answer != Py_None) { /* the end of a stream: what else is in it is read with the chunks before */
        if (!is_answer(answer) || (body && (!PyBytes_CheckExact(body) || PyBytes_GET_SIZE(body)))) return 0;
        if (PyList_GET_SIZE(SLOT(answer, of_answer[A_HELD])) && catch_up(answer) < 0) return -1;
    }
    if (core_respond(request, self->started_ns, sent_ns) < 0) return -1;
    int done = core_answer_ends(request);
    return done ? done : core_ask(request, name_has_left, NULL) < 0 ? -1 : 1; /* its end is Python's to see to */
}

/* Note any message that has left; an exception stays set only if it is none of ours. */
static APART int left(Sending *self, int64_t sent_ns) {
    int done = noted(self, sent_ns);
    if (!done) {
        PyObject *started = PyLong_FromLongLong(self->started_ns), *sent = PyLong_FromLongLong(sent_ns);
        PyObject *tokens = made_before(self), *request = self->sends->request;
        PyObject *result = started && sent ? PyObject_CallMethodObjArgs(request, name_has_sent, self->message, tokens, started, sent, NULL) : NULL;
        Py_XDECREF(started);
        Py_XDECREF(sent);
        Py_XDECREF(result);
        done = result ? 1 : -1;
    }
    return done < 0 ? core_fault(core_fault_handler_of(self->sends->request), "timing a send") : 0;
}

/* Note a message that could not be sent, and leave what was raised as it is. */
static APART void failed(Sending *self, int64_t failed_ns) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *started = PyLong_FromLongLong(self->started_ns), *sent = PyLong_FromLongLong(failed_ns);
    PyObject *tokens = made_before(self), *request = self->sends->request;
    PyObject *done = started && sent ? PyObject_CallMethodObjArgs(request, name_has_failed, tokens, started, sent, NULL) : NULL;
    Py_XDECREF(started);
    Py_XDECREF(sent);
    Py_XDECREF(done);
    if (!done) PyErr_Clear(); /* it keeps its faults in, so that this is none to go on with */
    PyErr_Restore(type, value, trace);
}

/* --- while it is awaited */

/* What `await` would drive. NULL: an exception is set. */
static PyObject *driven(PyObject *awaitable) {
    if (PyCoro_CheckExact(awaitable)) return Py_NewRef(awaitable);
    PyAsyncMethods *methods = Py_TYPE(awaitable)->tp_as_async;
    if (methods && methods->am_await) return methods->am_await(awaitable);
    if (PyGen_CheckExact(awaitable)) return Py_NewRef(awaitable); /* of `types.coroutine` */
    PyErr_Format(PyExc_TypeError, "object %.100s can't be used in 'await' expression", Py_TYPE(awaitable)->tp_name);
    return NULL;
}

static APART PyObject *tokens_of(PyObject *answer) { return is_answer(answer) ? SLOT(answer, of_answer[A_KNOWN]) : usual.zero; }

/* Hand the message over. -1: an exception is set. */
static inline int begun(Sending *self) {
    Sends *sends = self->sends;
    PyObject *answer = *sends->made, *known = USUALLY(answer == sends->answer) ? USUAL(answer, known) : tokens_of(answer), *awaitable;
    self->state = 1;
    if (!USUALLY(known == usual.zero)) self->known = Py_NewRef(known);
    self->started_ns = core_monotonic_ns();
    if (USUALLY(sends->function)) { /* at once, without a step through the method */
        PyObject *given[] = {sends->bound_to, self->message};
        awaitable = ((PyFunctionObject *)sends->function)->vectorcall(sends->function, given, 2, NULL);
    } else {
        awaitable = PyObject_CallOneArg(sends->send, self->message);
    }
    if (USUALLY(awaitable && Py_IS_TYPE(awaitable, usual.coroutine_type))) {
        self->inner = awaitable;
        return 0;
    }
    self->inner = awaitable ? driven(awaitable) : NULL;
    Py_XDECREF(awaitable);
    return self->inner ? 0 : -1;
}

static APART PySendResult unusual_end(Sending *self, PySendResult state, int64_t sent_ns, PyObject **result) {
    if (state != PYGEN_RETURN) {
        failed(self, sent_ns);
    } else if (left(self, sent_ns) < 0) {
        Py_CLEAR(*result);
        state = PYGEN_ERROR;
    }
    Py_CLEAR(self->known);
    return state;
}

static APART PySendResult waiting(Sending *self) {
    if (!self->waits) PyObject_GC_Track(self); /* most are over within one step, and in no cycle */
    self->waits = 1;
    return PYGEN_NEXT;
}

/* Take what the inner one has come to. */
static inline PySendResult over(Sending *self, PySendResult state, PyObject **result) {
    if (!USUALLY(state != PYGEN_NEXT)) return waiting(self);
    self->state = 2;
    Py_CLEAR(self->inner);
    int64_t sent_ns = core_monotonic_ns();
    if (!USUALLY(state == PYGEN_RETURN && noted_alike(self, sent_ns))) state = unusual_end(self, state, sent_ns, result);
    if (!USUALLY(*result == usual.none) && *result) Py_SETREF(*result, Py_NewRef(Py_None)); /* as of a coroutine without a result */
    Py_CLEAR(self->message);
    return state;
}

static APART int cannot_run(Sending *self) {
    if (!has_request(self)) PyErr_SetString(PyExc_RuntimeError, "the request was collected as garbage");
    else if (self->runs) PyErr_SetString(PyExc_ValueError, "coroutine already executing");
    else PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
    return 0;
}

static inline int may_run(Sending *self) { return USUALLY(!self->runs && self->state != 2 && has_request(self)) ? 1 : cannot_run(self); }

static PySendResult sending_send(PyObject *awaitable, PyObject *value, PyObject **result) {
    Sending *self = (Sending *)awaitable;
    *result = NULL;
    if (!may_run(self)) return PYGEN_ERROR;
    self->runs = 1;
    PySendResult state = PYGEN_ERROR;
    if (self->state || USUALLY(begun(self) == 0))
        state = USUALLY(Py_IS_TYPE(self->inner, usual.coroutine_type)) ? usual.go_on(self->inner, value, result)
                                                                       : PyIter_Send(self->inner, value, result);
    self->runs = 0;
    return over(self, state, result);
}

/* Return what an iterator would: a value that is yielded, or NULL with StopIteration at the end. */
static PyObject *yielded(PySendResult state, PyObject *result) {
    if (state == PYGEN_NEXT) return result;
    if (state == PYGEN_RETURN) {
        Py_XDECREF(result); /* None */
        PyErr_SetNone(PyExc_StopIteration);
    }
    return NULL;
}

static PyObject *sending_next(PyObject *self) {
    PyObject *result;
    PySendResult state = sending_send(self, Py_None, &result);
    return yielded(state, result);
}

static PyObject *sending_send_method(PyObject *self, PyObject *value) {
    PyObject *result;
    PySendResult state = sending_send(self, value, &result);
    return yielded(state, result);
}

/* Set the exception that the arguments of `throw` name. */
static void set_thrown(PyObject *args) {
    PyObject *type, *value = NULL, *trace = NULL;
    if (!PyArg_UnpackTuple(args, "throw", 1, 3, &type, &value, &trace)) return;
    if (PyExceptionInstance_Check(type)) {
        PyErr_SetObject((PyObject *)Py_TYPE(type), type);
    } else if (PyExceptionClass_Check(type)) {
        PyErr_SetObject(type, value && value != Py_None ? value : NULL);
    } else {
        PyErr_SetString(PyExc_TypeError, "exceptions must be classes or instances deriving from BaseException");
    }
}

static PyObject *sending_throw(PyObject *awaitable, PyObject *args) {
    Sending *self = (Sending *)awaitable;
    if (!may_run(self)) return NULL;
    if (!self->inner) { /* it has not begun, and never will */
        self->state = 2;
        Py_CLEAR(self->message);
        set_thrown(args);
        return NULL;
    }
    PyObject *method = PyObject_GetAttr(self->inner, name_throw), *result = NULL;
    PySendResult state = PYGEN_ERROR;
    self->runs = 1;
    if (method) {
        result = PyObject_Call(method, args, NULL);
        Py_DECREF(method);
    } else if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        set_thrown(args);
    }
    self->runs = 0;
    if (result) {
        state = PYGEN_NEXT;
    } else if (PyErr_ExceptionMatches(PyExc_StopIteration)) { /* it went on to its end */
        PyErr_Clear();
        result = Py_NewRef(Py_None);
        state = PYGEN_RETURN;
    }
    state = over(self, state, &result);
    return yielded(state, result);
}

static PyObject *sending_close(PyObject *awaitable, PyObject *Py_UNUSED(ignored)) {
    Sending *self = (Sending *)awaitable;
    if (self->runs) {
        PyErr_SetString(PyExc_ValueError, "coroutine already executing");
        return NULL;
    }
    if (self->state != 1 || !has_request(self)) {
        self->state = 2;
        Py_CLEAR(self->message);
        Py_RETURN_NONE;
    }
    PyObject *closed = NULL, *method = PyObject_GetAttr(self->inner, name_close);
    self->runs = 1;
    if (method) closed = PyObject_CallNoArgs(method);
    else if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        closed = Py_NewRef(Py_None);
    }
    self->runs = 0;
    Py_XDECREF(method);
    self->state = 2;
    Py_CLEAR(self->inner);
    failed(self, core_monotonic_ns()); /* as one that GeneratorExit was thrown into */
    Py_CLEAR(self->message);
    return closed;
}

static int sending_traverse(Sending *self, visitproc visit, void *arg) {
    Py_VISIT(self->sends);
    Py_VISIT(self->message);
    Py_VISIT(self->inner);
    Py_VISIT(self->known);
    return 0;
}

static int sending_clear(Sending *self) {
    Py_CLEAR(self->message);
    Py_CLEAR(self->inner);
    Py_CLEAR(self->known);
    Py_CLEAR(self->sends);
    return 0;
}

/* Dropped while under way: note it, as a coroutine's `finally` would. */
static void sending_finalize(PyObject *awaitable) {
    Sending *self = (Sending *)awaitable;
    if (self->state != 1 || self->runs || !has_request(self)) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *closed = sending_close(awaitable, NULL);
    if (!closed) PyErr_WriteUnraisable(awaitable);
    Py_XDECREF(closed);
    PyErr_Restore(type, value, trace);
}

static APART void sending_ends(Sending *self) {
    if (self->state == 1 && PyObject_CallFinalizerFromDealloc((PyObject *)self) < 0) return; /* it lives on */
    if (self->waits) PyObject_GC_UnTrack(self);
    if (self->weakrefs) PyObject_ClearWeakRefs((PyObject *)self);
    sending_clear(self);
    PyObject_GC_Del(self);
}

static void sending_dealloc(Sending *self) {
    Sends *sends = self->sends;
    int is_done = self->state == 2 && !self->waits && !self->weakrefs && !self->message && !self->inner && !self->known;
    if (!USUALLY(is_done && sends && !sends->spare && Py_REFCNT(sends) > 1)) {
        sending_ends(self);
        return;
    }
    self->sends = NULL;
    sends->spare = self;
    Py_DECREF(sends);
}

/* --- the function that an application is given as `send` */

/* The one argument of a call. NULL: TypeError is set. */
static APART PyObject *message_by_name(PyObject *const *args, Py_ssize_t by_place, PyObject *names) {
    if (!by_place && names && PyTuple_GET_SIZE(names) == 1 && !PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "message"))
        return args[0];
    PyErr_SetString(PyExc_TypeError, "timed_send() takes one argument: 'message'");
    return NULL;
}

static PyObject *sends_call(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    Sends *self = (Sends *)callable;
    Py_ssize_t by_place = PyVectorcall_NARGS(count);
    PyObject *message = USUALLY(by_place == 1 && !names) ? args[0] : message_by_name(args, by_place, names);
    if (!message) return NULL;
    Sending *sending = self->spare; /* most are done with before the next one begins */
    if (USUALLY(sending)) {
        self->spare = NULL;
        _Py_NewReference((PyObject *)sending);
    } else {
        sending = PyObject_GC_New(Sending, &SendingType);
        if (!sending) return NULL;
        sending->inner = sending->known = sending->weakrefs = NULL;
        sending->runs = sending->waits = 0;
    }
    sending->sends = (Sends *)Py_NewRef(self);
    sending->message = Py_NewRef(message);
    sending->state = 0;
    return (PyObject *)sending;
}

static int sends_traverse(Sends *self, visitproc visit, void *arg) {
    Py_VISIT(self->request);
    Py_VISIT(self->send);
    Py_VISIT(self->answer);
    return 0;
}

static int sends_clear(Sends *self) {
    Py_CLEAR(self->request);
    Py_CLEAR(self->send);
    self->function = self->bound_to = NULL;
    Py_CLEAR(self->answer);
    Py_CLEAR(self->chunks);
    forget(&self->place);
    return 0;
}

static void sends_dealloc(Sends *self) {
    PyObject_GC_UnTrack(self);
    if (self->weakrefs) PyObject_ClearWeakRefs((PyObject *)self);
    sends_clear(self);
    if (self->spare) PyObject_GC_Del(self->spare);
    PyObject_GC_Del(self);
}

/* `RequestTiming._timed(self, send)` */
static PyObject *timed(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    if (PyVectorcall_NARGS(count) != 2 || names || !core_is_request(args[0]) || !core_times_sends(args[0]))
        return core_original(callable, args, count, names);
    Sends *sends = PyObject_GC_New(Sends, &SendsType);
    if (!sends) return NULL;
    sends->call = sends_call;
    sends->request = Py_NewRef(args[0]);
    sends->made = core_place_of_answer(args[0]);
    sends->send = Py_NewRef(args[1]);
    int is_method = PyMethod_Check(args[1]) && PyFunction_Check(PyMethod_GET_FUNCTION(args[1]));
    sends->function = is_method ? PyMethod_GET_FUNCTION(args[1]) : NULL; /* as long as the method is */
    sends->bound_to = is_method ? PyMethod_GET_SELF(args[1]) : NULL;
    sends->answer = sends->weakrefs = NULL;
    sends->chunks = NULL;
    sends->spare = NULL;
    sends->place = (OutputPlace){0};
    sends->parts_at = 0;
    PyObject_GC_Track(sends);
    return (PyObject *)sends;
}

/* --- types and setting up */

static PyAsyncMethods sending_async = {.am_await = PyObject_SelfIter, .am_send = sending_send};

static PyMethodDef chunks_methods[] = {
    {"first_ns", chunks_first_ns, METH_NOARGS, "Return when the first had left; None: there is none."},
    {"add", chunks_add_method, METH_VARARGS, "Keep one more: when it was handed over, and had left."},
    {"drain", chunks_drain, METH_VARARGS, "Move the times to the ends of two lists: of sends and their ends, and of the ends alone."},
    {NULL, NULL, 0, NULL}};

static PySequenceMethods chunks_sequence = {.sq_length = chunks_length};

static PyTypeObject ChunksType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "latencytrace.agent.compiled._core.Chunks", .tp_basicsize = sizeof(Chunks),
    .tp_doc = "When chunks of an answer were handed over and had left.", .tp_dealloc = (destructor)chunks_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_methods = chunks_methods, .tp_as_sequence = &chunks_sequence};

static PyMethodDef sending_methods[] = {
    {"send", sending_send_method, METH_O, "Go on with it, as with a coroutine."},
    {"throw", sending_throw, METH_VARARGS, "Raise within it, as within a coroutine."},
    {"close", sending_close, METH_NOARGS, "Leave it half-way, as a coroutine."},
    {NULL, NULL, 0, NULL}};

static PyTypeObject SendingType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "latencytrace.agent.compiled._core.Sending", .tp_basicsize = sizeof(Sending),
    .tp_doc = "One message on its way; to be awaited.",
    .tp_dealloc = (destructor)sending_dealloc, .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_as_async = &sending_async,
    .tp_iter = PyObject_SelfIter, .tp_iternext = sending_next, .tp_methods = sending_methods, .tp_finalize = sending_finalize,
    .tp_traverse = (traverseproc)sending_traverse, .tp_clear = (inquiry)sending_clear, .tp_weaklistoffset = offsetof(Sending, weakrefs)};

static PyTypeObject SendsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "latencytrace.agent.compiled._core.Sends", .tp_basicsize = sizeof(Sends),
    .tp_doc = "ASGI's `send`, timed.", .tp_dealloc = (destructor)sends_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Sends, call), .tp_traverse = (traverseproc)sends_traverse, .tp_clear = (inquiry)sends_clear,
    .tp_weaklistoffset = offsetof(Sends, weakrefs)};

CORE_METHOD(timed, 0)

static PyObject *new_chunks_for(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) { return (PyObject *)new_chunks(); }

static PyObject *bind_answers(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *answer, *events, *marks;
    if (!PyArg_ParseTuple(args, "OOO!nnn", &answer, &events, &PyDict_Type, &marks, &most_held, &held_bytes, &most_chunks) ||
        core_offsets(answer, answer_names, of_answer) < 0 || core_offsets(events, events_names, of_events) < 0)
        return NULL;
    PyObject *key, *value; /* by which `inspect` and `asyncio` tell that a call of it is to be awaited */
    Py_ssize_t at = 0;
    while (PyDict_Next(marks, &at, &key, &value))
        if (PyDict_SetItem(SendsType.tp_dict, key, value) < 0) return NULL;
    PyType_Modified(&SendsType);
    Py_XSETREF(answer_type, Py_NewRef(answer));
    Py_XSETREF(usual.events_type, (PyTypeObject *)Py_NewRef(events));
    usual.most_times = (int)(2 * most_chunks);
    usual.held = (int)of_answer[A_HELD];
    usual.known = (int)of_answer[A_KNOWN];
    usual.carried = (int)of_answer[A_CARRIED];
    usual.eager = (int)of_answer[A_EAGER];
    usual.events = (int)of_answer[A_EVENTS];
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind_answers", bind_answers, METH_VARARGS, "Take the classes of streamed answers and of their events, and how much is held."},
    {"new_chunks", new_chunks_for, METH_NOARGS, "Return what keeps the times of chunks."},
    {"timed_sends", timed_for, METH_VARARGS, "Return what stands in the place of the ASGI hook's `RequestTiming._timed`."},
    {NULL, NULL, 0, NULL}};

int sends_ready(PyObject *module) {
    usual.yes = Py_True;
    usual.no = Py_False;
    usual.none = Py_None;
    usual.bytes_type = &PyBytes_Type;
    usual.dict_type = &PyDict_Type;
    usual.coroutine_type = &PyCoro_Type;
    usual.go_on = PyCoro_Type.tp_as_async->am_send;
    if (!(usual.zero = PyLong_FromLong(0)) || !(one = PyLong_FromLong(1)) || !(name_type = PyUnicode_InternFromString("type")) || !(usual.name_body = PyUnicode_InternFromString("body")) ||
        !(usual.name_more = PyUnicode_InternFromString("more_body")) || !(name_catch_up = PyUnicode_InternFromString("catch_up")) ||
        !(name_has_sent = PyUnicode_InternFromString("has_sent")) || !(name_has_failed = PyUnicode_InternFromString("has_failed")) ||
        !(name_has_left = PyUnicode_InternFromString("has_left")) || !(name_throw = PyUnicode_InternFromString("throw")) || !(name_close = PyUnicode_InternFromString("close")))
        return -1;
    if (PyType_Ready(&ChunksType) < 0 || PyType_Ready(&SendingType) < 0 || PyType_Ready(&SendsType) < 0 || PyModule_AddObjectRef(module, "Sends", (PyObject *)&SendsType) < 0 ||
        PyModule_AddObjectRef(module, "Sending", (PyObject *)&SendingType) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
