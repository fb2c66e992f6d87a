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
    const int64_t *first, *span_id, *parent_id, *sent_ns, *start_ns, *end_ns, *kind, *facts, *resource, *resources,
        *target;
    const uint8_t *explains, *odd_row, *aligned;
    /* Found */
    uint8_t *odd, *skewed;
    int64_t *child, *following, *stage, *by_start;
    int64_t *retried; /* the next attempt of a failed call; below 0: none */
    Request *requests;
    int64_t made;
    /* By row, for now */
    int64_t *parent, *by_id;
    int64_t *order;  /* each parent before its children */
    int64_t *around; /* how many requests it is part of */
    int64_t *purpose, *size;
    int64_t *step_stage; /* before it is known what calls were made for */
    int64_t *room;
    uint8_t *answered; /* by another service */
    uint8_t *calls;    /* it is the parent of a server span */
    uint8_t *is_counted; /* another attempt of a call, by its client's count */
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

static inline int sticks_out(const Links *links, int64_t row) {
    int64_t above = links->parent[row];
    return links->start_ns[row] < links->start_ns[above] || links->end_ns[row] > links->end_ns[above];
}

/* The order of calls: by start, end and id. */
static inline int comes_later(const Links *links, int64_t one, int64_t other) {
    if (links->start_ns[one] != links->start_ns[other])
        return links->start_ns[one] > links->start_ns[other];
    if (links->end_ns[one] != links->end_ns[other])
        return links->end_ns[one] > links->end_ns[other];
    return links->span_id[one] > links->span_id[other];
}

static inline int is_clipped_somewhere(const Links *links, int64_t begin, int64_t beyond) {
    for (int64_t row = begin; row < beyond; row++)
        if (links->parent[row] >= 0 && sticks_out(links, row))
            return 1;
    return 0;
}

/* Put the calls below a span in order. Returns how many; below 0: more than objects compare, or too many. */
static inline int64_t calls_below(Links *links, int64_t above) {
    int64_t *calls = links->room, count = 0;
    for (int64_t one = links->child[above]; one >= 0; one = links->following[one]) {
        if (!facts_of(links, one)[CLIENT])
            continue;
        if (count == MOST_TRIED)
            return -1;
        int64_t place = count++;
        for (; place && comes_later(links, calls[place - 1], one); place--)
            calls[place] = calls[place - 1];
        calls[place] = one;
    }
    return count;
}

static inline int is_of_process(const Links *links, int64_t one, int64_t other) {
    return resource_of(links, one)[PROCESS] == resource_of(links, other)[PROCESS];
}

/* Find attempts as their clients count them: each follows the last one before that failed and had ended. */
static inline void find_counted(Links *links, int64_t count) {
    const int64_t resent = RESENT, failed = FAILED, *calls = links->room;
    for (int64_t at = 1; at < count; at++) {
        int64_t call = calls[at], attempt = facts_of(links, call)[resent];
        for (int64_t before = at - 1; attempt && before >= 0; before--) {
            int64_t one = calls[before];
            if (facts_of(links, one)[failed] && facts_of(links, one)[resent] == attempt - 1 && links->retried[one] < 0 &&
                is_of_process(links, one, call) && links->end_ns[one] <= links->start_ns[call]) {
                links->retried[one] = call;
                links->is_counted[call] = 1;
                break;
            }
        }
    }
}

/* Find attempts by their target: a failed call was made again by the next one to it. */
static inline void find_by_target(Links *links, int64_t count) {
    const int64_t worth_another = WORTH_ANOTHER, *calls = links->room, *target = links->target;
    for (int64_t at = 0; at + 1 < count; at++) {
        int64_t call = calls[at], after = at + 1;
        if (!target[call] || !facts_of(links, call)[worth_another] || links->retried[call] >= 0)
            continue;
        while (after < count && (target[calls[after]] != target[call] || !is_of_process(links, calls[after], call)))
            after++;
        if (after < count && !links->is_counted[calls[after]] && links->end_ns[call] <= links->start_ns[calls[after]])
            links->retried[call] = calls[after];
    }
}

