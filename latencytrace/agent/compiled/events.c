/* The first events of a streamed answer, until it is known where those alike have their output: what
 * `AnswerEvents.read` makes of a chunk that is one event with output and says nothing else of the answer.
 * All others are left to it. */
#include "core.h"

enum { BEGINS, BETWEEN, CHOICES, KEY, KEY_AT, KNOWN, LEFT_TO_LOOK, EVENTS_SLOTS };
static const char *const events_names[] = {"begins", "_between", "choices", "key", "key_at", "_known", "_left_to_look", NULL};
static Py_ssize_t of_events[EVENTS_SLOTS];
static PyObject *events_type;

typedef struct {
    const char *text;
    size_t length;
    size_t rare; /* the place of its sign that is met least in events */
} Word;
#define WORD(text) {text, sizeof text - 1, 0}
#define WORD_BY(text, rare) {text, sizeof text - 1, rare}

static const Word output_keys[] = {
    WORD("content"), WORD("reasoning_content"), WORD("reasoning"), WORD("thinking"), WORD("text"), WORD("arguments"),
    WORD("partial_json"), WORD("refusal"), WORD("delta"), WORD("response"), WORD("transcript"), WORD("generated_text"), {NULL, 0, 0}};
/* What says more of an answer than that there is output. */
static const Word odd[] = {WORD("\r"), WORD("_tokens"), WORD_BY("eval_count", 4), WORD_BY("\"type\"", 2), WORD_BY("reasoning", 8),
                           WORD_BY("thinking", 4), {NULL, 0, 0}};
static const Word choices_word = WORD_BY("\"choices\"", 2), index_word = WORD_BY("\"index\"", 5);
static unsigned char begins_output[256];

typedef struct {
    const char *at, *end;
} Text;

/* Where a word begins; NULL: it is not there. Short texts are searched some thirty times a stream, for which setting up
 * `memmem` costs several times as much as looking for a rare sign. */
static const char *found_in(Text text, const Word *word) {
    const char *at = text.at + word->rare, *last = text.end - (word->length - word->rare); /* where its rare sign may be */
    if (text.end - text.at < (Py_ssize_t)word->length) return NULL;
    while (at <= last && (at = memchr(at, word->text[word->rare], (size_t)(last - at) + 1))) {
        if (!memcmp(at - word->rare, word->text, word->length)) return at - word->rare;
        at++;
    }
    return NULL;
}

static int is_odd(Text text) {
    for (const Word *word = odd; word->text; word++)
        if (found_in(text, word)) return 1;
    return 0;
}

static int is_space(char sign) { return sign == ' ' || (sign >= '\t' && sign <= '\r'); }

static const char *after_spaces(const char *at, const char *end) {
    while (at < end && is_space(*at)) at++;
    return at;
}

/* The place behind a sign that spaces may stand before and behind; NULL: another sign is there. */
static const char *behind(const char *at, const char *end, char sign) {
    at = after_spaces(at, end);
    return at < end && *at == sign ? after_spaces(at + 1, end) : NULL;
}

/* The place behind `"key" : "` where such a one stands at a quote and no second quote follows; NULL: none does. */
static const char *output_at(const char *quote, const char *end) {
    if (end - quote < 2 || !begins_output[(unsigned char)quote[1]]) return NULL;
    for (const Word *key = output_keys; key->text; key++) {
        size_t length = key->length;
        if (quote[1] != *key->text || (size_t)(end - quote) < length + 3 || memcmp(quote + 1, key->text, length) || quote[length + 1] != '"')
            continue;
        const char *value = behind(quote + length + 2, end, ':');
        return value && value < end && *value == '"' && (value + 1 == end || value[1] != '"') ? value + 1 : NULL;
    }
    return NULL;
}

/* The number of the choice that an event is of; 0: the first, or none is named; -1: Python's form is to tell. */
static int choice_in(Text event) {
    const char *list = found_in(event, &choices_word);
    if (!list) return 0;
    const char *at = behind(list + choices_word.length, event.end, ':');
    at = at && at < event.end && *at == '[' ? after_spaces(at + 1, event.end) : NULL;
    if (!at || at == event.end || *at != '{') return -1;
    Text within = {at, memchr(at, '[', (size_t)(event.end - at))};
    if (!within.end) within.end = event.end;
    const char *index = found_in(within, &index_word);
    if (!index) return found_in((Text){list + choices_word.length, event.end}, &choices_word) ? -1 : 0;
    at = behind(index + index_word.length, event.end, ':');
    /* One digit alone; more of them, or another form, are Python's to read. */
    if (!at || at >= event.end || *at < '0' || *at > '9') return -1;
    int is_alone = at + 1 == event.end || at[1] == ',' || at[1] == '}' || is_space(at[1]);
    return is_alone ? *at - '0' : -1;
}

