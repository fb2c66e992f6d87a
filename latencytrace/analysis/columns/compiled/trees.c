/* From columns of spans to one well-formed tree a request. */
#include "core.h"

#define TREES_NAMES(ONE)                                                                                    \
    ONE(FACTS) /* how many columns the table of facts has; those are */                                     \
    ONE(CLIENT) ONE(FAILED) ONE(IS_STEP) ONE(LEAF_ONLY) ONE(MESSAGE) ONE(ODD) ONE(RESENT) ONE(SERVER)       \
    ONE(STAGE) ONE(WORTH_ANOTHER)                                                                           \
    ONE(OF_RESOURCES) /* likewise that of resources */                                                      \
    ONE(CLOCK) ONE(KNOWN_PROCESS) ONE(PROCESS) ONE(SERVICE)                                                 \
    ONE(HANG_UP) ONE(SENT) /* messages */                                                                   \
    ONE(STAGES) ONE(NETWORK) ONE(OTHER) ONE(RESPOND) ONE(RETRY) ONE(UNATTRIBUTED) /* how many stages, and some */      \
    ONE(NO_PARENT) ONE(MAX_NESTED_REQUESTS) ONE(MAX_NESTED_SPANS) ONE(MOST_REQUESTS) ONE(MOST_TRIED)

CORE_NAMES(trees_names, TREES_NAMES)

typedef struct {
    int64_t row, trace, is_outermost, spans;
} Request;

/* --- parents and requests */

typedef struct {
    const int64_t *first, *span_id, *parent_id, *sent_ns, *start_ns, *end_ns, *kind, *facts, *resource, *resources;
    const uint8_t *explains, *odd_row, *aligned;
    /* Found */
    uint8_t *odd, *skewed;
    int64_t *child, *following, *stage, *by_start;
    Request *requests;
    int64_t made;
    /* By row, for now */
    int64_t *parent, *by_id;
    int64_t *order;  /* each parent before its children */
    int64_t *around; /* how many requests it is part of */
    int64_t *purpose, *size;
    int64_t *step_stage; /* before it is known what calls were made for */
    int64_t *tried;      /* how many calls it made */
    int64_t *room;
    uint8_t *answered; /* by another service */
    uint8_t *calls;    /* it is the parent of a server span */
} Links;

static inline const int64_t *facts_of(const Links *links, int64_t row) {
    return links->facts + links->kind[row] * FACTS;
}

static inline const int64_t *resource_of(const Links *links, int64_t row) {
    return links->resources + links->resource[row] * OF_RESOURCES;
}

static inline int is_usual(const Links *links, int64_t begin, int64_t beyond) {
    const int64_t odd = ODD;
    for (int64_t row = begin; row < beyond; row++)
        if (links->odd_row[row] || facts_of(links, row)[odd] || links->sent_ns[row] < 0 ||
            links->end_ns[row] < links->sent_ns[row])
            return 0;
    return 1;
}

/* Put rows in order of ids, then of start. 0: an id comes twice. */
static inline int put_in_order(Links *links, int64_t begin, int64_t beyond) {
    const int64_t *span_id = links->span_id;
    int64_t *by_id = links->by_id, *by_start = links->by_start;
    for (int64_t row = begin; row < beyond; row++)
        by_id[row] = row;
    sort_places(by_id + begin, beyond - begin, span_id, links->room);
    for (int64_t place = begin + 1; place < beyond; place++)
        if (span_id[by_id[place - 1]] == span_id[by_id[place]])
            return 0;
    for (int64_t place = begin; place < beyond; place++)
        by_start[place] = by_id[place];
    sort_places(by_start + begin, beyond - begin, links->start_ns, links->room);
    return 1;
}

/* The row of an id; below 0: none has it. */
static inline int64_t row_of(const Links *links, int64_t begin, int64_t beyond, int64_t wanted) {
    const int64_t *span_id = links->span_id, *by_id = links->by_id;
    int64_t low = begin, high = beyond;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (span_id[by_id[middle]] <= wanted)
            low = middle;
        else
            high = middle;
    }
    return span_id[by_id[low]] == wanted ? by_id[low] : -1;
}

