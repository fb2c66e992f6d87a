/* Work off the serving thread: intervals of a span as text (`intervals.packed`), and the longest gaps
 * between a stream's tokens (`TokenRecorder._longest`). Numbers that are none of time's are left to the
 * forms in Python. */
#include "buffer.h"

enum { MAX_INTERVALS = 64, LONGEST_TOLD = 32, POINTS = 48, SAMPLED = 512, RUN = 32, MOST_STAGES = 32, MAX_GAPS = 128 };
static const int64_t LATEST_NS = INT64_C(1) << 62;

PyObject *core_intervals_key;

enum { ATTRIBUTES, DEFERRED_SLOTS };
static const char *const deferred_names[] = {"_attributes", NULL};
static Py_ssize_t of_deferred[DEFERRED_SLOTS];

enum { SPAN_START_NS, STAGES, NOTED_SLOTS };
static const char *const noted_names[] = {"span_start_ns", "stages", NULL};
static Py_ssize_t of_noted[NOTED_SLOTS];
static PyObject *noted_type, *tokens_type;

enum { BUCKETS, FIRST_NS, LENGTHS, TIMES, TOGETHER, TOKENS_SLOTS };
static const char *const tokens_names[] = {"_buckets", "_first_ns", "_lengths", "times", "_together", NULL};
static Py_ssize_t of_tokens[TOKENS_SLOTS];

/* --- numbers of Python's */

/* Read a list of times or lengths. 1: read; 0: a number is none, or negative; -1: an exception is set. */
static int numbers_in(PyObject *list, int64_t **numbers, Py_ssize_t *count) {
    *count = PySequence_Fast_GET_SIZE(list);
    *numbers = PyMem_Malloc((size_t)(*count ? *count : 1) * sizeof **numbers);
    if (!*numbers) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject **items = PySequence_Fast_ITEMS(list);
    for (Py_ssize_t at = 0; at < *count; at++) {
        int overflow = 1;
        int64_t number = PyLong_CheckExact(items[at]) ? PyLong_AsLongLongAndOverflow(items[at], &overflow) : 0;
        if (overflow || number < 0 || number >= LATEST_NS) {
            PyMem_Free(*numbers);
            *numbers = NULL;
            return 0;
        }
        (*numbers)[at] = number;
    }
    return 1;
}

/* --- intervals */

typedef struct {
    const char *name;
    Py_ssize_t name_length;
    int64_t *times; /* start, end, start, end … */
    Py_ssize_t pairs;
    Py_ssize_t size; /* neighbours that become one */
} Group;

/* Merge each so many neighbours into one interval as long as all of them, which ends where the last did. */
static void merge(Group *group) {
    Py_ssize_t merged = 0;
    for (Py_ssize_t at = 0; at < group->pairs; at += group->size, merged++) {
        Py_ssize_t until = at + group->size < group->pairs ? at + group->size : group->pairs;
        int64_t busy_ns = 0, last_ns = group->times[2 * until - 1];
        for (Py_ssize_t one = at; one < until; one++) busy_ns += group->times[2 * one + 1] - group->times[2 * one];
        group->times[2 * merged] = last_ns - busy_ns;
        group->times[2 * merged + 1] = last_ns;
    }
    group->pairs = merged;
}

/* Merge neighbours, of the stage that has the most, until few enough are left to report. */
static void make_fewer(Group *groups, Py_ssize_t count) {
    Py_ssize_t left[MOST_STAGES], all = 0;
    for (Py_ssize_t at = 0; at < count; at++) all += left[at] = groups[at].pairs;
    while (all > MAX_INTERVALS) {
        Py_ssize_t longest = 0;
        for (Py_ssize_t at = 1; at < count; at++)
            if (left[at] > left[longest]) longest = at;
        groups[longest].size *= 2;
        all -= left[longest];
        left[longest] = (left[longest] + 1) / 2;
        all += left[longest];
    }
    for (Py_ssize_t at = 0; at < count; at++)
        if (groups[at].size > 1) merge(groups + at);
}

static int by_time(const void *one, const void *other) {
    const int64_t *a = one, *b = other;
    if (a[0] != b[0]) return a[0] < b[0] ? -1 : 1;
    return a[1] < b[1] ? -1 : a[1] > b[1];
}