/* Whether a chunk is one event of its kind, with data in it. */
static int is_one_event(Text body, PyObject *between) {
    const char *mark = PyBytes_AS_STRING(between);
    Py_ssize_t length = PyBytes_GET_SIZE(between);
    if (body.end - body.at <= length || memcmp(body.end - length, mark, (size_t)length)) return 0;
    const Word between_events = {mark, (size_t)length, 0};
    if (found_in((Text){body.at, body.end - length}, &between_events)) return 0;
    if (length == 1) return !is_space(body.at[0]); /* a line of JSON */
    return body.end - body.at > 7 + length && !memcmp(body.at, "data: ", 6) && body.at[6] == '{';
}

/* 1: the chunk is one event with output, and what it teaches is known now. 0: Python's form is to read it.
 * -1: an exception is set. */
int core_event_learned(PyObject *events, PyObject *chunk) {
    if (!events_type || !Py_IS_TYPE(events, (PyTypeObject *)events_type)) return 0;
    PyObject *begins_at = SLOT(events, of_events[BEGINS]);
    if (!begins_at || !PyLong_CheckExact(begins_at) || PyLong_AsLong(begins_at)) return 0; /* where is known by now */
    PyObject *between = SLOT(events, of_events[BETWEEN]), *left = SLOT(events, of_events[LEFT_TO_LOOK]),
             *choices = SLOT(events, of_events[CHOICES]);
    Text body = {PyBytes_AS_STRING(chunk), PyBytes_AS_STRING(chunk) + PyBytes_GET_SIZE(chunk)};
    if (!between || !PyBytes_CheckExact(between) || !left || !choices || !is_one_event(body, between)) return 0;
    if (is_odd(body)) return 0;
    Text event = {body.at, body.end - PyBytes_GET_SIZE(between)};
    const char *output = NULL, *quote = event.at;
    while (!output && (quote = memchr(quote, '"', (size_t)(event.end - quote)))) {
        output = output_at(quote, event.end);
        if (!output) quote++;
    }
    long looks = output ? PyLong_AsLong(left) : -1, known = output ? PyLong_AsLong(choices) : -1;
    int choice = output ? choice_in(event) : -1;
    if (PyErr_Occurred()) return -1;
    if (choice < 0 || choice >= known) return 0; /* one that was not met yet */
    PyObject *fewer = PyLong_FromLong(looks - 1);
    if (!fewer) return -1;
    core_set(events, of_events[LEFT_TO_LOOK], fewer);
    core_set_new(events, of_events[KNOWN], Py_True);
    if (looks > 1) return 1;
    PyObject *key = PyBytes_FromStringAndSize(quote, output - quote), *key_at = PyLong_FromSsize_t(quote - event.at),
             *begins = PyLong_FromSsize_t(output - event.at);
    if (!key || !key_at || !begins) {
        Py_XDECREF(key);
        Py_XDECREF(key_at);
        Py_XDECREF(begins);
        return -1;
    }
    core_set(events, of_events[KEY], key);
    core_set(events, of_events[KEY_AT], key_at);
    core_set(events, of_events[BEGINS], begins);
    return 1;
}

/* `event_learned(events, chunk)`, for tests: whether it did what `read` does. */
static PyObject *event_learned(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *events, *chunk;
    if (!PyArg_ParseTuple(args, "OS", &events, &chunk)) return NULL;
    int learned = core_event_learned(events, chunk);
    return learned < 0 ? NULL : PyBool_FromLong(learned);
}

CORE_KEEPS(bind_events, {&events_type, events_names, of_events})

static PyMethodDef functions[] = {
    {"bind_events", bind_events, METH_VARARGS, "Take the class that counts events with output."},
    {"event_learned", event_learned, METH_VARARGS, "Read a chunk that is one usual event; False: it was not read."},
    {NULL, NULL, 0, NULL}};

int events_ready(PyObject *module) {
    for (const Word *key = output_keys; key->text; key++) begins_output[(unsigned char)*key->text] = 1;
    return PyModule_AddFunctions(module, functions);
}
