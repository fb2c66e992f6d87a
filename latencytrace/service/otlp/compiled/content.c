/* What of the attributes and names of spans is content, or may be (see `redaction.py`). */
#include "records.h"

/* What a rule does with texts. */
enum { ALWAYS_CONTENT, ASK, PLAIN, NO_JSON, LETTERS_ALONE };
/* What a state of the machine has found (see `telling.py`). */
enum { HIT = 1, SECRET_WORD = 2, COLON = 4 };

#define MOST_RULES 64
#define BYTES_THERE_ARE 256

typedef struct {
    uint8_t how[MOST_RULES]; /* by rule: one of the five above */
    int64_t longest[MOST_RULES]; /* bytes of a text that is not asked about */
    uint8_t takes_numbers[MOST_RULES], takes_empty[MOST_RULES], takes_lists[MOST_RULES], takes_key[MOST_RULES];
    uint8_t classes[BYTES_THERE_ARE]; /* by byte: its class */
    uint8_t packed[BYTES_THERE_ARE]; /* by byte: whether texts of LETTERS_ALONE may have it */
    uint16_t *states; /* by state plus class: the next state */
    uint8_t *found; /* by state: what was found */
} Filter;

static const char FILTER[] = "latencytrace.filter";

static void free_filter(Filter *filter) {
    if (filter) {
        free(filter->states);
        free(filter->found);
        free(filter);
    }
}

static void drop_filter(PyObject *capsule) { free_filter(PyCapsule_GetPointer(capsule, FILTER)); }

/* The rules, which come first among the arguments; NULL with an exception. */
static const Filter *filter_of(PyObject *const *args, Py_ssize_t given) {
    if (given)
        return PyCapsule_GetPointer(args[0], FILTER);
    PyErr_SetString(PyExc_TypeError, "rules are needed");
    return NULL;
}

/* Rules to be known by their number: what each does with texts, the longest of each, whether it takes numbers,
 * empty texts, lists and the key; the machine's classes, states and finds; the letters of packed texts. */
FUNCTION(core_filter) {
    (void)module;
    Held held;
    Array how, longest, numbers, empty, lists, key, classes, states, found, packed;
    if (!arrays_take(&held, args, given, "bqbbbbbrbb", &how, &longest, &numbers, &empty, &lists, &key, &classes, &states,
                     (Py_ssize_t)2, &found, &packed))
        return NULL;
    Filter *filter = calloc(1, sizeof *filter);
    PyObject *capsule = NULL;
    if (how.count > MOST_RULES || longest.count != how.count || numbers.count != how.count || empty.count != how.count ||
        lists.count != how.count || key.count != how.count || classes.count != BYTES_THERE_ARE ||
        packed.count != BYTES_THERE_ARE || found.count != states.count) {
        PyErr_SetString(PyExc_ValueError, "the rules are not of one length");
    } else if (!filter || !(filter->states = malloc((size_t)states.count * 2)) ||
               !(filter->found = malloc((size_t)found.count))) {
        PyErr_NoMemory();
    } else {
        memcpy(filter->how, how.b, (size_t)how.count);
        memcpy(filter->longest, longest.q, (size_t)how.count * sizeof *filter->longest);
        memcpy(filter->takes_numbers, numbers.b, (size_t)how.count);
        memcpy(filter->takes_empty, empty.b, (size_t)how.count);
        memcpy(filter->takes_lists, lists.b, (size_t)how.count);
        memcpy(filter->takes_key, key.b, (size_t)how.count);
        memcpy(filter->classes, classes.b, BYTES_THERE_ARE);
        memcpy(filter->packed, packed.b, BYTES_THERE_ARE);
        memcpy(filter->states, states.any, (size_t)states.count * 2);
        memcpy(filter->found, found.b, (size_t)found.count);
        capsule = PyCapsule_New(filter, FILTER, drop_filter);
    }
    if (!capsule)
        free_filter(filter);
    arrays_drop(&held);
    return capsule;
}

/* Whether a text may hold what `plain_text` takes out. */
static inline int tells(const Filter *filter, const uint8_t *text, int64_t size) {
    unsigned state = 0, seen = 0;
    for (int64_t place = 0; place < size; place++) {
        state = filter->states[state + filter->classes[text[place]]];
        seen |= filter->found[state];
    }
    return (seen & HIT) || (seen & (SECRET_WORD | COLON)) == (SECRET_WORD | COLON);
}