static void put_group(Buffer *out, Group *group, int64_t span_start_ns) {
    int64_t before_ns = span_start_ns, *times = group->times;
    for (Py_ssize_t at = 0; at < group->pairs; before_ns = times[2 * at + 1], at++)
        if (times[2 * at] < before_ns || times[2 * at + 1] <= times[2 * at]) { /* they overlap */
            qsort(times, (size_t)group->pairs, 2 * sizeof *times, by_time);
            break;
        }
    int is_first = 1;
    before_ns = span_start_ns;
    for (Py_ssize_t at = 0; at < group->pairs; at++) {
        int64_t start_ns = times[2 * at], end_ns = times[2 * at + 1];
        if (end_ns <= start_ns || end_ns <= before_ns) continue;
        int64_t gap_ns = start_ns > before_ns ? start_ns - before_ns : 0;
        if (is_first) {
            if (out->length) buffer_byte(out, ';');
            buffer_put(out, group->name, group->name_length);
            buffer_byte(out, ':');
        } else {
            buffer_byte(out, ',');
        }
        is_first = 0;
        buffer_decimal(out, (uint64_t)gap_ns);
        buffer_byte(out, '+');
        buffer_decimal(out, (uint64_t)(end_ns - before_ns - gap_ns));
        before_ns = end_ns;
    }
}

static void into_order(Group *group) {
    for (Py_ssize_t at = 1; at < group->pairs; at++)
        if (group->times[2 * at] < group->times[2 * at - 1]) {
            qsort(group->times, (size_t)group->pairs, 2 * sizeof *group->times, by_time);
            return;
        }
}

/* Read the times of one stage, and chunks' behind them. As `numbers_in`. */
static int group_of(Group *group, PyObject *noted, const int64_t *more, Py_ssize_t of_more) {
    Py_ssize_t length;
    int read = numbers_in(noted, &group->times, &length);
    if (read <= 0) return read;
    group->pairs = length / 2;
    group->size = 1;
    if (!of_more) return 1;
    int64_t *times = PyMem_Realloc(group->times, (size_t)(2 * group->pairs + of_more) * sizeof *times);
    if (!times) {
        PyMem_Free(group->times);
        PyErr_NoMemory();
        return -1;
    }
    group->times = times;
    /* Both are in order of time, nearly always: from the back each finds its place. */
    Py_ssize_t own = 2 * group->pairs, left = of_more, to = own + of_more;
    while (left) {
        int is_own = own && times[own - 2] > more[left - 2];
        const int64_t *last = is_own ? times + (own -= 2) : more + (left -= 2);
        times[--to] = last[1];
        times[--to] = last[0];
    }
    group->pairs += of_more / 2;
    return 1;
}

/* Likewise `core_pack`, with the times of chunks among those of the list `sends`. */
static int pack_with(PyObject *stages, PyObject *span_start, PyObject *sends, const int64_t *more, Py_ssize_t of_more, Buffer *out) {
    Group groups[MOST_STAGES];
    Py_ssize_t count = 0, all = 0, at = 0;
    PyObject *stage, *noted;
    int overflow = 1, packed = 1;
    int64_t span_start_ns = PyLong_CheckExact(span_start) ? PyLong_AsLongLongAndOverflow(span_start, &overflow) : 0;
    if (overflow || span_start_ns < 0 || span_start_ns >= LATEST_NS) return 0;
    while (packed > 0 && PyDict_Next(stages, &at, &stage, &noted)) {
        if (!PyList_CheckExact(noted) || !PyUnicode_Check(stage) || count == MOST_STAGES) packed = 0;
        else if (PyList_GET_SIZE(noted) > 1 || (noted == sends && of_more)) {
            Group *group = groups + count;
            group->name = PyUnicode_AsUTF8AndSize(stage, &group->name_length);
            packed = group->name ? group_of(group, noted, more, noted == sends ? of_more : 0) : -1;
            if (packed <= 0) break;
            all += 2 * group->pairs;
            count++;
        }
    }
    if (packed > 0) {
        if (all > 2 * MAX_INTERVALS) {
            for (Py_ssize_t one = 0; one < count; one++) into_order(groups + one);
            make_fewer(groups, count);
        }
        for (Py_ssize_t one = 1; one < count; one++) /* by their first time, as they were noted where that is one */
            for (Py_ssize_t to = one; to > 0 && groups[to].times[0] < groups[to - 1].times[0]; to--) {
                Group other = groups[to];
                groups[to] = groups[to - 1];
                groups[to - 1] = other;
            }
        for (Py_ssize_t one = 0; one < count; one++) put_group(out, groups + one, span_start_ns);
    }
    for (Py_ssize_t one = 0; one < count; one++) PyMem_Free(groups[one].times);
    return packed;
}

