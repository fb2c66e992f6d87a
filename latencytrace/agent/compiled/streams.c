/* A streamed answer at its two ends: an `AnswerStream` as its class would make it, once the answer's headers are
 * known, and the attributes of one all of whose parts were read as they left (`StreamedAttributes`). */
#include "buffer.h"

enum {
    A_CARRIED, A_CHUNKS, A_EAGER, A_EVENTS, A_FIRST_BODY, A_FIRST_KNOWN, A_FIRST_READ, A_FOLD_AT, A_HELD, A_KNOWN, A_MORE, A_NOTE,
    A_OPEN, A_PLAIN_OVER, A_SENDS, A_SENT, A_TIMES, ANSWER_SLOTS
};
static const char *const answer_names[] = {
    "carried", "chunks", "eager", "_events", "_first_body_ns", "_first_known", "_first_read", "_fold_at", "held", "known", "_more",
    "_note", "_open", "_plain_over", "sends", "_sent", "_times", NULL};
static Py_ssize_t of_answer[ANSWER_SLOTS];

enum {
    E_BETWEEN, E_HIDDEN, E_KNOWN, E_LEFT, E_REASONING, E_TOTAL, E_BEGINS, E_CHOICES, E_KEY, E_KEY_AT, EVENTS_SLOTS
};
static const char *const events_names[] = {
    "_between", "_hidden", "_known", "_left_to_look", "_reasoning_left", "_total", "begins", "choices", "key", "key_at", NULL};
static Py_ssize_t of_events[EVENTS_SLOTS];

enum { T_BUCKETS, T_FIRST, T_FOLDED, T_LENGTHS, T_TIMES, T_TOGETHER, TOKENS_SLOTS };
static const char *const tokens_names[] = {"_buckets", "_first_ns", "_folded", "_lengths", "times", "_together", NULL};
static Py_ssize_t of_tokens[TOKENS_SLOTS];

enum { S_ANSWER, S_START, S_STAGES, STREAMED_SLOTS };
static const char *const streamed_names[] = {"_answer", "_span_start_ns", "_stages", NULL};
static Py_ssize_t of_streamed[STREAMED_SLOTS];

static PyObject *answer_type, *events_type, *tokens_type, *streamed_type;
static PyObject *template; /* an answer of which nothing is known yet; what is never changed in place is shared */
static PyObject *forms;    /* a counter of events by the value of `content-type`, of which nothing was seen yet */
static PyObject *first_key, *times_key, *choices_key, *tokens_key, *streamed_events_key, *append_name;
enum { MOST_FORMS = 64 };

/* A new object with the same in its slots. */
static PyObject *alike(PyObject *of, const Py_ssize_t *slots, int count) {
    PyObject *made = core_new((PyObject *)Py_TYPE(of));
    for (int at = 0; made && at < count; at++) SLOT(made, slots[at]) = Py_XNewRef(SLOT(of, slots[at]));
    return made;
}

static void untracked(PyObject *object) {
    if (object && PyObject_IS_GC(object)) PyObject_GC_UnTrack(object);
}

/* Put a new, empty list in a slot. */
static int anew(PyObject *object, Py_ssize_t slot, PyObject *made) {
    if (!made) return -1;
    core_set(object, slot, made);
    return 0;
}

static PyObject *events_for(PyObject *content_type) {
    PyObject *found = PyDict_GetItemWithError(forms, content_type);
    if (found) return alike(found, of_events, EVENTS_SLOTS);
    PyObject *made = PyErr_Occurred() ? NULL : PyObject_CallOneArg(events_type, content_type);
    if (made && !Py_IS_TYPE(made, (PyTypeObject *)events_type)) Py_CLEAR(made);
    PyObject *kept = made && PyDict_GET_SIZE(forms) < MOST_FORMS ? alike(made, of_events, EVENTS_SLOTS) : NULL;
    if (kept && PyDict_SetItem(forms, content_type, kept) < 0) Py_CLEAR(made);
    Py_XDECREF(kept);
    return made;
}