/* Find parents. Without a root, a server span whose caller is not traced is one. Returns where in the order the
 * roots end; below 0: they are odd. */
static inline int64_t find_parents(Links *links, int64_t begin, int64_t beyond) {
    int64_t heads = 0, orphans = 0, fill = begin;
    for (int64_t at = beyond - 1; at >= begin; at--) {
        int64_t row = links->by_id[at], wanted = links->parent_id[row];
        int64_t above = wanted == NO_PARENT ? -1 : row_of(links, begin, beyond, wanted);
        links->parent[row] = above;
        if (above >= 0) {
            links->following[row] = links->child[above];
            links->child[above] = row;
            continue;
        }
        if (wanted == NO_PARENT)
            heads++;
        else if (facts_of(links, row)[SERVER])
            orphans++;
        else
            return -1;
        links->order[fill++] = row;
    }
    return heads && orphans ? -1 : fill;
}

/* Put each parent before its children. 0: what is not reached goes round. */
static inline int put_parents_first(Links *links, int64_t begin, int64_t beyond, int64_t fill) {
    int64_t *order = links->order;
    for (int64_t at = begin; at < fill; at++)
        for (int64_t below = links->child[order[at]]; below >= 0; below = links->following[below])
            order[fill++] = below;
    return fill == beyond;
}

/* Clocks agree if the child may lie within its parent as they are. */
static inline int clocks_differ(const Links *links, int64_t row, int64_t above) {
    int64_t low = minus(links->sent_ns[above], links->sent_ns[row]);
    int64_t high = minus(links->end_ns[above], links->end_ns[row]);
    return low > 0 || (low <= high && high < 0);
}

/* Find the requests of a trace, and whether its clocks differ. 0: it is odd. */
static inline int find_requests(Links *links, int64_t trace, int64_t begin, int64_t beyond) {
    int64_t *around = links->around;
    int usual = 1;
    for (int64_t at = begin; at < beyond; at++) {
        int64_t row = links->order[at], above = links->parent[row];
        links->answered[row] = links->calls[row] = 0;
        links->size[row] = 1;
        if (above < 0) {
            links->requests[links->made++] = (Request){row, trace, 1, 0};
            around[row] = 1;
            continue;
        }
        const int64_t *facts = facts_of(links, row), *of_above = facts_of(links, above);
        const int64_t *place = resource_of(links, row), *place_above = resource_of(links, above);
        around[row] = around[above];
        usual &= !of_above[LEAF_ONLY];
        if (facts[SERVER] && place[SERVICE] != place_above[SERVICE]) {
            links->calls[above] = of_above[CLIENT] != 0;
            usual &= around[row] <= MAX_NESTED_REQUESTS;
            links->requests[links->made++] = (Request){row, trace, 0, 0};
            around[row]++;
        }
        if (place[CLOCK] != place_above[CLOCK] && !links->aligned[trace] && clocks_differ(links, row, above))
            links->skewed[trace] = 1;
    }
    return usual;
}

/* Whether a span of a trace made more calls than objects compare, one of which failed. */
static inline int tries_too_often(Links *links, int64_t begin, int64_t beyond) {
    const int64_t failed = FAILED, client = CLIENT, *parent = links->parent;
    int64_t *tried = links->tried, fails = 0;
    for (int64_t row = begin; row < beyond; row++) {
        fails |= facts_of(links, row)[failed];
        tried[row] = 0;
    }
    for (int64_t row = begin; fails && row < beyond; row++)
        if (parent[row] >= 0)
            tried[parent[row]] += facts_of(links, row)[client];
    for (int64_t row = begin; fails && row < beyond; row++)
        if (parent[row] >= 0 && facts_of(links, row)[failed] && tried[parent[row]] > MOST_TRIED)
            return 1;
    return 0;
}

/* Count what lies below each span, and note which were answered by another service. */
static inline void add_up(Links *links, int64_t begin, int64_t beyond) {
    const int64_t service = SERVICE;
    for (int64_t at = beyond - 1; at >= begin; at--) {
        int64_t row = links->order[at], above = links->parent[row];
        if (above < 0)
            continue;
        links->size[above] += links->size[row];
        if (links->answered[row] || resource_of(links, row)[service] != resource_of(links, above)[service])
            links->answered[above] = 1;
    }
}