int core_pack(PyObject *stages, PyObject *span_start, Buffer *out) { return pack_with(stages, span_start, NULL, NULL, 0, out); }

PyObject *core_worked_out_by(PyObject *deferred) { return SLOT(deferred, of_deferred[ATTRIBUTES]); }

int core_pack_deferred(PyObject *deferred, Buffer *out) {
    PyObject *noted = SLOT(deferred, of_deferred[ATTRIBUTES]);
    if (!noted || !noted_type || !Py_IS_TYPE(noted, (PyTypeObject *)noted_type)) return 0;
    PyObject *stages = SLOT(noted, of_noted[STAGES]), *start = SLOT(noted, of_noted[SPAN_START_NS]);
    if (!stages || !start || !PyDict_CheckExact(stages)) return 0;
    return core_pack(stages, start, out);
}

/* `packed(stages, span_start_ns)` */
static PyObject *packed(PyObject *callable, PyObject *const *args, size_t count, PyObject *names) {
    if (PyVectorcall_NARGS(count) != 2 || names || !PyDict_CheckExact(args[0])) return core_original(callable, args, count, names);
    Buffer out = {0};
    int done = core_pack(args[0], args[1], &out);
    PyObject *text = done > 0 && !out.failed ? PyUnicode_FromStringAndSize(out.bytes, out.length) : NULL;
    if (out.failed) PyErr_NoMemory();
    buffer_free(&out);
    return done || out.failed ? text : core_original(callable, args, count, names);
}

/* --- token times */

enum { MOST_BUCKETS = 1024 };

/* How many gaps are in each bucket, and the first and the last bucket that has any. */
typedef struct {
    uint32_t counts[MOST_BUCKETS];
    int first, last;
} Buckets;

static void empty(Buckets *buckets) {
    memset(buckets->counts, 0, sizeof buckets->counts);
    buckets->first = MOST_BUCKETS;
    buckets->last = -1;
}

static int bucket_of(int64_t length_ns) {
    if (length_ns < 32) return (int)length_ns;
    int shift = 59 - __builtin_clzll((uint64_t)length_ns);
    return (shift << 4) + (int)(length_ns >> shift);
}

static int64_t least_of(int bucket) {
    int shift = bucket / 16 - 1;
    if (shift < 0) shift = 0;
    return (int64_t)(bucket - 16 * shift) << shift;
}

static void count_more(Buckets *buckets, int bucket, uint32_t more) {
    buckets->counts[bucket] += more;
    if (bucket < buckets->first) buckets->first = bucket;
    if (bucket > buckets->last) buckets->last = bucket;
}

/* The place-th of the longest among numbers that are in one bucket, which `other` has room for. */
static int64_t longest_in(int bucket, Py_ssize_t place, const int64_t *numbers, Py_ssize_t count, int64_t *other) {
    int64_t least = least_of(bucket), beyond = least_of(bucket + 1);
    Py_ssize_t low = 0, high = -1;
    for (Py_ssize_t at = 0; at < count; at++)
        if (numbers[at] >= least && numbers[at] < beyond) other[++high] = numbers[at];
    for (place--; low < high;) { /* Hoare's way of finding it: those before it are no shorter, those behind no longer */
        int64_t middle = other[low + (high - low) / 2];
        Py_ssize_t from = low, to = high;
        while (from <= to) {
            while (other[from] > middle) from++;
            while (other[to] < middle) to--;
            if (from > to) break;
            int64_t one = other[from];
            other[from++] = other[to];
            other[to--] = one;
        }
        if (place <= to) high = to;
        else if (place >= from) low = from;
        else break;
    }
    return other[place];
}

/* Count gaps in their buckets; `known` are those of the lengths of some of them, or of all, `length` in number. */
static void count_in_buckets(Buckets *buckets, const Buckets *known, Py_ssize_t length, Py_ssize_t gaps) {
    Py_ssize_t points = gaps < POINTS ? gaps : POINTS, stood_for = 0, point = 0, longer = 0;
    int bucket = known->first - 1;
    while (point < points) { /* each stands for those around it; those of one bucket at once */
        while (longer <= (2 * point + 1) * length / (2 * points)) longer += known->counts[++bucket];
        Py_ssize_t reaches = ((2 * points * longer + length - 1) / length) / 2;
        point = reaches < points ? reaches : points;
        Py_ssize_t until = gaps * point / points;
        count_more(buckets, bucket, (uint32_t)(until - stood_for));
        stood_for = until;
    }
}

