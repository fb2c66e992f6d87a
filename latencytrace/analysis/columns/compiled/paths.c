/* Critical paths with what processes reported of their pauses. */
#include "core.h"

#define PATHS_NAMES(ONE)                                                                                \
    ONE(FACTS) ONE(IS_STEP) ONE(PROCESS) /* how many columns the table of facts has, and two of them */ \
    ONE(STAGES) ONE(RUNTIME) ONE(UNATTRIBUTED) /* how many stages there are, and some of them */        \
    ONE(QUEUE) ONE(WAIT) /* the stage of gaps of this title; of others it is RUNTIME */                 \
    ONE(OWN_NAME) /* a segment is named as its span */

CORE_NAMES(paths_names, PATHS_NAMES)

typedef struct { /* as `gather` gives them */
    int64_t request, from_ns, to_ns, stage, place;
} Path;

typedef struct {
    int64_t request, begin_ns, end_ns, stage, place, title;
} Filled;

typedef struct {
    int64_t from_ns, to_ns, title;
} Gap;

typedef struct {
    const Path *segments;
    int64_t segment_count, following;
    const int64_t *tree_first, *tree_rows, *above, *stages;  /* of the trees */
    const int64_t *start_ns, *span_id, *kind, *facts, *gaps; /* by span */
    const uint8_t *tells;
    const Gap *gap;
    int64_t collection;
    /* Found */
    Filled *found;
    int64_t made;
    int64_t *ledger; /* of the request */
    /* Of the request */
    int64_t origin_ns;
    int64_t *pausing, reported; /* the spans that tell gaps */
    int64_t *whole;             /* of steps the place that they are charged to */
} Pauses;

static inline const int64_t *facts_of(const Pauses *pauses, int64_t row) {
    return pauses->facts + pauses->kind[row] * FACTS;
}

/* Note of a request's places what they are charged to, and who tells gaps. */
static inline void note_places(Pauses *pauses, int64_t base, int64_t beyond) {
    const int64_t *tree_rows = pauses->tree_rows, *stages = pauses->stages, is_step = IS_STEP;
    int64_t reported = 0;
    for (int64_t at = base; at < beyond; at++) {
        int64_t row = tree_rows[at], up = pauses->above[at];
        int is_part = up >= 0 && stages[at] == stages[up] && facts_of(pauses, row)[is_step];
        pauses->whole[at] = is_part ? pauses->whole[up] : at;
        if (pauses->tells[row])
            pauses->pausing[reported++] = row;
    }
    pauses->reported = reported;
}

/* The place that a segment is charged to. */
static inline int64_t place_of(const Pauses *pauses, const Path *segment) {
    return segment->stage == pauses->stages[segment->place] ? pauses->whole[segment->place] : segment->place;
}

/* The outermost span of the process of a row that tells; below 0: none does. */
static inline int64_t teller_for(const Pauses *pauses, int64_t of) {
    const int64_t *start_ns = pauses->start_ns, *span_id = pauses->span_id;
    int64_t process = facts_of(pauses, of)[PROCESS], first = -1;
    for (int64_t one = 0; one < pauses->reported; one++) {
        int64_t row = pauses->pausing[one];
        if (facts_of(pauses, row)[PROCESS] == process &&
            (first < 0 || start_ns[row] < start_ns[first] ||
             (start_ns[row] == start_ns[first] && span_id[row] > span_id[first])))
            first = row;
    }
    return first;
}

static inline void add_segment(Pauses *pauses, Filled segment) {
    if (segment.begin_ns >= segment.end_ns)
        return;
    int64_t *total_ns = &pauses->ledger[segment.stage];
    *total_ns = plus(*total_ns, minus(segment.end_ns, segment.begin_ns));
    pauses->found[pauses->made++] = segment;
}

/* Fill what is unattributed with the gaps of its process. Returns where the last one ends. */
static inline int64_t fill_segment(Pauses *pauses, const Path *segment, int64_t place, int64_t from_ns, int64_t to_ns) {
    int64_t teller = teller_for(pauses, pauses->tree_rows[place]);
    if (teller < 0)
        return from_ns;
    int64_t shift_ns = minus(pauses->start_ns[teller], pauses->origin_ns);
    for (int64_t one = pauses->gaps[teller]; one < pauses->gaps[teller + 1]; one++) {
        const Gap *gap = &pauses->gap[one];
        int64_t since_ns = larger(plus(gap->from_ns, shift_ns), from_ns);
        int64_t until_ns = smaller(plus(gap->to_ns, shift_ns), to_ns);
        if (since_ns >= until_ns)
            continue;
        add_segment(pauses, (Filled){segment->request, from_ns, since_ns, segment->stage, place, OWN_NAME});
        int64_t stage = gap->title == WAIT ? QUEUE : RUNTIME;
        add_segment(pauses, (Filled){segment->request, since_ns, until_ns, stage, place, gap->title});
        from_ns = until_ns;
    }
    return from_ns;
}