/* Note how many spans requests have. Returns how many those within others have together. */
static inline int64_t measure_requests(Links *links, int64_t before) {
    int64_t nested = 0;
    for (Request *one = links->requests + before; one < links->requests + links->made; one++) {
        one->spans = links->size[one->row];
        if (!one->is_outermost)
            nested += one->spans;
    }
    return nested;
}

/* Find what calls were made for, and with it the stages. */
static inline void find_stages(Links *links, int64_t begin, int64_t beyond) {
    const int64_t network = NETWORK, other = OTHER, unattributed = UNATTRIBUTED;
    int64_t *purpose = links->purpose, *step_stage = links->step_stage;
    for (int64_t at = begin; at < beyond; at++) {
        int64_t row = links->order[at], above = links->parent[row], for_what = -1;
        const int64_t *facts = facts_of(links, row);
        int64_t stage = facts[STAGE];
        if (stage == other && above >= 0 && facts[IS_STEP])
            stage = step_stage[above];
        step_stage[row] = stage;
        if (links->calls[row] && (stage == other || stage == unattributed))
            stage = network;
        if (above >= 0 && resource_of(links, row)[SERVICE] == resource_of(links, above)[SERVICE])
            for_what = purpose[above];
        if (stage != network) {
            purpose[row] = links->explains[stage] ? stage : for_what;
        } else {
            purpose[row] = for_what;
            if (for_what >= 0 && facts[CLIENT] && !links->answered[row])
                stage = for_what;
        }
        links->stage[row] = stage;
    }
}

/* Whether a request comes after another: the outermost come first, in order of start, then of ids. */
static inline int comes_after(const Links *links, const Request *one, const Request *other) {
    if (one->is_outermost != other->is_outermost)
        return other->is_outermost != 0;
    if (links->start_ns[one->row] != links->start_ns[other->row])
        return links->start_ns[one->row] > links->start_ns[other->row];
    return links->span_id[one->row] > links->span_id[other->row];
}

static inline void sort_requests(const Links *links, Request *requests, int64_t count) { /* `MOST_REQUESTS` at most */
    for (int64_t one = 1; one < count; one++) {
        Request moved = requests[one];
        int64_t place = one;
        for (; place && comes_after(links, &requests[place - 1], &moved); place--)
            requests[place] = requests[place - 1];
        requests[place] = moved;
    }
}

/* Link the spans of a trace. Returns whether it is odd. */
static int link_trace(Links *links, int64_t trace) {
    int64_t begin = links->first[trace], beyond = links->first[trace + 1], before = links->made;
    if (!is_usual(links, begin, beyond) || !put_in_order(links, begin, beyond))
        return 1;
    int64_t fill = find_parents(links, begin, beyond);
    if (fill < 0 || !put_parents_first(links, begin, beyond, fill))
        return 1;
    int usual = find_requests(links, trace, begin, beyond) && !tries_too_often(links, begin, beyond);
    add_up(links, begin, beyond);
    int64_t nested = measure_requests(links, before);
    if (!usual || nested > MAX_NESTED_SPANS || links->made - before > MOST_REQUESTS)
        links->skewed[trace] = usual = 0;
    if (!usual || links->skewed[trace]) {
        links->made = before;
        return 1;
    }
    find_stages(links, begin, beyond);
    sort_requests(links, links->requests + before, links->made - before);
    return 0;
}

static void link_traces(Links *links, int64_t traces, int64_t rows) {
    for (int64_t row = 0; row < rows; row++)
        links->child[row] = links->following[row] = -1;
    for (int64_t trace = 0; trace < traces; trace++) {
        links->skewed[trace] = 0;
        links->odd[trace] = (uint8_t)link_trace(links, trace);
    }
}