static Py_ssize_t sample(const int64_t *lengths, Py_ssize_t count, int64_t *sampled) {
    if (count < SAMPLED) {
        memcpy(sampled, lengths, (size_t)count * sizeof *lengths);
        return count;
    }
    Py_ssize_t taken = 0;
    for (Py_ssize_t start = 0; start < count; start += 4 * RUN)
        for (Py_ssize_t at = start; at < start + RUN && at < count; at++) sampled[taken++] = lengths[at];
    return taken;
}

typedef struct {
    int64_t length;
    Py_ssize_t at;
} Place;

static int longest_first(const void *one, const void *other) {
    const Place *a = one, *b = other;
    if (a->length != b->length) return a->length > b->length ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static int in_place(const void *one, const void *other) {
    const Place *a = one, *b = other;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* Gaps between tokens in order of time: how long each is, and of how many together; 0: one by itself. */
typedef struct {
    int64_t *lengths, *together;
    Py_ssize_t count;
} Gaps;

static int gaps_make_room(Gaps *gaps, Py_ssize_t count) {
    gaps->lengths = PyMem_Calloc(2 * (size_t)(count ? count : 1), sizeof *gaps->lengths);
    gaps->together = gaps->lengths ? gaps->lengths + (count ? count : 1) : NULL;
    gaps->count = 0;
    if (gaps->lengths) return 0;
    PyErr_NoMemory();
    return -1;
}

static void gaps_add(Gaps *gaps, int64_t length, int64_t together) {
    gaps->lengths[gaps->count] = length;
    gaps->together[gaps->count++] = together;
}

static void put_together(Gaps *found, const Gaps *gaps, Py_ssize_t first, Py_ssize_t last) {
    int64_t length = 0, count = 0;
    for (Py_ssize_t at = first; at < last; at++) {
        length += gaps->lengths[at];
        count += gaps->together[at] ? gaps->together[at] : 1;
    }
    gaps_add(found, length, count);
}

/* Report the longest gaps by themselves and the others together, counted in buckets. 1: done; 0: Python's form
 * is to; -1: an exception is set. */
static int reported(Gaps *found, Buckets *buckets, const Gaps *gaps) {
    Py_ssize_t count = gaps->count, merged = 0, told = 0, longer = 0, others = 0, known = 0, before = 0;
    int64_t *alone = PyMem_Malloc(3 * (size_t)count * sizeof *alone), *sampled = alone ? alone + count : NULL;
    Place *places = PyMem_Malloc((size_t)count * sizeof *places);
    Buckets of_sample;
    int done = -1, bucket;
    if (!alone || !places) {
        PyErr_NoMemory();
        goto end;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        alone[at] = gaps->together[at] ? -1 : gaps->lengths[at];
        merged += gaps->together[at] != 0;
    }
    Py_ssize_t taken = sample(alone, count, sampled);
    empty(&of_sample);
    for (Py_ssize_t at = 0; at < taken; at++)
        if (sampled[at] >= 0) count_more(&of_sample, bucket_of(sampled[at]), 1);
    done = 0;
    for (bucket = of_sample.last; bucket >= of_sample.first; longer += of_sample.counts[bucket--])
        if (longer + of_sample.counts[bucket] >= LONGEST_TOLD) break;
    if (bucket < of_sample.first) goto end; /* fewer are by themselves */
    /* At least so many are as long, and not many more. */
    int64_t long_ns = longest_in(bucket, LONGEST_TOLD - longer, sampled, taken, alone + 2 * count);
    for (Py_ssize_t at = 0; at < count; at++)
        if (alone[at] >= long_ns) places[told++] = (Place){alone[at], at};
    if (told > LONGEST_TOLD) {
        qsort(places, (size_t)told, sizeof *places, longest_first);
        told = LONGEST_TOLD;
        long_ns = places[told - 1].length;
        qsort(places, (size_t)told, sizeof *places, in_place);
    }
    others = count - LONGEST_TOLD - merged;
    bucket = bucket_of(long_ns);
    of_sample.counts[bucket] = 0;
    for (Py_ssize_t at = 0; at < taken; at++) of_sample.counts[bucket] += sampled[at] <= long_ns && sampled[at] >= least_of(bucket);
    for (int below = of_sample.first; below <= bucket; below++) known += of_sample.counts[below];
    if (others > 0 && !known) goto end;
    if (gaps_make_room(found, 2 * told + 1) < 0) {
        done = -1;
        goto end;
    }
    count_in_buckets(buckets, &of_sample, known, others);
    for (Py_ssize_t one = 0; one < told; one++) {
        Py_ssize_t place = places[one].at;
        if (place > before) put_together(found, gaps, before, place);
        gaps_add(found, gaps->lengths[place], 0);
        before = place + 1;
    }
    if (before < count) put_together(found, gaps, before, count);
    done = 1;
end:
    PyMem_Free(alone);
    PyMem_Free(places);
    return done;
}

/* Count more gaps of a bucket in a dict. -1 with an exception. */
static int add_to(PyObject *buckets, int bucket, int64_t more) {
    PyObject *key = PyLong_FromLong(bucket), *before = key ? PyDict_GetItemWithError(buckets, key) : NULL;
    long long known = before ? PyLong_AsLongLong(before) : 0;
    PyObject *after = PyErr_Occurred() ? NULL : PyLong_FromLongLong(known + more);
    int done = after ? PyDict_SetItem(buckets, key, after) : -1;
    Py_XDECREF(key);
    Py_XDECREF(after);
    return done;
}

static PyObject *list_of(const int64_t *numbers, Py_ssize_t count) {
    PyObject *list = PyList_New(count);
    for (Py_ssize_t at = 0; list && at < count; at++) {
        PyObject *number = PyLong_FromLongLong(numbers[at]);
        if (number) PyList_SET_ITEM(list, at, number);
        else Py_CLEAR(list);
    }
    return list;
}

/* `TokenRecorder._longest(self, lengths, together, passed_ns)` */
static PyObject *longest(PyObject *callable, PyObject *const *args, size_t nargs, PyObject *names) {
    int is_usual = PyVectorcall_NARGS(nargs) == 4 && !names && tokens_type && Py_IS_TYPE(args[0], (PyTypeObject *)tokens_type);
    PyObject *buckets = is_usual ? SLOT(args[0], of_tokens[BUCKETS]) : NULL, *both = NULL;
    if (!buckets || !PyDict_CheckExact(buckets)) return core_original(callable, args, nargs, names);
    Gaps gaps = {0}, found = {0};
    Py_ssize_t count = 0, together = 0;
    int64_t *marks = NULL;
    Buckets counted;
    empty(&counted);
    int read = PyList_CheckExact(args[1]) ? numbers_in(args[1], &gaps.lengths, &count) : 0;
    if (read > 0) read = PyList_CheckExact(args[2]) || PyTuple_CheckExact(args[2]) ? numbers_in(args[2], &marks, &together) : 0;
    if (read > 0 && count && (!together || together == count)) {
        gaps.count = count;
        gaps.together = marks;
        if (!together) {
            PyMem_Free(marks);
            marks = gaps.together = PyMem_Calloc((size_t)count, sizeof *marks);
        }
        read = marks ? reported(&found, &counted, &gaps) : -1;
        for (int bucket = counted.first; read > 0 && bucket <= counted.last; bucket++)
            if (counted.counts[bucket]) read = add_to(buckets, bucket, counted.counts[bucket]) < 0 ? -1 : 1;
        if (read > 0) {
            PyObject *lengths = list_of(found.lengths, found.count), *of_them = list_of(found.together, found.count);
            both = lengths && of_them ? PyTuple_Pack(2, lengths, of_them) : NULL;
            Py_XDECREF(lengths);
            Py_XDECREF(of_them);
        }
    }
    PyMem_Free(gaps.lengths);
    PyMem_Free(marks);
    PyMem_Free(found.lengths);
    if (read < 0 && !PyErr_Occurred()) PyErr_NoMemory();
    return both || PyErr_Occurred() ? both : core_original(callable, args, nargs, names);
}

/* Make gaps of times, of which too many become few, and add them to those before. As `reported`. */
static int fold(Gaps *gaps, Buckets *buckets, PyObject *recorder, const int64_t *times, Py_ssize_t count) {
    Gaps fresh = {0}, all = {0}, few = {0};
    int64_t *lengths = NULL, *together = NULL;
    Py_ssize_t before = 0, marks = 0;
    int done = numbers_in(SLOT(recorder, of_tokens[LENGTHS]), &lengths, &before);
    if (done > 0) done = numbers_in(SLOT(recorder, of_tokens[TOGETHER]), &together, &marks);
    if (done > 0) done = marks != before ? 0 : gaps_make_room(&fresh, count) < 0 ? -1 : 1;
    for (Py_ssize_t at = 1; done > 0 && at < count; at++) {
        if (times[at] < times[at - 1]) done = 0;
        else gaps_add(&fresh, times[at] - times[at - 1], 0);
    }
    if (done > 0 && fresh.count > MAX_GAPS) {
        done = reported(&few, buckets, &fresh);
        PyMem_Free(fresh.lengths);
        fresh = few;
        few = (Gaps){0};
    }
    if (done > 0) done = gaps_make_room(&all, before + fresh.count) < 0 ? -1 : 1;
    if (done > 0) {
        for (Py_ssize_t at = 0; at < before; at++) gaps_add(&all, lengths[at], together[at]);
        for (Py_ssize_t at = 0; at < fresh.count; at++) gaps_add(&all, fresh.lengths[at], fresh.together[at]);
        if (all.count > MAX_GAPS) {
            done = reported(&few, buckets, &all);
            PyMem_Free(all.lengths);
            all = few;
        }
    }
    PyMem_Free(lengths);
    PyMem_Free(together);
    PyMem_Free(fresh.lengths);
    if (done > 0) *gaps = all;
    else PyMem_Free(all.lengths);
    return done;
}

static int known_buckets(PyObject *recorder, Buckets *buckets) {
    PyObject *known = SLOT(recorder, of_tokens[BUCKETS]), *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(known, &at, &key, &value)) {
        long bucket = PyLong_Check(key) ? PyLong_AsLong(key) : -1, count = PyLong_Check(value) ? PyLong_AsLong(value) : -1;
        if (bucket < 0 || bucket >= MOST_BUCKETS || count < 0 || count > INT32_MAX) {
            PyErr_Clear();
            return 0;
        }
        count_more(buckets, (int)bucket, (uint32_t)count);
    }
    return 1;
}

static void put_gaps(Buffer *out, const Gaps *gaps, const Buckets *buckets, int64_t first_ns) {
    int is_first = 1, before = 0;
    buffer_decimal(out, (uint64_t)(first_ns > 0 ? first_ns : 0));
    buffer_byte(out, ';');
    for (Py_ssize_t at = 0; at < gaps->count; at++) {
        if (at) buffer_byte(out, ',');
        buffer_decimal(out, (uint64_t)gaps->lengths[at]);
        if (gaps->together[at]) {
            buffer_byte(out, 'x');
            buffer_decimal(out, (uint64_t)gaps->together[at]);
        }
    }
    for (int bucket = buckets->first; bucket <= buckets->last; bucket++) {
        if (!buckets->counts[bucket]) continue;
        buffer_byte(out, is_first ? ';' : ',');
        buffer_decimal(out, (uint64_t)(bucket - before));
        buffer_byte(out, 'x');
        buffer_decimal(out, (uint64_t)buckets->counts[bucket]);
        before = bucket;
        is_first = 0;
    }
}

/* Write the times of a recorder's tokens, the ends of chunks among them, which nothing is done to. 1: done, nothing is
 * written where there is no gap; 0: Python's form is to; -1: an exception is set. */
int core_pack_tokens(PyObject *recorder, int64_t span_start_ns, const int64_t *pairs, Py_ssize_t of_pairs, Buffer *out, int64_t *first_ns) {
    if (!tokens_type || !Py_IS_TYPE(recorder, (PyTypeObject *)tokens_type)) return 0;
    for (int at = 0; at < TOKENS_SLOTS; at++)
        if (!SLOT(recorder, of_tokens[at])) return 0;
    PyObject *times = SLOT(recorder, of_tokens[TIMES]), *first = SLOT(recorder, of_tokens[FIRST_NS]);
    if (!PyList_CheckExact(times) || !PyList_CheckExact(SLOT(recorder, of_tokens[LENGTHS])) || !PyDict_CheckExact(SLOT(recorder, of_tokens[BUCKETS])) ||
        !PyList_CheckExact(SLOT(recorder, of_tokens[TOGETHER])))
        return 0;
    int64_t *all = NULL;
    Buckets buckets;
    Py_ssize_t count = 0;
    Gaps gaps = {0};
    int overflow = 0, done;
    empty(&buckets);
    done = known_buckets(recorder, &buckets);
    if (done > 0) done = numbers_in(times, &all, &count);
    if (done > 0) {
        int64_t *more = PyMem_Realloc(all, (size_t)(count + of_pairs / 2 + 1) * sizeof *all);
        if (more) all = more;
        else PyErr_NoMemory();
        done = more ? 1 : -1;
    }
    if (done > 0) {
        for (Py_ssize_t at = 1; at < of_pairs; at += 2) all[count++] = pairs[at];
        done = count ? fold(&gaps, &buckets, recorder, all, count) : 0;
    }
    if (done > 0) {
        *first_ns = first == Py_None ? all[0] : PyLong_CheckExact(first) ? PyLong_AsLongLongAndOverflow(first, &overflow) : -1;
        if (overflow || *first_ns < 0) done = 0;
        else if (gaps.count) put_gaps(out, &gaps, &buckets, *first_ns - span_start_ns);
    }
    PyMem_Free(all);
    PyMem_Free(gaps.lengths);
    if (done < 0 && !PyErr_Occurred()) PyErr_NoMemory();
    return done;
}

/* `token_text(recorder, span_start_ns, chunks)`: what `TokenRecorder.packed` returns once the ends of chunks are
 * among its times. None: Python's form is to. */
static PyObject *token_text(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *recorder, *chunks, *text = NULL;
    long long span_start_ns;
    int64_t first_ns;
    Py_ssize_t of_pairs;
    if (!PyArg_ParseTuple(args, "OLO", &recorder, &span_start_ns, &chunks)) return NULL;
    const int64_t *pairs = core_chunks(chunks, &of_pairs);
    if (!pairs) Py_RETURN_NONE;
    Buffer out = {0};
    int done = core_pack_tokens(recorder, span_start_ns, pairs, of_pairs, &out, &first_ns);
    if (done > 0) text = out.failed ? PyErr_NoMemory() : PyUnicode_FromStringAndSize(out.bytes, out.length);
    buffer_free(&out);
    return text || PyErr_Occurred() ? text : Py_NewRef(Py_None);
}

int core_pack_sends(PyObject *stages, PyObject *span_start, PyObject *sends, const int64_t *pairs, Py_ssize_t of_pairs, Buffer *out) {
    return pack_with(stages, span_start, sends, pairs, of_pairs, out);
}

/* `interval_text(stages, span_start_ns, sends, chunks)`: what `packed` returns once chunks are among the times of
 * the list `sends`. None: Python's form is to. */
static PyObject *interval_text(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *stages, *start, *sends, *chunks, *text = NULL;
    Py_ssize_t of_pairs;
    if (!PyArg_ParseTuple(args, "O!OOO", &PyDict_Type, &stages, &start, &sends, &chunks)) return NULL;
    const int64_t *pairs = core_chunks(chunks, &of_pairs);
    if (!pairs) Py_RETURN_NONE;
    Buffer out = {0};
    int done = pack_with(stages, start, sends, pairs, of_pairs, &out);
    if (done > 0) text = out.failed ? PyErr_NoMemory() : PyUnicode_FromStringAndSize(out.bytes, out.length);
    buffer_free(&out);
    return text || PyErr_Occurred() ? text : Py_NewRef(Py_None);
}

/* --- setting up */

CORE_METHOD(packed, 0)
CORE_METHOD(longest, 0)
CORE_KEEPS(bind_deferred, {NULL, deferred_names, of_deferred}, {&noted_type, noted_names, of_noted}, KEPT_TEXT(core_intervals_key))
CORE_KEEPS(bind_tokens, {&tokens_type, tokens_names, of_tokens})

static PyMethodDef functions[] = {
    {"packed", packed_for, METH_VARARGS, "Return what stands in the place of `intervals.packed`."},
    {"longest", longest_for, METH_VARARGS, "Likewise, of `TokenRecorder._longest`."},
    {"bind_deferred", bind_deferred, METH_VARARGS, "Take the classes of deferred attributes and of noted intervals, and their key."},
    {"token_text", token_text, METH_VARARGS, "Write the times of tokens, those of chunks among them."},
    {"interval_text", interval_text, METH_VARARGS, "Write intervals, the sends of chunks among them."},
    {"bind_tokens", bind_tokens, METH_VARARGS, "Take the class that records tokens."},
    {NULL, NULL, 0, NULL}};

int packing_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