/* An answer of this form whose sends are noted in a list. NULL: an exception is set. */
PyObject *core_new_answer(PyObject *content_type, PyObject *sends) {
    if (!answer_type) {
        PyErr_SetString(PyExc_RuntimeError, "no class of answers was bound");
        return NULL;
    }
    PyObject *answer = alike(template, of_answer, ANSWER_SLOTS), *sent = NULL, *events = NULL;
    if (answer) sent = alike(SLOT(template, of_answer[A_SENT]), of_tokens, TOKENS_SLOTS);
    if (sent) events = events_for(content_type);
    int failed = !events || anew(sent, of_tokens[T_BUCKETS], PyDict_New()) < 0 || anew(sent, of_tokens[T_LENGTHS], PyList_New(0)) < 0 ||
                 anew(sent, of_tokens[T_TOGETHER], PyList_New(0)) < 0 || anew(sent, of_tokens[T_TIMES], PyList_New(0)) < 0 ||
                 anew(answer, of_answer[A_HELD], PyList_New(0)) < 0 ||
                 anew(answer, of_answer[A_NOTE], PyObject_GetAttr(SLOT(sent, of_tokens[T_TIMES]), append_name)) < 0;
    if (!failed) {
        core_set_new(answer, of_answer[A_TIMES], SLOT(sent, of_tokens[T_TIMES]));
        core_set_new(answer, of_answer[A_SENT], sent);
        core_set_new(answer, of_answer[A_EVENTS], events);
        core_set_new(answer, of_answer[A_SENDS], sends);
    }
    Py_XDECREF(sent);
    Py_XDECREF(events);
    if (failed) Py_CLEAR(answer);
    return answer;
}

/* Take an answer that is over out of the collector's sight, with what is kept of it: values, none of which leads
 * back to it. Some thousands that wait would make each collection longer, and full ones more frequent. */
void core_answer_rests(PyObject *streamed) {
    PyObject *answer = SLOT(streamed, of_streamed[S_ANSWER]), *stages = SLOT(streamed, of_streamed[S_STAGES]), *times, *stage;
    static const int lists[] = {A_HELD, A_NOTE, A_SENDS, A_TIMES}, of_sent[] = {T_BUCKETS, T_LENGTHS, T_TOGETHER};
    PyObject *sent = SLOT(answer, of_answer[A_SENT]);
    if (!Py_IS_TYPE(sent, (PyTypeObject *)tokens_type)) return;
    for (size_t at = 0; at < sizeof lists / sizeof *lists; at++) untracked(SLOT(answer, of_answer[lists[at]]));
    for (size_t at = 0; at < sizeof of_sent / sizeof *of_sent; at++) untracked(SLOT(sent, of_tokens[of_sent[at]]));
    for (Py_ssize_t at = 0; PyDict_Next(stages, &at, &stage, &times);) untracked(times);
    untracked(sent);
    untracked(SLOT(answer, of_answer[A_EVENTS]));
    untracked(stages);
    untracked(answer);
    untracked(streamed);
}

/* --- what is said of it once it is over */

static int number_in(PyObject *object, Py_ssize_t slot, int64_t *number) {
    PyObject *found = SLOT(object, slot);
    int overflow = 1;
    *number = found && PyLong_CheckExact(found) ? PyLong_AsLongLongAndOverflow(found, &overflow) : 0;
    return !overflow;
}

/* Write how many tokens or events left after the first packet, as `ReadAnswer._count_into` does. 1: done; 0: Python's
 * form is to; -1: an exception is set. */