/* Returns how many requests there are. */
CORE_FUNCTION(link_spans) {
    Lent lent;
    Links links = {.made = 0};
    if (!core_take(&lent, trees_names, args, given,
                   "qt+ qr qr qr qr qr qr q qr q b br bt Bt Bt Qr Qr Qr Qr Q4r", &links.first, &links.span_id,
                   &links.parent_id, &links.sent_ns, &links.start_ns, &links.end_ns, &links.kind, &links.facts,
                   &links.resource, &links.resources, &links.explains, &links.odd_row, &links.aligned, &links.odd,
                   &links.skewed, &links.child, &links.following, &links.stage, &links.by_start, &links.requests))
        return NULL;
    int64_t rows = size_of(&lent, 'r');
    if (!core_room(&lent, rows, &links.parent, &links.by_id, &links.order, &links.around, &links.purpose, &links.size,
                   &links.step_stage, &links.tried, &links.room, &links.answered, &links.calls))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    link_traces(&links, size_of(&lent, 't'), rows);
    Py_END_ALLOW_THREADS
    core_end(&lent);
    return PyLong_FromLongLong(links.made);
}

/* --- trees */

typedef struct {
    const int64_t *start_ns, *end_ns, *kind, *facts, *resource, *resources, *packed; /* by span */
    const int64_t *target;                                    /* likewise */
    const int64_t *stage, *child, *following;                 /* likewise, by `link_spans` */
    const uint8_t *is_call, *is_work;                         /* by stage */
    const int64_t *packed_times;
    int64_t *rows, *above, *begin_ns, *finish_ns, *held_ns, *stages, *children, *attempt, *awaited;
    uint8_t *outlives, *clipped;
    int64_t *intervals, *interval_start_ns, *interval_end_ns, *interval_stage;
    int64_t *call; /* by place: the stage of the call that it is, or lies in; below 0: of none */
    int64_t *next; /* by place: the next attempt of a failed call; below 0: none */
    uint8_t *is_counted; /* by place: another attempt of a call, by its client's count */
    int64_t *room;
} Trees;

static inline const int64_t *facts_at(const Trees *trees, int64_t row) {
    return trees->facts + trees->kind[row] * FACTS;
}

static inline const int64_t *resource_at(const Trees *trees, int64_t row) {
    return trees->resources + trees->resource[row] * OF_RESOURCES;
}

/* Put the children of the span at a place behind those before, in order of start. Returns where they end. */
static inline int64_t add_children(Trees *trees, int64_t at, int64_t fill) {
    const int64_t *start_ns = trees->start_ns, *end_ns = trees->end_ns, *following = trees->following;
    int64_t *rows = trees->rows, *begin_ns = trees->begin_ns, *finish_ns = trees->finish_ns;
    int64_t low_ns = begin_ns[at], high_ns = finish_ns[at], one = fill;
    for (int64_t below = trees->child[rows[at]]; below >= 0; below = following[below]) { /* in order of ids */
        rows[fill] = below;
        begin_ns[fill] = smaller(larger(start_ns[below], low_ns), high_ns);
        finish_ns[fill] = smaller(larger(end_ns[below], low_ns), high_ns);
        fill++;
    }
    sort_columns(begin_ns + one, finish_ns + one, rows + one, fill - one, trees->room);
    return fill;
}

/* Whether a span went on when the one above it had ended, by the clock that both tell. */
static inline int outlives(const Trees *trees, int64_t at) {
    int64_t above = trees->above[at], row = trees->rows[at], over = trees->rows[above];
    return trees->held_ns[at] >= trees->held_ns[above] && trees->end_ns[row] > trees->end_ns[over] &&
           resource_at(trees, row)[CLOCK] == resource_at(trees, over)[CLOCK];
}

/* Whether a span only waits for the caller to leave. */
static inline int awaits_hang_up(const Trees *trees, int64_t row) {
    return facts_at(trees, row)[MESSAGE] == HANG_UP && trees->child[row] < 0;
}

/* Tell of children whether they were clipped, and whether they outlive their parent. */
static inline void compare_children(Trees *trees, int64_t at, int64_t one, int64_t beyond) {
    int64_t high_ns = trees->finish_ns[at], process = resource_at(trees, trees->rows[at])[KNOWN_PROCESS];
    for (int64_t place = one; place < beyond; place++) {
        int64_t below = trees->rows[place], start_ns = trees->start_ns[below], end_ns = trees->end_ns[below];
        int moved = trees->begin_ns[place] != start_ns || trees->finish_ns[place] != end_ns;
        int is_same = process >= 0 && resource_at(trees, below)[KNOWN_PROCESS] == process;
        trees->above[place] = at;
        trees->held_ns[place] = awaits_hang_up(trees, below) ? trees->begin_ns[place] : trees->finish_ns[place];
        trees->clipped[place] = moved && !(awaits_hang_up(trees, below) || (is_same && start_ns >= high_ns));
        trees->outlives[place] = (uint8_t)outlives(trees, place);
    }
}

