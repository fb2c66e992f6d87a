/* Packed times, many texts at once. */
#include "core.h"

#define PACKED_NAMES(ONE)                               \
    ONE(UNREADABLE)                                     \
    ONE(MOST_DIGITS) /* of a number, which then fits */ \
    ONE(MOST_NS)                                        \
    ONE(LAST_BUCKET) /* of 2**64, see `model.packed` */

CORE_NAMES(packed_names, PACKED_NAMES)

typedef struct {
    int64_t from_ns, to_ns, name;
} Interval;

typedef struct { /* a text that is read */
    const uint8_t *at, *beyond;
} Text;

static inline int is_at(const Text *text, uint8_t sign) { return text->at < text->beyond && *text->at == sign; }

/* Read a number, up to one digit more than one may have. Returns how many there are. */
static inline int64_t read_digits(Text *text, int64_t *number) {
    const uint8_t *at = text->at, *most = text->beyond;
    uint64_t read = 0;
    if (most - at > MOST_DIGITS + 1)
        most = at + MOST_DIGITS + 1;
    while (at < most && *at >= '0' && *at <= '9')
        read = read * 10 + (uint64_t)(*at++ - '0');
    int64_t digits = at - text->at;
    text->at = at;
    *number = (int64_t)read;
    return digits;
}

static inline int read_number(Text *text, int64_t *number) {
    int64_t digits = read_digits(text, number);
    return 0 < digits && digits <= MOST_DIGITS;
}

/* --- intervals by name */

typedef struct {
    const uint8_t *data;
    const int64_t *begins;
    int64_t count;
} Words;

/* Read a name and its colon's place. Returns which it is; below 0: none that is known. */
static inline int64_t read_name(Text *text, const Words *names) {
    const uint8_t *name = text->at;
    while (text->at < text->beyond && *text->at != ':' && *text->at != ';')
        text->at++;
    if (!is_at(text, ':'))
        return -1;
    int64_t length = text->at - name;
    for (int64_t one = 0; one < names->count; one++)
        if (names->begins[one + 1] - names->begins[one] == length &&
            !memcmp(names->data + names->begins[one], name, (size_t)length))
            return one;
    return -1;
}

/* Read the intervals of a name, up to a semicolon or the end. Returns how many; below 0: they cannot be read. */
static inline int64_t read_group(Text *text, int64_t name, Interval *found) {
    const int64_t most_ns = MOST_NS;
    int64_t made = 0, position_ns = 0, gap_ns, length_ns;
    while (text->at < text->beyond && *text->at != ';') {
        text->at++; /* the colon, or a comma */
        if (!read_number(text, &gap_ns) || !is_at(text, '+'))
            return -1;
        text->at++;
        int64_t from_ns = position_ns + gap_ns;
        if (!read_number(text, &length_ns) || length_ns > most_ns || from_ns > most_ns)
            return -1;
        position_ns = from_ns + length_ns;
        if (position_ns > most_ns || (text->at < text->beyond && *text->at != ',' && *text->at != ';'))
            return -1;
        found[made++] = (Interval){from_ns, position_ns, name};
    }
    return made;
}

/* Read the intervals of a text. Returns how many; below 0: it cannot be read. */
static inline int64_t read_text(Text text, const Words *names, Interval *found) {
    int64_t made = 0;
    while (text.at < text.beyond) {
        if (*text.at == ';') {
            text.at++;
            continue;
        }
        int64_t name = read_name(&text, names);
        int64_t more = name < 0 ? -1 : read_group(&text, name, found + made);
        if (more < 0)
            return -1;
        made += more;
    }
    return made;
}

/* Returns how many intervals there are: for each plus sign there is room for one. */
CORE_FUNCTION(unpack_many) {
    Lent lent;
    Words names;
    const uint8_t *data;
    const int64_t *begins;
    uint8_t *odd;
    int64_t *of_text, made = 0;
    Interval *found;
    if (!core_take(&lent, packed_names, args, given, "b qt+ b qn+ Bt Qt+ Q", &data, &begins, &names.data, &names.begins,
                   &odd, &of_text, &found))
        return NULL;
    names.count = size_of(&lent, 'n');
    Py_BEGIN_ALLOW_THREADS
    of_text[0] = 0;
    for (int64_t text = 0; text < size_of(&lent, 't'); text++) {
        int64_t more = read_text((Text){data + begins[text], data + begins[text + 1]}, &names, found + made);
        odd[text] = more < 0;
        of_text[text + 1] = made += larger(more, 0);
    }
    Py_END_ALLOW_THREADS
    core_end(&lent);
    return PyLong_FromLongLong(made);
}

/* --- intervals that overlap nowhere */

static inline int comes_after(const Interval *one, const Interval *other) {
    if (one->from_ns != other->from_ns)
        return one->from_ns > other->from_ns;
    if (one->to_ns != other->to_ns)
        return one->to_ns > other->to_ns;
    return one->name > other->name;
}