static int put_counts(Buffer *out, PyObject *answer, PyObject *events, Py_ssize_t kept) {
    int64_t folded, more, read, choices, carried, known, plain;
    PyObject *sent = SLOT(answer, of_answer[A_SENT]), *times = SLOT(sent, of_tokens[T_TIMES]);
    if (!number_in(sent, of_tokens[T_FOLDED], &folded) || !number_in(answer, of_answer[A_MORE], &more) ||
        !number_in(answer, of_answer[A_FIRST_READ], &read) || !number_in(events, of_events[E_CHOICES], &choices) ||
        !number_in(answer, of_answer[A_CARRIED], &carried) || !number_in(answer, of_answer[A_FIRST_KNOWN], &known) ||
        !number_in(answer, of_answer[A_PLAIN_OVER], &plain) || !times || !PyList_CheckExact(times))
        return 0;
    if (!carried && SLOT(events, of_events[E_TOTAL]) != Py_None) return 0; /* the answer says how many */
    int64_t following = folded + PyList_GET_SIZE(times) + kept + more - (read > choices ? read : choices);
    if (following <= 0) return 1;
    if (choices > 1) {
        int done = core_put_integer(out, choices_key, choices);
        if (done <= 0) return done;
    }
    if (!carried) return core_put_integer(out, streamed_events_key, following);
    int64_t made = (plain == INT64_C(1) << 62 ? carried : plain) - known;
    return core_put_integer(out, tokens_key, made > following ? made : following);
}

int core_put_streamed(PyObject *streamed, Buffer *out) {
    if (!streamed_type || !Py_IS_TYPE(streamed, (PyTypeObject *)streamed_type)) return 0;
    PyObject *answer = SLOT(streamed, of_streamed[S_ANSWER]), *stages = SLOT(streamed, of_streamed[S_STAGES]),
             *start = SLOT(streamed, of_streamed[S_START]);
    int64_t start_ns, first_ns;
    Py_ssize_t kept = answer ? core_kept_chunks(answer) : -1, pairs, before = out->length;
    if (kept < 0 || !stages || !PyDict_CheckExact(stages) || !start || !number_in(streamed, of_streamed[S_START], &start_ns)) return 0;
    for (int at = 0; at < ANSWER_SLOTS; at++)
        if (!SLOT(answer, of_answer[at])) return 0;
    PyObject *sent = SLOT(answer, of_answer[A_SENT]), *events = SLOT(answer, of_answer[A_EVENTS]);
    if (!Py_IS_TYPE(sent, (PyTypeObject *)tokens_type) || !Py_IS_TYPE(events, (PyTypeObject *)events_type)) return 0;
    const int64_t *times = core_chunks(SLOT(answer, of_answer[A_CHUNKS]), &pairs);
    Buffer text = {0};
    int done = times ? core_pack_tokens(sent, start_ns, times, pairs, &text, &first_ns) : 0;
    if (done > 0) done = core_put_double(out, first_key, (double)(first_ns - start_ns) / 1e9);
    if (done > 0 && text.length) {
        done = core_put_packed(out, times_key, &text);
        if (done > 0) done = put_counts(out, answer, events, kept);
    }
    if (done > 0 && PyDict_GET_SIZE(stages)) {
        text.length = 0;
        done = core_pack_sends(stages, start, SLOT(answer, of_answer[A_SENDS]), times, pairs, &text);
        if (done > 0 && text.length) done = core_put_packed(out, core_intervals_key, &text);
    }
    out->failed |= text.failed;
    buffer_free(&text);
    if (done <= 0) out->length = before;
    return done;
}

/* --- setting up */

CORE_KEEPS(bind_streams, {&answer_type, answer_names, of_answer}, KEPT_OBJECT(template), {&events_type, events_names, of_events},
           {&tokens_type, tokens_names, of_tokens}, {&streamed_type, streamed_names, of_streamed}, KEPT_TEXT(first_key),
           KEPT_TEXT(times_key), KEPT_TEXT(choices_key), KEPT_TEXT(tokens_key), KEPT_TEXT(streamed_events_key))

static PyMethodDef functions[] = {
    {"bind_streams", bind_streams, METH_VARARGS,
     "Take an answer of which nothing is known, the classes of events, token times and attributes, and the keys of these."},
    {NULL, NULL, 0, NULL}};

int streams_ready(PyObject *module) {
    if (!(append_name = PyUnicode_InternFromString("append")) || !(forms = PyDict_New())) return -1;
    return PyModule_AddFunctions(module, functions);
}
