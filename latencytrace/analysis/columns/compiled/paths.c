/* Critical paths with waits for the next attempt of a call, and with what processes reported of their pauses. */
#include "core.h"

#define PATHS_NAMES(ONE)                                                                                \
    ONE(FACTS) ONE(IS_STEP)         /* how many columns the table of facts has, and one of them */      \
    ONE(OF_RESOURCES) ONE(PROCESS) /* likewise that of resources */                                     \
    ONE(STAGES) ONE(RUNTIME) ONE(UNATTRIBUTED) /* how many stages there are, and some of them */        \
    ONE(RETRY) /* the stage of waits for the next attempt */                                            \
    ONE(QUEUE) ONE(WAIT) ONE(TURN)   /* the stage of gaps of these titles; of others it is RUNTIME, */  \
    ONE(DATABASE) ONE(LIBRARY)       /* but for this one */                                             \
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
    const int64_t *tree_first, *tree_rows, *above, *held_ns, *stages, *attempt, *awaited; /* of the trees */
    const int64_t *start_ns, *span_id, *kind, *facts, *resource, *resources, *gaps; /* by span */
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
    int64_t *waiting, waits;    /* the attempts whose parents wait for the next ones */
    int64_t *first_wait;        /* by place: where its own begin among them; below 0: it has none */
} Pauses;

static inline const int64_t *facts_of(const Pauses *pauses, int64_t row) {
    return pauses->facts + pauses->kind[row] * FACTS;
}

static inline int64_t process_of(const Pauses *pauses, int64_t row) {
    return pauses->resources[pauses->resource[row] * OF_RESOURCES + PROCESS];
}

/* Add an attempt whose parent waits for the next one: those of a parent in order of when they ended, then of when the
 * next one began, then of ids. */
static inline void add_wait(Pauses *pauses, int64_t at) {
    const int64_t *held_ns = pauses->held_ns, *awaited = pauses->awaited, *waiting = pauses->waiting;
    int64_t up = pauses->above[at], place = pauses->waits++;
    if (pauses->first_wait[up] < 0)
        pauses->first_wait[up] = place;
    for (; place > pauses->first_wait[up]; place--) {
        int64_t one = waiting[place - 1];
        if (held_ns[one] != held_ns[at] ? held_ns[one] < held_ns[at]
            : awaited[one] != awaited[at]   ? awaited[one] < awaited[at]
                                            : pauses->span_id[pauses->tree_rows[one]] < pauses->span_id[pauses->tree_rows[at]])
            break;
        pauses->waiting[place] = one;
    }
    pauses->waiting[place] = at;
}

/* Note of a request's places what they are charged to, which tell gaps, and which wait. */
static inline void note_places(Pauses *pauses, int64_t base, int64_t beyond) {
    const int64_t *tree_rows = pauses->tree_rows, *stages = pauses->stages, is_step = IS_STEP;
    int64_t reported = 0;
    pauses->waits = 0;
    for (int64_t at = base; at < beyond; at++) {
        int64_t row = tree_rows[at], up = pauses->above[at];
        int is_part = up >= 0 && stages[at] == stages[up] && facts_of(pauses, row)[is_step];
        pauses->whole[at] = is_part ? pauses->whole[up] : at;
        pauses->first_wait[at] = -1;
        if (pauses->tells[row])
            pauses->pausing[reported++] = row;
        if (pauses->awaited[at] >= 0)
            add_wait(pauses, at);
    }
    pauses->reported = reported;
}

/* The place that a segment is charged to: a step's is that of its whole, that of what lies below a failed attempt the
 * attempt. */
static inline int64_t place_of(const Pauses *pauses, const Path *segment) {
    int64_t own = segment->stage == pauses->stages[segment->place] ? pauses->whole[segment->place] : segment->place;
    return pauses->attempt[own] >= 0 ? pauses->attempt[own] : own;
}