/* Note the stage of a span in this tree: without one of its own, that of the call around it. */
static inline void place_stage(Trees *trees, int64_t at) {
    const int64_t other = OTHER, unattributed = UNATTRIBUTED;
    int64_t stage = trees->stage[trees->rows[at]], above = trees->above[at];
    int64_t call = above < 0 ? -1 : trees->call[above];
    trees->stages[at] = call >= 0 && (stage == other || stage == unattributed) ? call : stage;
    trees->call[at] = trees->is_call[stage] ? stage : call;
}

/* --- calls that failed and were made again (see `calls.retries`) */

/* Put the calls below the span at a place in order: by start, end and id. Returns how many; at most `MOST_TRIED`, where
 * one of them failed. */
static inline int64_t calls_below(Trees *trees, int64_t at) {
    const int64_t client = CLIENT, *begin_ns = trees->begin_ns, *held_ns = trees->held_ns;
    int64_t *calls = trees->room, count = 0;
    for (int64_t one = trees->children[2 * at]; one < trees->children[2 * at + 1]; one++) { /* by start and id */
        if (!facts_at(trees, trees->rows[one])[client])
            continue;
        int64_t place = count++;
        for (; place && begin_ns[calls[place - 1]] == begin_ns[one] && held_ns[calls[place - 1]] > held_ns[one]; place--)
            calls[place] = calls[place - 1];
        calls[place] = one;
    }
    return count;
}

static inline int may_follow(const Trees *trees, int64_t one, int64_t other) {
    return trees->held_ns[one] <= trees->begin_ns[other];
}

static inline int is_of_process(const Trees *trees, int64_t one, int64_t other) {
    return resource_at(trees, trees->rows[one])[PROCESS] == resource_at(trees, trees->rows[other])[PROCESS];
}

/* Find attempts as their clients count them: each follows the last one before that failed and had ended. */
static inline void find_counted(Trees *trees, int64_t count) {
    const int64_t resent = RESENT, failed = FAILED, *calls = trees->room;
    for (int64_t at = 1; at < count; at++) {
        int64_t call = calls[at], attempt = facts_at(trees, trees->rows[call])[resent];
        for (int64_t before = at - 1; attempt && before >= 0; before--) {
            int64_t one = calls[before];
            const int64_t *facts = facts_at(trees, trees->rows[one]);
            if (facts[failed] && facts[resent] == attempt - 1 && trees->next[one] < 0 &&
                is_of_process(trees, one, call) && may_follow(trees, one, call)) {
                trees->next[one] = call;
                trees->is_counted[call] = 1;
                break;
            }
        }
    }
}

/* Find attempts by their target: a failed call was made again by the next one to it. */
static inline void find_by_target(Trees *trees, int64_t count) {
    const int64_t worth_another = WORTH_ANOTHER, *calls = trees->room, *rows = trees->rows;
    for (int64_t at = 0; at + 1 < count; at++) {
        int64_t call = calls[at], after = at + 1, target = trees->target[rows[call]];
        if (!target || !facts_at(trees, rows[call])[worth_another] || trees->next[call] >= 0)
            continue;
        while (after < count && (trees->target[rows[calls[after]]] != target || !is_of_process(trees, calls[after], call)))
            after++;
        if (after < count && !trees->is_counted[calls[after]] && may_follow(trees, call, calls[after]))
            trees->next[call] = calls[after];
    }
}

static inline int has_failed_call(const Trees *trees, int64_t at) {
    const int64_t failed = FAILED;
    for (int64_t one = trees->children[2 * at]; one < trees->children[2 * at + 1]; one++)
        if (facts_at(trees, trees->rows[one])[failed])
            return 1;
    return 0;
}