static int has_letters_alone(const Filter *filter, const uint8_t *text, int64_t size) {
    for (int64_t place = 0; place < size; place++)
        if (!filter->packed[text[place]])
            return 0;
    return 1;
}

/* Whether Python has to look at a text that is not content whatever it says. */
static inline int is_asked(const Filter *filter, const uint8_t *text, int64_t size, uint8_t rule) {
    uint8_t how = filter->how[rule];
    if (how == ASK || size > filter->longest[rule])
        return 1;
    if (how == LETTERS_ALONE)
        return !has_letters_alone(filter, text, size);
    if (how == NO_JSON && (*text == ' ' || *text == '"' || *text == '[' || *text == '{'))
        return 1;
    return tells(filter, text, size);
}

/* Of which words Python has to look: the rules, texts, words, the numbers of those in question, the most bytes of
 * a word that is not asked about; and flags, to be filled. */
FUNCTION(core_tells) {
    (void)module;
    Held held;
    Array texts, words, chosen, asked;
    int64_t longest;
    const Filter *filter = filter_of(args, given);
    if (!filter ||
        !arrays_take(&held, args + 1, given - 1, "brqnB", &texts, &words, (Py_ssize_t)sizeof(Word), &chosen, &longest, &asked))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t place = 0; place < chosen.count; place++) {
        Word word = ((const Word *)words.any)[chosen.q[place]];
        asked.b[place] = word.size > longest || tells(filter, texts.b + word.at, word.size);
    }
    Py_END_ALLOW_THREADS
    arrays_drop(&held);
    Py_RETURN_NONE;
}

typedef struct { /* what stands in the place of content: where its text lies, and its word */
    int64_t at, size, word;
} Mark;

enum { KEEP, TAKE, LET_PYTHON };

static inline int judgement(const Filter *filter, const uint8_t *texts, const Pair *pair, uint8_t rule, const Mark *mark) {
    switch (pair->form) {
    case STRING:
        if (!pair->size)
            return filter->takes_empty[rule] ? KEEP : TAKE;
        if (filter->how[rule] != ALWAYS_CONTENT)
            return is_asked(filter, texts + pair->value, pair->size, rule) ? LET_PYTHON : KEEP;
        return pair->size == mark->size && !memcmp(texts + pair->value, texts + mark->at, (size_t)mark->size) ? KEEP : TAKE;
    case NONE:
        return filter->takes_key[rule] ? KEEP : TAKE;
    case BOOL: case INT: case DOUBLE:
        return filter->takes_numbers[rule] ? KEEP : TAKE;
    case ARRAY:
        return filter->takes_lists[rule] ? LET_PYTHON : TAKE;
    default:
        return TAKE;
    }
}

/* Put the mark in the place of content: the rules; what the attributes refer to, the mark's text included; the
 * attributes of any owner; by word the number of the rule for this key; where the mark's text lies, its bytes, its
 * word; and room for the rows that Python has to look at. Gives how many these are. */
FUNCTION(core_judge) {
    (void)module;
    Held held;
    Array texts, pairs, rules, asked;
    Mark mark;
    const Filter *filter = filter_of(args, given);
    if (!filter || !arrays_take(&held, args + 1, given - 1, "bRbnnnQ", &texts, &pairs, (Py_ssize_t)sizeof(Pair), &rules,
                                &mark.at, &mark.size, &mark.word, &asked))
        return NULL;
    int64_t count = 0;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t number = 0; number < pairs.count; number++) {
        Pair *pair = (Pair *)pairs.any + number;
        uint8_t rule = rules.b[pair->key];
        int judged = judgement(filter, texts.b, pair, rule, &mark);
        if (judged == LET_PYTHON) {
            asked.q[count++] = number;
        } else if (judged == TAKE) {
            pair->form = STRING;
            pair->value = mark.at;
            pair->size = (int32_t)mark.size;
            if (!filter->takes_key[rule])
                pair->key = (int32_t)mark.word;
        }
    }
    Py_END_ALLOW_THREADS
    arrays_drop(&held);
    return PyLong_FromLongLong(count);
}