/* The outermost span of the process of a row that tells; below 0: none does. */
static inline int64_t teller_for(const Pauses *pauses, int64_t of) {
    const int64_t *start_ns = pauses->start_ns, *span_id = pauses->span_id;
    int64_t process = process_of(pauses, of), first = -1;
    for (int64_t one = 0; one < pauses->reported; one++) {
        int64_t row = pauses->pausing[one];
        if (process_of(pauses, row) == process &&
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
    Filled *last = pauses->found + pauses->made - 1;
    if (pauses->made && last->request == segment.request && last->place == segment.place && last->stage == segment.stage &&
        last->title == OWN_NAME && segment.title == OWN_NAME)
        last->end_ns = segment.end_ns; /* a failed attempt, and the wait after it */
    else
        pauses->found[pauses->made++] = segment;
}

/* Fill what is unattributed with the gaps of its process. Returns where the last one ends. */
static inline int64_t fill_segment(Pauses *pauses, Filled segment) {
    int64_t teller = teller_for(pauses, pauses->tree_rows[segment.place]), from_ns = segment.begin_ns;
    if (teller < 0)
        return from_ns;
    int64_t shift_ns = minus(pauses->start_ns[teller], pauses->origin_ns);
    for (int64_t one = pauses->gaps[teller]; one < pauses->gaps[teller + 1]; one++) {
        const Gap *gap = &pauses->gap[one];
        int64_t since_ns = larger(plus(gap->from_ns, shift_ns), from_ns);
        int64_t until_ns = smaller(plus(gap->to_ns, shift_ns), segment.end_ns);
        if (since_ns >= until_ns)
            continue;
        add_segment(pauses, (Filled){segment.request, from_ns, since_ns, segment.stage, segment.place, OWN_NAME});
        int waits = gap->title == WAIT || gap->title == TURN;
        int64_t stage = waits ? QUEUE : gap->title == LIBRARY ? DATABASE : RUNTIME;
        add_segment(pauses, (Filled){segment.request, since_ns, until_ns, stage, segment.place, gap->title});
        from_ns = until_ns;
    }
    return from_ns;
}

/* Add a segment that is no wait. */
static inline void add_filled(Pauses *pauses, Filled segment) {
    if (segment.stage == RUNTIME && pauses->stages[segment.place] != RUNTIME)
        segment.title = pauses->collection;
    else if (segment.stage == UNATTRIBUTED && pauses->reported)
        segment.begin_ns = fill_segment(pauses, segment);
    add_segment(pauses, segment);
}

/* Add the own time of a span: what of it was a wait for the next attempt of a call is charged to the one that failed. */
static inline void add_own(Pauses *pauses, Filled segment) {
    int64_t place = segment.place, one = pauses->first_wait[place], before_ns = INT64_MIN;
    for (; one < pauses->waits && pauses->above[pauses->waiting[one]] == place; one++) {
        int64_t attempt = pauses->waiting[one];
        int64_t since_ns = larger(minus(pauses->held_ns[attempt], pauses->origin_ns), before_ns);
        int64_t until_ns = minus(pauses->awaited[attempt], pauses->origin_ns);
        if (since_ns >= until_ns)
            continue; /* a wait before it lasted longer */
        before_ns = until_ns;
        since_ns = larger(since_ns, segment.begin_ns);
        until_ns = smaller(until_ns, segment.end_ns);
        if (since_ns >= until_ns)
            continue;
        add_filled(pauses, (Filled){segment.request, segment.begin_ns, since_ns, segment.stage, place, OWN_NAME});
        add_segment(pauses, (Filled){segment.request, since_ns, until_ns, RETRY, attempt, OWN_NAME});
        segment.begin_ns = until_ns;
    }
    add_filled(pauses, segment);
}

/* Take the next segment of a request, with those after it that are charged to the same. */
static inline void take_segment(Pauses *pauses) {
    const Path *segment = &pauses->segments[pauses->following++], *behind = pauses->segments + pauses->segment_count;
    const Path *next = segment + 1;
    int64_t place = place_of(pauses, segment), stage = segment->stage;
    while (next < behind && next->request == segment->request && next->stage == stage &&
           place_of(pauses, next) == place)
        next++;
    pauses->following = next - pauses->segments;
    int64_t from_ns = minus(segment->from_ns, pauses->origin_ns), to_ns = minus(next[-1].to_ns, pauses->origin_ns);
    Filled whole = {segment->request, from_ns, to_ns, stage, place, OWN_NAME};
    if (pauses->first_wait[place] >= 0 && stage == pauses->stages[place])
        add_own(pauses, whole);
    else
        add_filled(pauses, whole);
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

/* Returns how many segments there are. */
CORE_FUNCTION(fill_pauses) {
    Lent lent;
    Pauses pauses = {0};
    int64_t *begins, *ledger;
    if (!core_take(&lent, paths_names, args, given, "q5g qm+ qp qp qp qp qp qp qr qr qr q qr q br qr+ q n Q Qm+ Q*m",
                   &pauses.segments, &pauses.tree_first, &pauses.tree_rows, &pauses.above, &pauses.held_ns,
                   &pauses.stages, &pauses.attempt, &pauses.awaited, &pauses.start_ns, &pauses.span_id, &pauses.kind,
                   &pauses.facts, &pauses.resource, &pauses.resources, &pauses.tells, &pauses.gaps, &pauses.gap,
                   &pauses.collection, &pauses.found, &begins, STAGES, &ledger))
        return NULL;
    pauses.segment_count = size_of(&lent, 'g');
    if (!core_room(&lent, size_of(&lent, 'p'), &pauses.pausing, &pauses.whole, &pauses.waiting, &pauses.first_wait))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    fill_requests(&pauses, size_of(&lent, 'm'), begins, ledger);
    Py_END_ALLOW_THREADS
    core_end(&lent);
    return PyLong_FromLongLong(pauses.made);
}

static PyMethodDef functions[] = {CORE_METHOD(fill_pauses, "Fill what is unattributed with the gaps of the process, and add the stages up."),
                                  {NULL, NULL, 0, NULL}};

int paths_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