/* Whether calls may be attempts, whatever their times are once they are clipped. */
static inline int may_be_attempts(const Links *links, int64_t count) {
    const int64_t failed = FAILED, worth_another = WORTH_ANOTHER, resent = RESENT, *calls = links->room;
    for (int64_t one = 0; one < count; one++) {
        const int64_t *facts = facts_of(links, calls[one]), target = links->target[calls[one]];
        if (!facts[failed])
            continue;
        for (int64_t other = 0; other < count; other++)
            if (other != one && is_of_process(links, calls[one], calls[other]) &&
                (facts_of(links, calls[other])[resent] ||
                 (facts[worth_another] && target && links->target[calls[other]] == target)))
                return 1;
    }
    return 0;
}

/* Find the calls below a span that failed and were made again (see `calls.retries`). 0: objects must take its trace. */
static inline int find_attempts(Links *links, int64_t above, int are_clipped) {
    int64_t count = calls_below(links, above);
    if (count < 0 || are_clipped)
        return count >= 0 && !may_be_attempts(links, count);
    find_counted(links, count);
    find_by_target(links, count);
    for (int64_t at = 0; at < count; at++) {
        int64_t call = links->room[at];
        if (links->retried[call] >= 0 && links->child[call] >= 0)
            return 0; /* what lies below it would be charged to it */
    }
    return 1;
}

/* Whether a failed call is the first one below its parent, in the order of ids. */
static inline int is_first_failed(const Links *links, int64_t failed) {
    const int64_t is_failed = FAILED;
    int64_t one = links->child[links->parent[failed]];
    while (!facts_of(links, one)[is_failed])
        one = links->following[one];
    return one == failed;
}

/* Find the calls of a trace that failed and were made again. 0: objects must take it. */
static inline int find_retries(Links *links, int64_t begin, int64_t beyond) {
    const int64_t is_failed = FAILED;
    int are_clipped = -1; /* not looked for yet */
    for (int64_t row = begin; row < beyond; row++) {
        if (!facts_of(links, row)[is_failed] || links->parent[row] < 0 || !is_first_failed(links, row))
            continue;
        if (are_clipped < 0)
            are_clipped = is_clipped_somewhere(links, begin, beyond);
        if (!find_attempts(links, links->parent[row], are_clipped))
            return 0;
    }
    return 1;
}

/* Count what lies below each span, and note who was answered by another service. */
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
    int usual = find_requests(links, trace, begin, beyond) && find_retries(links, begin, beyond);
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
        links->child[row] = links->following[row] = links->retried[row] = -1, links->is_counted[row] = 0;
    for (int64_t trace = 0; trace < traces; trace++) {
        links->skewed[trace] = 0;
        links->odd[trace] = (uint8_t)link_trace(links, trace);
    }
}

/* `link_spans(first, span_id, parent_id, sent_ns, start_ns, end_ns, kind, facts, resource, resources, target, explains,
 * odd_row, aligned, odd, skewed, child, following, stage, by_start, retried, requests)`: how many requests there are */