static int compared(const void *one, const void *other) { return comes_after(one, other) - comes_after(other, one); }

static inline void sort_intervals(Interval *intervals, int64_t count) {
    int64_t one = 1;
    if (count > FEW) { /* those of one name are in order as they come */
        while (one < count && !comes_after(&intervals[one - 1], &intervals[one]))
            one++;
        if (one < count)
            qsort(intervals, (size_t)count, sizeof *intervals, compared); /* what is equal is the same */
        return;
    }
    for (; one < count; one++) {
        Interval moved = intervals[one];
        int64_t place = one;
        for (; place && comes_after(&intervals[place - 1], &moved); place--)
            intervals[place] = intervals[place - 1];
        intervals[place] = moved;
    }
}

/* Leave out what intervals that are in order overlap of those before them. Returns how many are left. */
static inline int64_t leave_out_overlaps(Interval *intervals, int64_t count) {
    int64_t kept = 0, before_ns = 0;
    for (int64_t one = 0; one < count; one++) {
        Interval interval = intervals[one];
        interval.from_ns = larger(interval.from_ns, before_ns);
        if (interval.from_ns < interval.to_ns) {
            intervals[kept++] = interval;
            before_ns = interval.to_ns;
        }
    }
    return kept;
}

/* Returns how many intervals are left. */
CORE_FUNCTION(put_apart) {
    Lent lent;
    const int64_t *begins;
    const Interval *found;
    int64_t *begins_left, made = 0;
    Interval *left;
    if (!core_take(&lent, packed_names, args, given, "qt+ qf Qt+ Qf", &begins, &found, &begins_left, &left))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    begins_left[0] = 0;
    for (int64_t text = 0; text < size_of(&lent, 't'); text++) {
        int64_t count = begins[text + 1] - begins[text];
        if (count) {
            memcpy(left + made, found + begins[text], (size_t)count * sizeof *found);
            sort_intervals(left + made, count);
            made += leave_out_overlaps(left + made, count);
        }
        begins_left[text + 1] = made;
    }
    Py_END_ALLOW_THREADS
    core_end(&lent);
    return PyLong_FromLongLong(made);
}

/* --- the gaps between tokens */

typedef struct {
    int64_t part; /* parts end with semicolons: the first token, gaps, buckets */
    int64_t sum_ns, together, counted, bucket;
} Gaps;

/* Read a number, maybe `x` and another, up to a comma, a semicolon or the end. 0: the format is not kept. */
static inline int read_gap(Text *text, Gaps *gaps) {
    const int64_t most_digits = MOST_DIGITS, most_ns = MOST_NS;
    int64_t number, count = 0, digits = read_digits(text, &number), count_digits = 0;
    int has_count = is_at(text, 'x');
    if (has_count) {
        text->at++;
        count_digits = read_digits(text, &count);
    }
    int ends = text->at == text->beyond || *text->at == ';';
    int is_empty = !digits && !has_count;
    if ((!ends && *text->at != ',') || digits > most_digits || count_digits > most_digits || number > most_ns ||
        count > most_ns || (!is_empty && !digits) || (has_count && !count_digits) ||
        (!gaps->part && (is_empty || has_count || !ends)))
        return 0;
    if (gaps->part == 1) {
        gaps->sum_ns += number;
        gaps->together += count;
    } else if (gaps->part == 2) {
        gaps->bucket += number;
        gaps->counted += count;
    }
    return gaps->sum_ns <= most_ns && gaps->together <= most_ns && gaps->bucket <= most_ns && gaps->counted <= most_ns;
}

/* Add up the gaps of a stream. */
static inline int64_t total_of(Text text) {
    Gaps gaps = {0, 0, 0, 0, 0};
    if (text.at == text.beyond)
        return UNREADABLE;
    for (;;) {
        if (!read_gap(&text, &gaps))
            return UNREADABLE;
        if (text.at == text.beyond)
            break;
        gaps.part += *text.at++ == ';';
    }
    int is_whole = 1 <= gaps.part && gaps.part <= 2 && gaps.together == gaps.counted && gaps.bucket <= LAST_BUCKET;
    return is_whole ? gaps.sum_ns : UNREADABLE;
}

CORE_FUNCTION(total_gaps) {
    Lent lent;
    const uint8_t *data;
    const int64_t *begins;
    int64_t *totals;
    if (!core_take(&lent, packed_names, args, given, "b qt+ Qt", &data, &begins, &totals))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t text = 0; text < size_of(&lent, 't'); text++)
        totals[text] = total_of((Text){data + begins[text], data + begins[text + 1]});
    Py_END_ALLOW_THREADS
    core_end(&lent);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    CORE_METHOD(unpack_many, "Read intervals."),
    CORE_METHOD(put_apart, "Put intervals in order, and leave out overlaps."),
    CORE_METHOD(total_gaps, "Add up the gaps between tokens."),
    {NULL, NULL, 0, NULL}};

int packed_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