/* Until when a failed attempt lasts: until the next one, or until work other than a pause begins beside it; no longer
 * than it did where its parent may have worked in between. */
static inline int64_t lasts_until(const Trees *trees, int64_t at) {
    int64_t above = trees->above[at], ended_ns = trees->held_ns[at], until_ns = trees->begin_ns[trees->next[at]];
    if (trees->is_work[trees->stages[above]])
        return ended_ns;
    int64_t place = trees->children[2 * above];
    for (; trees->begin_ns[place] < until_ns; place++) /* the next one begins then */
        if (trees->begin_ns[place] >= ended_ns && trees->begin_ns[place] < trees->held_ns[place] &&
            trees->stages[place] != RETRY)
            return trees->begin_ns[place];
    return until_ns;
}

/* Charge what lies below a failed attempt to it. What is left until the next one is a wait of its parent for it. */
static inline void place_attempt(Trees *trees, int64_t at) {
    int64_t above = trees->above[at], next = trees->next[at], until_ns = trees->awaited[at];
    int64_t around = above < 0 ? -1 : trees->attempt[above];
    trees->attempt[at] = next >= 0 ? at : around;
    trees->awaited[at] = -1;
    if (next >= 0) {
        trees->held_ns[at] = until_ns;
        if (around < 0 && !trees->is_work[trees->stages[above]] && until_ns < trees->begin_ns[next])
            trees->awaited[at] = trees->begin_ns[next];
    }
    if (trees->attempt[at] >= 0)
        trees->stages[at] = RETRY;
    if (above >= 0)
        trees->outlives[at] = (uint8_t)outlives(trees, at);
}

static inline void find_attempts(Trees *trees, int64_t base, int64_t beyond) {
    for (int64_t at = base; at < beyond; at++) {
        trees->next[at] = -1;
        trees->is_counted[at] = 0;
    }
    for (int64_t at = base; at < beyond; at++)
        if (has_failed_call(trees, at)) {
            int64_t count = calls_below(trees, at);
            find_counted(trees, count);
            find_by_target(trees, count);
        }
    for (int64_t at = base; at < beyond; at++) /* as all of them were */
        trees->awaited[at] = trees->next[at] < 0 ? -1 : lasts_until(trees, at);
    for (int64_t at = base; at < beyond; at++)
        place_attempt(trees, at);
}

/* --- */

/* Lay a request's tree out, its spans clipped from the top down. Returns how many intervals it may have. */
static int64_t lay_out_tree(Trees *trees, int64_t root, int64_t base) {
    const int64_t failed = FAILED;
    int64_t fill = base + 1, most = 0, fails = 0;
    trees->rows[base] = root;
    trees->above[base] = -1;
    trees->begin_ns[base] = trees->start_ns[root];
    trees->finish_ns[base] = trees->held_ns[base] = trees->end_ns[root];
    trees->outlives[base] = trees->clipped[base] = 0;
    for (int64_t at = base; at < fill; at++) {
        int64_t row = trees->rows[at], one = fill;
        place_stage(trees, at);
        trees->attempt[at] = trees->awaited[at] = -1;
        fails |= facts_at(trees, row)[failed];
        most += trees->packed[row + 1] - trees->packed[row] + 1;
        fill = add_children(trees, at, fill);
        trees->children[2 * at] = one;
        trees->children[2 * at + 1] = fill;
        compare_children(trees, at, one, fill);
    }
    if (fails)
        find_attempts(trees, base, fill);
    return most;
}