static PyObject *link_spans(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given) {
    Held held;
    Array first, span_id, parent_id, sent_ns, start_ns, end_ns, kind, facts, resource, resources, target, explains,
        odd_row, aligned;
    Array odd, skewed, child, following, stage, by_start, retried, requests;
    if (!core_are_bound(trees_names) ||
        !arrays_take(&held, args, given, "qqqqqqqqqqqbbbBBQQQQQQ", &first, &span_id, &parent_id, &sent_ns, &start_ns,
                     &end_ns, &kind, &facts, &resource, &resources, &target, &explains, &odd_row, &aligned, &odd,
                     &skewed, &child, &following, &stage, &by_start, &retried, &requests))
        return NULL;
    int64_t rows = span_id.count, traces = first.count - 1;
    if (traces < 0 || parent_id.count != rows || sent_ns.count != rows || start_ns.count != rows ||
        end_ns.count != rows || kind.count != rows || resource.count != rows || target.count != rows || odd_row.count != rows || aligned.count != traces ||
        odd.count != traces || skewed.count != traces || child.count != rows || following.count != rows ||
        stage.count != rows || by_start.count != rows || retried.count != rows || requests.count != 4 * rows)
        return core_misfit(&held);
    int64_t *scratch = core_scratch(&held, 11 * rows), *left = scratch;
    if (!scratch)
        return NULL;
    Links links = {.first = first.q,
                   .span_id = span_id.q,
                   .parent_id = parent_id.q,
                   .sent_ns = sent_ns.q,
                   .start_ns = start_ns.q,
                   .end_ns = end_ns.q,
                   .kind = kind.q,
                   .facts = facts.q,
                   .resource = resource.q,
                   .resources = resources.q,
                   .target = target.q,
                   .explains = explains.b,
                   .odd_row = odd_row.b,
                   .aligned = aligned.b,
                   .odd = odd.b,
                   .skewed = skewed.b,
                   .child = child.q,
                   .following = following.q,
                   .stage = stage.q,
                   .by_start = by_start.q,
                   .retried = retried.q,
                   .requests = requests.any};
    Py_BEGIN_ALLOW_THREADS
    links.parent = taken(&left, rows);
    links.by_id = taken(&left, rows);
    links.order = taken(&left, rows);
    links.around = taken(&left, rows);
    links.purpose = taken(&left, rows);
    links.size = taken(&left, rows);
    links.step_stage = taken(&left, rows);
    links.room = taken(&left, rows);
    links.answered = (uint8_t *)taken(&left, rows);
    links.calls = (uint8_t *)taken(&left, rows);
    links.is_counted = (uint8_t *)taken(&left, rows);
    link_traces(&links, traces, rows);
    free(scratch);
    Py_END_ALLOW_THREADS
    arrays_drop(&held);
    return PyLong_FromLongLong(links.made);
}

/* --- trees */

