/* What spans carry, numbered and written: attributes of several blocks, whose texts and words are handed as tuples,
 * and of each attribute the numbers of the block of its key and of that of its text. */
#include "records.h"

#define MOST_CHARACTERS 128 /* of a text that is kept and compared, see `model.cohorts.cohort` */
#define MOST_DIGITS 20

typedef struct {
    const uint8_t **texts;
    const Word **words;
    int64_t count;
} Blocks;

/* Blocks of tuples of bytes and of arrays of words, which the caller holds; 0 with an exception. To be freed. */
static int take_blocks(PyObject *texts, PyObject *words, Blocks *blocks) {
    if (!PyTuple_Check(texts) || !PyTuple_Check(words) || PyTuple_GET_SIZE(texts) < PyTuple_GET_SIZE(words)) {
        PyErr_SetString(PyExc_TypeError, "texts and words come in tuples");
        return 0;
    }
    blocks->count = PyTuple_GET_SIZE(texts);
    blocks->texts = calloc((size_t)blocks->count * 2 + 1, sizeof *blocks->texts);
    if (!blocks->texts) {
        PyErr_NoMemory();
        return 0;
    }
    blocks->words = (const Word **)(blocks->texts + blocks->count);
    for (int64_t one = 0; one < blocks->count; one++) {
        PyObject *text = PyTuple_GET_ITEM(texts, one);
        Py_buffer view;
        if (!PyBytes_Check(text)) {
            PyErr_SetString(PyExc_TypeError, "texts are bytes");
            break;
        }
        blocks->texts[one] = (const uint8_t *)PyBytes_AS_STRING(text);
        if (one >= PyTuple_GET_SIZE(words))
            continue;
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(words, one), &view, PyBUF_C_CONTIGUOUS))
            break;
        blocks->words[one] = view.buf;
        PyBuffer_Release(&view);
    }
    if (!PyErr_Occurred())
        return 1;
    free(blocks->texts);
    return 0;
}

static inline uint64_t word_hash(const Blocks *blocks, int64_t block, int64_t number, uint64_t seed) {
    const Word *word = blocks->words[block] + number;
    return text_hash(blocks->texts[block] + word->at, word->size, seed);
}