/* Returns how many intervals there may be. */
CORE_FUNCTION(lay_out_trees) {
    Lent lent;
    Trees trees = {0};
    const Request *requests;
    const int64_t *first;
    if (!core_take(&lent, trees_names, args, given,
                   "q4m qr qr qr q qr q qr qr qr qr b* b* qr+ qm+ Qs Qs Qs Qs Qs Qs Q2s Qs Qs Bs Bs", &requests,
                   &trees.start_ns, &trees.end_ns, &trees.kind, &trees.facts, &trees.resource, &trees.resources,
                   &trees.target, &trees.stage, &trees.child, &trees.following, STAGES, &trees.is_call, STAGES,
                   &trees.is_work, &trees.packed, &first, &trees.rows, &trees.above, &trees.begin_ns, &trees.finish_ns,
                   &trees.held_ns, &trees.stages, &trees.children, &trees.attempt, &trees.awaited, &trees.outlives,
                   &trees.clipped))
        return NULL;
    int64_t count = size_of(&lent, 'm'), spans = size_of(&lent, 's'), most = 0;
    if (first[count] != spans)
        return core_misfit(&lent);
    if (!core_room(&lent, 2 * spans, &trees.room) ||
        !core_room(&lent, spans, &trees.call, &trees.next, &trees.is_counted))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t request = 0; request < count; request++)
        most += lay_out_tree(&trees, requests[request].row, first[request]);
    Py_END_ALLOW_THREADS
    core_end(&lent);
    return PyLong_FromLongLong(most);
}

/* --- what is packed on their spans */

static inline int64_t add_interval(Trees *trees, int64_t made, int64_t from_ns, int64_t to_ns, int64_t stage) {
    if (from_ns >= to_ns)
        return made;
    trees->interval_start_ns[made] = from_ns;
    trees->interval_end_ns[made] = to_ns;
    trees->interval_stage[made] = stage;
    return made + 1;
}

/* Add the intervals of the span at a place, and the messages sent below it, in order of start. */
static inline int64_t add_intervals(Trees *trees, int64_t at, int64_t made) {
    const int64_t message = MESSAGE, sent = SENT, respond = RESPOND, *children = trees->children;
    int64_t row = trees->rows[at], start_ns = trees->start_ns[row], one = made;
    int64_t begin_ns = trees->begin_ns[at], finish_ns = trees->finish_ns[at];
    const int64_t *packed = trees->packed_times + 3 * trees->packed[row];
    if (trees->attempt[at] >= 0) /* that it failed says more */
        return made;
    for (const int64_t *beyond = trees->packed_times + 3 * trees->packed[row + 1]; packed < beyond; packed += 3)
        made = add_interval(trees, made, larger(plus(start_ns, packed[0]), begin_ns),
                            smaller(plus(start_ns, packed[1]), finish_ns), packed[2]);
    for (int64_t place = children[2 * at]; place < children[2 * at + 1]; place++)
        if (facts_at(trees, trees->rows[place])[message] == sent && children[2 * place] == children[2 * place + 1])
            made = add_interval(trees, made, trees->begin_ns[place], trees->finish_ns[place], respond);
    sort_columns(trees->interval_start_ns + one, trees->interval_end_ns + one, trees->interval_stage + one, made - one,
                 trees->room);
    return made;
}

static int64_t add_all_intervals(Trees *trees, int64_t spans) {
    int64_t made = 0;
    trees->intervals[0] = 0;
    for (int64_t at = 0; at < spans; at++)
        trees->intervals[at + 1] = made = add_intervals(trees, at, made);
    return made;
}

/* Returns how many intervals there are. */
CORE_FUNCTION(lay_out_intervals) {
    Lent lent;
    Trees trees = {0};
    int64_t made;
    if (!core_take(&lent, trees_names, args, given, "qr qr q qr+ q qs qs qs q2s qs Qs+ Qi Qi Qi", &trees.start_ns,
                   &trees.kind, &trees.facts, &trees.packed, &trees.packed_times, &trees.rows, &trees.begin_ns,
                   &trees.finish_ns, &trees.children, &trees.attempt, &trees.intervals, &trees.interval_start_ns,
                   &trees.interval_end_ns, &trees.interval_stage) ||
        !core_room(&lent, 2 * size_of(&lent, 'i'), &trees.room))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    made = add_all_intervals(&trees, size_of(&lent, 's'));
    Py_END_ALLOW_THREADS
    core_end(&lent);
    return PyLong_FromLongLong(made);
}

static PyMethodDef functions[] = {
    CORE_METHOD(link_spans, "Find each span's parent, and the requests."),
    CORE_METHOD(lay_out_trees, "Lay each request's tree out."),
    CORE_METHOD(lay_out_intervals, "Lay out what is packed on spans."),
    {NULL, NULL, 0, NULL}};

int trees_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