/* Take the next segment of a request, with those after it that are charged to the same. */
static inline void take_segment(Pauses *pauses) {
    const Path *segment = &pauses->segments[pauses->following++], *behind = pauses->segments + pauses->segment_count;
    const Path *next = segment + 1;
    int64_t place = place_of(pauses, segment), stage = segment->stage, title = OWN_NAME;
    while (next < behind && next->request == segment->request && next->stage == stage &&
           place_of(pauses, next) == place)
        next++;
    pauses->following = next - pauses->segments;
    int64_t from_ns = minus(segment->from_ns, pauses->origin_ns), to_ns = minus(next[-1].to_ns, pauses->origin_ns);
    if (stage == RUNTIME && pauses->stages[place] != stage)
        title = pauses->collection;
    else if (stage == UNATTRIBUTED && pauses->reported)
        from_ns = fill_segment(pauses, segment, place, from_ns, to_ns);
    add_segment(pauses, (Filled){segment->request, from_ns, to_ns, stage, place, title});
}

static void fill_requests(Pauses *pauses, int64_t requests, int64_t *begins, int64_t *ledger) {
    const int64_t stages = STAGES;
    memset(ledger, 0, (size_t)(requests * stages) * sizeof *ledger);
    begins[0] = 0;
    for (int64_t request = 0; request < requests; request++) {
        int64_t base = pauses->tree_first[request];
        pauses->origin_ns = pauses->start_ns[pauses->tree_rows[base]];
        pauses->ledger = ledger + request * stages;
        note_places(pauses, base, pauses->tree_first[request + 1]);
        while (pauses->following < pauses->segment_count && pauses->segments[pauses->following].request == request)
            take_segment(pauses);
        begins[request + 1] = pauses->made;
    }
}

/* `fill_pauses(segments, tree_first, tree_rows, above, stages, start_ns, span_id, kind, facts, tells, gaps, gap,
 * collection, found, begins, ledger)`: how many segments there are */
static PyObject *fill_pauses(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given) {
    Held held;
    Array segments, tree_first, tree_rows, above, stages, start_ns, span_id, kind, facts, tells, gaps, gap;
    Array found, begins, ledger;
    int64_t collection;
    if (!core_are_bound(paths_names) ||
        !arrays_take(&held, args, given, "qqqqqqqqqbqqnQQQ", &segments, &tree_first, &tree_rows, &above, &stages,
                     &start_ns, &span_id, &kind, &facts, &tells, &gaps, &gap, &collection, &found, &begins, &ledger))
        return NULL;
    int64_t requests = tree_first.count - 1, places = tree_rows.count, rows = start_ns.count;
    if (requests < 0 || above.count != places || stages.count != places || span_id.count != rows ||
        kind.count != rows || tells.count != rows || gaps.count != rows + 1 || begins.count != requests + 1 ||
        ledger.count != requests * STAGES)
        return core_misfit(&held);
    int64_t *scratch = core_scratch(&held, 2 * places);
    if (!scratch)
        return NULL;
    Pauses pauses = {.segments = segments.any,
                     .segment_count = segments.count / 5,
                     .tree_first = tree_first.q,
                     .tree_rows = tree_rows.q,
                     .above = above.q,
                     .stages = stages.q,
                     .start_ns = start_ns.q,
                     .span_id = span_id.q,
                     .kind = kind.q,
                     .facts = facts.q,
                     .gaps = gaps.q,
                     .tells = tells.b,
                     .gap = gap.any,
                     .collection = collection,
                     .found = found.any,
                     .pausing = scratch,
                     .whole = scratch + places};
    Py_BEGIN_ALLOW_THREADS
    fill_requests(&pauses, requests, begins.q, ledger.q);
    free(scratch);
    Py_END_ALLOW_THREADS
    arrays_drop(&held);
    return PyLong_FromLongLong(pauses.made);
}

static PyMethodDef functions[] = {{"fill_pauses", (PyCFunction)(void (*)(void))fill_pauses, METH_FASTCALL,
                                   "Fill what is unattributed with the gaps of the process, and add the stages up."},
                                  {NULL, NULL, 0, NULL}};

int paths_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