/* Hashes of words: the blocks, of each word its block and its number, a seed; and room. */
FUNCTION(core_word_hashes) {
    (void)module;
    Held held;
    Blocks blocks;
    Array block, word, hashes;
    int64_t seed;
    if (given < 2 || !arrays_take(&held, args + 2, given - 2, "qqnQ", &block, &word, &seed, &hashes))
        return given < 2 ? PyErr_Format(PyExc_TypeError, "blocks are needed") : NULL;
    if (!take_blocks(args[0], args[1], &blocks)) {
        arrays_drop(&held);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    for (int64_t one = 0; one < word.count; one++)
        hashes.q[one] = (int64_t)(word_hash(&blocks, block.q[one], word.q[one], (uint64_t)seed) & INT64_MAX);
    free(blocks.texts);
    Py_END_ALLOW_THREADS
    arrays_drop(&held);
    Py_RETURN_NONE;
}

/* Write a number's digits so that they end at a place. Returns where they begin. */
static inline char *digits_before(char *end, int64_t value) {
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        *--end = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        *--end = '-';
    return end;
}

/* The bytes of the first characters of a text. */
static inline int32_t cut(const uint8_t *text, int32_t size) {
    if (size <= MOST_CHARACTERS)
        return size;
    int32_t characters = 0;
    for (int32_t place = 0; place < size; place++)
        if ((text[place] & 0xC0) != 0x80 && ++characters > MOST_CHARACTERS)
            return place;
    return size;
}

/* The text of an attribute, in `room` if it is a number; its bytes. */
static inline const uint8_t *shown_text(const Blocks *blocks, const Pair *pair, int64_t block, char *room, int64_t *size) {
    if (pair->form == INT) {
        char *begin = digits_before(room + MOST_DIGITS, pair->value);
        *size = room + MOST_DIGITS - begin;
        return (const uint8_t *)begin;
    }
    if (pair->form == BOOL) {
        *size = pair->value ? 4 : 5;
        return (const uint8_t *)(pair->value ? "true" : "false");
    }
    const uint8_t *text = blocks->texts[block] + pair->value;
    *size = pair->form == NONE ? 0 : pair->form == ARRAY ? pair->size : cut(text, pair->size);
    return text;
}

/* Number what attributes say: the blocks; attributes, the blocks of their keys and of their texts, their owners; by a
 * key's code whether it is shown of requests, whether it names what is called; the mark's bytes; a seed; and room for
 * the number of each, whether it is shown, and by owner what is called. */
FUNCTION(core_carry) {
    (void)module;
    Held held;
    Blocks blocks;
    Array pairs, of_key, of_text, owner, is_shown, is_target, mark, number, shown, target;
    int64_t seed;
    if (given < 2 || !arrays_take(&held, args + 2, given - 2, "rqqqbbbnQQQ", &pairs, (Py_ssize_t)sizeof(Pair), &of_key,
                                  &of_text, &owner, &is_shown, &is_target, &mark, &seed, &number, &shown, &target))
        return given < 2 ? PyErr_Format(PyExc_TypeError, "blocks are needed") : NULL;
    if (!take_blocks(args[0], args[1], &blocks)) {
        arrays_drop(&held);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    for (int64_t one = 0; one < pairs.count; one++) {
        const Pair *pair = (const Pair *)pairs.any + one;
        const Word *key = blocks.words[of_key.q[one]] + pair->key;
        char room[MOST_DIGITS];
        int64_t size;
        const uint8_t *text = shown_text(&blocks, pair, of_text.q[one], room, &size);
        uint64_t state = word_hash(&blocks, of_key.q[one], pair->key, (uint64_t)seed);
        state = text_hash(text, size, state);
        number.q[one] = (int64_t)(state & INT64_MAX) | !(state & INT64_MAX);
        int is_mark = pair->form == STRING && size == mark.count && !memcmp(text, mark.b, (size_t)size);
        shown.q[one] = is_shown.b[key->code] && pair->form != NONE && !is_mark;
        if (pair->form != NONE && is_target.b[key->code])
            target.q[owner.q[one]] = (int64_t)((uint64_t)target.q[owner.q[one]] + mixed(state, 1)); /* it may go round */
    }
    free(blocks.texts);
    Py_END_ALLOW_THREADS
    arrays_drop(&held);
    Py_RETURN_NONE;
}

/* Write the texts of attributes, each after its length: the blocks; attributes, the blocks of their texts; room, and
 * room for the bytes of each. Gives how many bytes were written. */
FUNCTION(core_shown_texts) {
    (void)module;
    Held held;
    Blocks blocks;
    Array pairs, of_text, out, sizes;
    if (given < 2 || !arrays_take(&held, args + 2, given - 2, "rqBQ", &pairs, (Py_ssize_t)sizeof(Pair), &of_text, &out,
                                  &sizes))
        return given < 2 ? PyErr_Format(PyExc_TypeError, "blocks are needed") : NULL;
    if (!take_blocks(args[0], args[1], &blocks)) {
        arrays_drop(&held);
        return NULL;
    }
    uint8_t *to = out.b;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t one = 0; one < pairs.count; one++) {
        char room[MOST_DIGITS];
        int64_t size;
        const uint8_t *text = shown_text(&blocks, (const Pair *)pairs.any + one, of_text.q[one], room, &size), *begin = to;
        if (size >= 0x80)
            *to++ = (uint8_t)(size | 0x80);
        *to++ = (uint8_t)(size >= 0x80 ? size >> 7 : size);
        memcpy(to, text, (size_t)size);
        to += size;
        sizes.q[one] = to - begin;
    }
    free(blocks.texts);
    Py_END_ALLOW_THREADS
    arrays_drop(&held);
    return PyLong_FromSsize_t(to - out.b);
}