typedef struct {
    const int64_t *start_ns, *end_ns, *kind, *facts, *resource, *resources, *packed; /* by span */
    const int64_t *stage, *child, *following, *retried;       /* likewise, by `link_spans` */
    const uint8_t *is_call, *is_work;                         /* by stage */
    const int64_t *packed_times;
    int64_t *rows, *above, *begin_ns, *finish_ns, *stages, *children, *awaited;
    uint8_t *outlives, *clipped;
    int64_t *intervals, *interval_start_ns, *interval_end_ns, *interval_stage;
    int64_t *call; /* by place: the stage of the call that it is, or lies in; below 0: of none */
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

/* Tell of children whether they were clipped, and whether they outlive their parent. */
static inline void compare_children(Trees *trees, int64_t at, int64_t one, int64_t beyond) {
    const int64_t hang_up = HANG_UP;
    int64_t row = trees->rows[at], high_ns = trees->finish_ns[at];
    const int64_t *of_row = resource_at(trees, row);
    int64_t process = of_row[KNOWN_PROCESS];
    for (int64_t place = one; place < beyond; place++) {
        int64_t below = trees->rows[place], start_ns = trees->start_ns[below], end_ns = trees->end_ns[below];
        const int64_t *facts = facts_at(trees, below), *place_of = resource_at(trees, below);
        int moved = trees->begin_ns[place] != start_ns || trees->finish_ns[place] != end_ns;
        int waits = facts[MESSAGE] == hang_up && trees->child[below] < 0;
        int is_same = process >= 0 && place_of[KNOWN_PROCESS] == process;
        trees->above[place] = at;
        trees->clipped[place] = moved && !(waits || (is_same && start_ns >= high_ns));
        trees->outlives[place] =
            trees->finish_ns[place] >= high_ns && end_ns > trees->end_ns[row] && place_of[CLOCK] == of_row[CLOCK];
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

/* When work other than a pause begins among the children at some places, from a time on; else a later time. */
static inline int64_t other_work_ns(const Trees *trees, int64_t one, int64_t beyond, int64_t from_ns, int64_t until_ns) {
    const int64_t retry = RETRY;
    for (int64_t place = one; place < beyond && trees->begin_ns[place] < until_ns; place++) {
        int64_t row = trees->rows[place]; /* as it was: it may be an attempt that lasts longer by now */
        if (trees->begin_ns[place] >= from_ns && trees->start_ns[row] < trees->end_ns[row] && trees->stage[row] != retry)
            return trees->begin_ns[place];
    }
    return until_ns;
}

/* A failed attempt lasts until the next one or other work begins, unless its parent may have worked in between. What
 * is left until the next one is a wait for it. */
static inline void place_retry(Trees *trees, int64_t at) {
    int64_t next = trees->retried[trees->rows[at]], above = trees->above[at];
    trees->awaited[at] = -1;
    if (next < 0 || above < 0)
        return;
    int64_t one = trees->children[2 * above], beyond = trees->children[2 * above + 1], place = one;
    trees->stages[at] = RETRY;
    while (trees->rows[place] != next)
        place++;
    if (trees->is_work[trees->stages[above]])
        return;
    int64_t until_ns = other_work_ns(trees, one, beyond, trees->finish_ns[at], trees->begin_ns[place]);
    trees->finish_ns[at] = until_ns;
    if (until_ns < trees->begin_ns[place])
        trees->awaited[at] = trees->begin_ns[place];
}

/* Lay a request's tree out, its spans clipped from the top down. Returns how many intervals it may have. */
static int64_t lay_out_tree(Trees *trees, int64_t root, int64_t base) {
    int64_t fill = base + 1, most = 0;
    trees->rows[base] = root;
    trees->above[base] = -1;
    trees->begin_ns[base] = trees->start_ns[root];
    trees->finish_ns[base] = trees->end_ns[root];
    trees->outlives[base] = trees->clipped[base] = 0;
    for (int64_t at = base; at < fill; at++) {
        int64_t row = trees->rows[at], one = fill;
        place_stage(trees, at);
        most += trees->packed[row + 1] - trees->packed[row] + 1;
        fill = add_children(trees, at, fill);
        trees->children[2 * at] = one;
        trees->children[2 * at + 1] = fill;
        compare_children(trees, at, one, fill);
    }
    for (int64_t at = base; at < fill; at++)
        place_retry(trees, at);
    return most;
}

/* `lay_out_trees(requests, start_ns, end_ns, kind, facts, resource, resources, stage, child, following, retried, is_call, is_work, packed,
 * first, rows, above, begin_ns, finish_ns, stages, children, awaited, outlives, clipped)`: how many intervals there may be */
static PyObject *lay_out_trees(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given) {
    Held held;
    Array requests, start_ns, end_ns, kind, facts, resource, resources, stage, child, following, retried;
    Array is_call, is_work, packed, first;
    Array rows, above, begin_ns, finish_ns, stages, children, awaited, outlives, clipped;
    if (!core_are_bound(trees_names) ||
        !arrays_take(&held, args, given, "qqqqqqqqqqqbbqqQQQQQQQBB", &requests, &start_ns, &end_ns, &kind, &facts, &resource, &resources, &stage,
                     &child, &following, &retried, &is_call, &is_work, &packed, &first, &rows, &above, &begin_ns, &finish_ns, &stages, &children,
                     &awaited, &outlives, &clipped))
        return NULL;
    int64_t count = first.count - 1, spans = count < 0 ? 0 : first.q[count], all = start_ns.count, most = 0;
    if (count < 0 || requests.count != 4 * count || end_ns.count != all || kind.count != all || resource.count != all || stage.count != all ||
        child.count != all || following.count != all || retried.count != all || is_call.count != STAGES || is_work.count != STAGES || packed.count != all + 1 ||
        rows.count != spans || above.count != spans || begin_ns.count != spans || finish_ns.count != spans || stages.count != spans ||
        children.count != 2 * spans || awaited.count != spans || outlives.count != spans || clipped.count != spans)
        return core_misfit(&held);
    Trees trees = {.start_ns = start_ns.q,
                   .end_ns = end_ns.q,
                   .kind = kind.q,
                   .facts = facts.q,
                   .resource = resource.q,
                   .resources = resources.q,
                   .stage = stage.q,
                   .child = child.q,
                   .following = following.q,
                   .retried = retried.q,
                   .is_call = is_call.b,
                   .is_work = is_work.b,
                   .packed = packed.q,
                   .rows = rows.q,
                   .above = above.q,
                   .begin_ns = begin_ns.q,
                   .finish_ns = finish_ns.q,
                   .stages = stages.q,
                   .children = children.q,
                   .awaited = awaited.q,
                   .outlives = outlives.b,
                   .clipped = clipped.b};
    int64_t *scratch = core_scratch(&held, 3 * spans), *left = scratch;
    if (!scratch)
        return NULL;
    trees.room = taken(&left, 2 * spans);
    trees.call = taken(&left, spans);
    Py_BEGIN_ALLOW_THREADS
    const Request *one = requests.any;
    for (int64_t request = 0; request < count; request++)
        most += lay_out_tree(&trees, one[request].row, first.q[request]);
    free(scratch);
    Py_END_ALLOW_THREADS
    arrays_drop(&held);
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
    if (trees->retried[row] >= 0) /* that it failed says more */
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
    const int64_t message = MESSAGE, hang_up = HANG_UP, *children = trees->children;
    int64_t made = 0;
    trees->intervals[0] = 0;
    for (int64_t at = 0; at < spans; at++)
        trees->intervals[at + 1] = made = add_intervals(trees, at, made);
    for (int64_t at = 0; at < spans; at++) /* nobody waits for what waits for the caller to leave */
        if (trees->above[at] >= 0 && children[2 * at] == children[2 * at + 1] &&
            facts_at(trees, trees->rows[at])[message] == hang_up)
            trees->finish_ns[at] = trees->begin_ns[at];
    return made;
}

/* `lay_out_intervals(start_ns, kind, facts, retried, packed, packed_times, rows, above, begin_ns, finish_ns, children,
 * intervals, interval_start_ns, interval_end_ns, interval_stage)`: how many intervals there are */
static PyObject *lay_out_intervals(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given) {
    Held held;
    Array start_ns, kind, facts, retried, packed, packed_times, rows, above, begin_ns, finish_ns, children;
    Array intervals, interval_start_ns, interval_end_ns, interval_stage;
    int64_t made;
    if (!core_are_bound(trees_names) ||
        !arrays_take(&held, args, given, "qqqqqqqqqQqQQQQ", &start_ns, &kind, &facts, &retried, &packed, &packed_times, &rows,
                     &above, &begin_ns, &finish_ns, &children, &intervals, &interval_start_ns, &interval_end_ns,
                     &interval_stage))
        return NULL;
    int64_t spans = rows.count, all = start_ns.count, most = interval_start_ns.count;
    if (kind.count != all || retried.count != all || packed.count != all + 1 || above.count != spans || begin_ns.count != spans ||
        finish_ns.count != spans || children.count != 2 * spans || intervals.count != spans + 1 ||
        interval_end_ns.count != most || interval_stage.count != most)
        return core_misfit(&held);
    Trees trees = {.start_ns = start_ns.q,
                   .kind = kind.q,
                   .facts = facts.q,
                   .retried = retried.q,
                   .packed = packed.q,
                   .packed_times = packed_times.q,
                   .rows = rows.q,
                   .above = above.q,
                   .begin_ns = begin_ns.q,
                   .finish_ns = finish_ns.q,
                   .children = children.q,
                   .intervals = intervals.q,
                   .interval_start_ns = interval_start_ns.q,
                   .interval_end_ns = interval_end_ns.q,
                   .interval_stage = interval_stage.q,
                   .room = core_scratch(&held, 2 * most)};
    if (!trees.room)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    made = add_all_intervals(&trees, spans);
    free(trees.room);
    Py_END_ALLOW_THREADS
    arrays_drop(&held);
    return PyLong_FromLongLong(made);
}

static PyMethodDef functions[] = {
    {"link_spans", (PyCFunction)(void (*)(void))link_spans, METH_FASTCALL,
     "Find each span's parent, and the requests."},
    {"lay_out_trees", (PyCFunction)(void (*)(void))lay_out_trees, METH_FASTCALL, "Lay each request's tree out."},
    {"lay_out_intervals", (PyCFunction)(void (*)(void))lay_out_intervals, METH_FASTCALL,
     "Lay out what is packed on spans."},
    {NULL, NULL, 0, NULL}};

int trees_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
