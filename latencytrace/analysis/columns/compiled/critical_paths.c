/* Critical paths: what intervals win, the parts of spans that count, and the segments that these make. */
#include "core.h"

/* Of a part that is another span's, in the place of its stage, which is never below 0. */
#define CRITICAL_PATHS_NAMES(ONE)            \
    ONE(DIVIDE)  /* its row is the span's */ \
    ONE(LOOK_UP) /* it has a track: its row is that */

CORE_NAMES(critical_paths_names, CRITICAL_PATHS_NAMES)

typedef struct { /* of a span that counts, or of its time that an interval wins */
    int64_t row, from_ns, to_ns, stage;
} Part;

typedef struct { /* where its parts begin and end */
    int64_t trace, begin, beyond;
} Track;

typedef struct {
    int64_t trace, from_ns, to_ns, stage, row;
} Segment;

/* --- what intervals win */

typedef struct {
    const int64_t *start_ns, *end_ns, *stage;
    int64_t *heap, count; /* the intervals that run, the one that ends last on top */
} Running;

/* Whether one wins over another: it ends later; began later; its stage comes first; so does it. */
static inline int wins(const Running *running, int64_t one, int64_t other) {
    if (running->end_ns[one] != running->end_ns[other])
        return running->end_ns[one] > running->end_ns[other];
    if (running->start_ns[one] != running->start_ns[other])
        return running->start_ns[one] > running->start_ns[other];
    if (running->stage[one] != running->stage[other])
        return running->stage[one] < running->stage[other];
    return one < other;
}

static inline void begin_interval(Running *running, int64_t interval) {
    int64_t *heap = running->heap, place = running->count++;
    while (place) {
        int64_t above = (place - 1) / 2;
        if (wins(running, heap[above], interval))
            break;
        heap[place] = heap[above];
        place = above;
    }
    heap[place] = interval;
}

static inline void end_winner(Running *running) {
    int64_t *heap = running->heap, count = --running->count, moved = heap[count], place = 0;
    for (int64_t below = 1; below < count; below = 2 * place + 1) {
        if (below + 1 < count && wins(running, heap[below + 1], heap[below]))
            below++;
        if (wins(running, moved, heap[below]))
            break;
        heap[place] = heap[below];
        place = below;
    }
    heap[place] = moved;
}

static int64_t find_winners(Running *running, const int64_t *intervals, int64_t spans, Part *winners, int64_t *won) {
    const int64_t *start_ns = running->start_ns, *end_ns = running->end_ns;
    int64_t made = 0;
    for (int64_t row = 0; row < spans; row++) {
        int64_t following = intervals[row], last = intervals[row + 1];
        won[row] = made;
        while (following < last) {
            int64_t at_ns = start_ns[following];
            begin_interval(running, following++);
            while (running->count) {
                while (following < last && start_ns[following] <= at_ns)
                    begin_interval(running, following++);
                int64_t winner = running->heap[0], until_ns = end_ns[winner];
                if (until_ns <= at_ns) {
                    end_winner(running);
                    continue;
                }
                if (following < last)
                    until_ns = smaller(until_ns, start_ns[following]);
                winners[made++] = (Part){row, at_ns, until_ns, running->stage[winner]};
                at_ns = until_ns;
            }
        }
    }
    won[spans] = made;
    return made;
}

/* Returns how many winners there are. */
CORE_FUNCTION(win) {
    Lent lent;
    Running running = {.count = 0};
    const int64_t *intervals;
    Part *winners;
    int64_t *won, made;
    if (!core_take(&lent, critical_paths_names, args, given, "qs+ qi qi qi Qw Qs+", &intervals, &running.start_ns,
                   &running.end_ns, &running.stage, &winners, &won))
        return NULL;
    if (size_of(&lent, 'w') < 8 * size_of(&lent, 'i'))
        return core_misfit(&lent);
    if (!core_room(&lent, size_of(&lent, 'i'), &running.heap))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    made = find_winners(&running, intervals, size_of(&lent, 's'), winners, won);
    Py_END_ALLOW_THREADS
    core_end(&lent);
    return PyLong_FromLongLong(made);
}

/* --- the parts of spans that count */

typedef struct {   /* of a span, from its end to its start */
    int64_t child; /* below 0: its own time */
    int64_t from_ns, to_ns;
} Step;

typedef struct { /* a span that is walked as a track of its own, and of what time */
    int64_t row, from_ns, to_ns;
} Wanted;

typedef struct {
    const int64_t *start_ns, *end_ns, *stage, *children, *won;
    const uint8_t *outlives;
    const Part *winners;
    /* Found */
    Part *parts;
    int64_t part_count;
    Track *tracks;
    int64_t track_count; /* that are wanted so far */
    int64_t done;        /* tracks that are walked */
    /* To be walked yet */
    Wanted *wanted;    /* by track */
    Part *pending;     /* the earliest on top */
    int64_t waiting;   /* how many these are */
    int64_t *track_of; /* by span */
    int64_t *counted;  /* by span: how many parts of its parent it gets */
    /* The span that is walked */
    Step *walked; /* the last first */
    int64_t steps;
    int64_t *by_end, ended;
    int64_t *beside, besides; /* children that end later than all before them */
    int64_t *after, afters;   /* and those that outlive their parent */
    int64_t *room;
} Walk;

static inline void add_step(Walk *walk, int64_t child, int64_t from_ns, int64_t to_ns) {
    walk->walked[walk->steps++] = (Step){child, from_ns, to_ns};
}

/* Sort children: by end, of those that end together the later start and then the earlier row last; and those that
 * can fill gaps, in order of start. */
static inline void sort_children(Walk *walk, int64_t below, int64_t last) {
    const int64_t *start_ns = walk->start_ns, *end_ns = walk->end_ns;
    int64_t *by_end = walk->by_end, *beside = walk->beside, *after = walk->after;
    int64_t ended = 0, besides = 0, afters = 0;
    for (int64_t child = below; child < last; child++) {
        int64_t from_ns = start_ns[child], to_ns = end_ns[child];
        if (from_ns == to_ns)
            continue; /* what took no time holds nothing up */
        if (walk->outlives[child]) {
            if (!afters || from_ns > start_ns[after[afters - 1]])
                after[afters++] = child;
            continue;
        }
        by_end[ended++] = child;
        int64_t latest = besides ? beside[besides - 1] : -1;
        if (latest < 0 || to_ns > end_ns[latest] || (to_ns == end_ns[latest] && from_ns > start_ns[latest]))
            beside[besides++] = child;
    }
    sort_places(by_end, ended, end_ns, walk->room);
    walk->ended = ended;
    walk->besides = besides;
    walk->afters = afters;
}

/* Take the child that ended last before a time, if there is one; of equal ones the first. */
static inline int64_t ended_last(Walk *walk, int64_t at_ns) {
    const int64_t *start_ns = walk->start_ns, *end_ns = walk->end_ns, *by_end = walk->by_end;
    int64_t ended = walk->ended, child = -1;
    while (ended && end_ns[by_end[ended - 1]] > at_ns)
        ended--;
    if (ended) {
        child = by_end[--ended];
        while (ended && end_ns[by_end[ended - 1]] == end_ns[child] && start_ns[by_end[ended - 1]] == start_ns[child])
            child = by_end[--ended];
    }
    walk->ended = ended;
    return child;
}

/* Charge the gap that begins at a time to the child that runs beside it. Returns until where that is done. */
static inline int64_t fill_from(Walk *walk, int64_t child, int64_t gap_ns, int64_t at_ns, int64_t *left) {
    int64_t begin_ns = larger(walk->start_ns[child], gap_ns);
    if (begin_ns < at_ns) {
        add_step(walk, child, begin_ns, at_ns);
        at_ns = begin_ns;
    }
    if (begin_ns > gap_ns)
        --*left;
    return at_ns;
}

/* Walk a span back from its end, as far as is wanted. */
static inline void walk_back(Walk *walk, int64_t row, int64_t low_ns) {
    const int64_t *start_ns = walk->start_ns, *end_ns = walk->end_ns;
    int64_t at_ns = end_ns[row];
    walk->steps = 0;
    while (at_ns > low_ns) {
        int64_t child = ended_last(walk, at_ns);
        int64_t gap_ns = child < 0 ? start_ns[row] : end_ns[child];
        while (walk->besides && gap_ns < at_ns && gap_ns < end_ns[walk->beside[walk->besides - 1]])
            at_ns = fill_from(walk, walk->beside[walk->besides - 1], gap_ns, at_ns, &walk->besides);
        while (walk->afters && gap_ns < at_ns)
            at_ns = fill_from(walk, walk->after[walk->afters - 1], gap_ns, at_ns, &walk->afters);
        if (gap_ns < at_ns) {
            add_step(walk, -1, gap_ns, at_ns);
            at_ns = gap_ns;
        }
        if (child >= 0) {
            add_step(walk, child, start_ns[child], at_ns);
            at_ns = start_ns[child];
        }
    }
}

/* Put what is wanted of a span, less what its intervals win, on the pile: from the last part to the first, so that
 * the first lies on top. */
static inline void pile_up(Walk *walk, const Part *whole, int64_t winner) {
    const Part *winners = walk->winners;
    int64_t row = whole->row, first_won = walk->won[row], of_stage = walk->stage[row];
    Part *top = walk->pending + walk->waiting;
    for (int64_t step = 0; step < walk->steps; step++) {
        int64_t child = walk->walked[step].child;
        int64_t from_ns = larger(walk->walked[step].from_ns, whole->from_ns);
        int64_t to_ns = smaller(walk->walked[step].to_ns, whole->to_ns);
        while (from_ns < to_ns) {
            while (winner >= first_won && winners[winner].from_ns >= to_ns)
                winner--;
            int64_t until_ns = from_ns;
            if (winner >= first_won && winners[winner].to_ns > from_ns) {
                until_ns = winners[winner].to_ns;
                if (until_ns >= to_ns) {
                    until_ns = larger(winners[winner].from_ns, from_ns);
                    *top++ = (Part){row, until_ns, to_ns, winners[winner].stage};
                    to_ns = until_ns;
                    continue;
                }
            }
            if (child < 0) {
                *top++ = (Part){row, until_ns, to_ns, of_stage};
            } else {
                *top++ = (Part){child, until_ns, to_ns, DIVIDE};
                walk->counted[child]++;
            }
            to_ns = until_ns;
        }
    }
    walk->waiting = top - walk->pending;
}

/* Spans of which parts lie apart are walked later, all that is wanted at once. */
static inline void set_apart(Walk *walk, int64_t bottom) {
    const int64_t divide = DIVIDE;
    for (int64_t place = bottom; place < walk->waiting; place++) {
        Part *part = &walk->pending[place];
        int64_t child = part->row;
        if (part->stage != divide || walk->counted[child] == 1)
            continue;
        if (walk->counted[child] > 1) {
            walk->track_of[child] = walk->track_count;
            walk->wanted[walk->track_count] = (Wanted){child, 0, part->to_ns};
            walk->counted[child] = 0;
            walk->track_count++;
        }
        walk->wanted[walk->track_of[child]].from_ns = part->from_ns;
        part->row = walk->track_of[child];
        part->stage = LOOK_UP;
    }
}

/* Walk what is wanted of one span, and of those below it that have no track of their own. */
static inline void walk_track(Walk *walk, int64_t trace) {
    const Wanted wanted = walk->wanted[walk->done];
    const int64_t divide = DIVIDE;
    Track *track = &walk->tracks[walk->done++];
    track->trace = trace;
    track->begin = walk->part_count;
    walk->pending[0] = (Part){wanted.row, wanted.from_ns, wanted.to_ns, divide};
    walk->waiting = 1;
    while (walk->waiting) {
        Part part = walk->pending[--walk->waiting];
        if (part.stage == divide) {
            int64_t below = walk->children[2 * part.row], last = walk->children[2 * part.row + 1];
            int64_t winner = walk->won[part.row + 1] - 1;
            if (below != last || winner >= walk->won[part.row]) {
                int64_t bottom = walk->waiting;
                sort_children(walk, below, last);
                walk_back(walk, part.row, part.from_ns);
                pile_up(walk, &part, winner);
                set_apart(walk, bottom);
                continue;
            }
            part.stage = walk->stage[part.row];
        }
        walk->parts[walk->part_count++] = part;
    }
    track->beyond = walk->part_count;
}

static void walk_trees(Walk *walk, const int64_t *first, int64_t trees) {
    for (int64_t tree = 0; tree < trees; tree++) {
        int64_t root = first[tree];
        walk->wanted[walk->track_count++] = (Wanted){root, walk->start_ns[root], walk->end_ns[root]};
        while (walk->done < walk->track_count)
            walk_track(walk, tree);
    }
}

/* Returns how many parts and tracks there are. */
CORE_FUNCTION(descend) {
    Lent lent;
    Walk walk = {.done = 0};
    const int64_t *first;
    if (!core_take(&lent, critical_paths_names, args, given, "qt+ qs qs qs q2s bs q4w qs+ Qp Qk", &first, &walk.start_ns,
                   &walk.end_ns, &walk.stage, &walk.children, &walk.outlives, &walk.winners, &walk.won, &walk.parts,
                   &walk.tracks))
        return NULL;
    /* A part begins where a child or a winner does or ends. */
    int64_t spans = size_of(&lent, 's'), trees = size_of(&lent, 't');
    int64_t most = 4 * spans + 2 * size_of(&lent, 'w') + 1, most_tracks = spans + trees + 1;
    if (size_of(&lent, 'p') < 4 * most || size_of(&lent, 'k') < 3 * most_tracks)
        return core_misfit(&lent);
    if (!core_room(&lent, 3 * most_tracks, &walk.wanted) || !core_room(&lent, 4 * most, &walk.pending, &walk.walked) ||
        !core_room(&lent, spans, &walk.track_of, &walk.counted, &walk.by_end, &walk.beside, &walk.after, &walk.room))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    memset(walk.counted, 0, (size_t)spans * sizeof *walk.counted);
    walk_trees(&walk, first, trees);
    Py_END_ALLOW_THREADS
    core_end(&lent);
    return Py_BuildValue("LL", (long long)walk.part_count, (long long)walk.track_count);
}

/* --- the segments that these make */

typedef struct {
    int64_t following, from_ns, to_ns; /* the part that is next; the time that counts */
    int64_t track;
} Inside;

/* The part of a track that runs at a time. */
static inline int64_t part_at(const Part *parts, const Track *track, int64_t at_ns) {
    int64_t one = track->begin, beyond = track->beyond;
    while (beyond - one > 1) {
        int64_t middle = (one + beyond) / 2;
        if (parts[middle].from_ns <= at_ns)
            one = middle;
        else
            beyond = middle;
    }
    return one;
}

static inline int64_t add_segment(Segment *segments, int64_t made, Segment added) {
    Segment *before = made ? &segments[made - 1] : NULL;
    if (before && before->trace == added.trace && before->stage == added.stage && before->row == added.row) {
        before->to_ns = added.to_ns;
        return made;
    }
    segments[made] = added;
    return made + 1;
}

static int64_t put_together(const Part *parts, const Track *tracks, int64_t count, Inside *stack, Segment *segments) {
    const int64_t look_up = LOOK_UP;
    int64_t made = 0;
    for (int64_t number = 0; number < count; number++) {
        Track root = tracks[number];
        if ((number && tracks[number - 1].trace == root.trace) || root.begin == root.beyond)
            continue; /* not the root's; or a request that took no time */
        stack[0] = (Inside){root.begin, parts[root.begin].from_ns, parts[root.beyond - 1].to_ns, number};
        for (int64_t depth = 1; depth;) {
            Inside *top = &stack[depth - 1];
            if (top->following == tracks[top->track].beyond || parts[top->following].from_ns >= top->to_ns) {
                depth--;
                continue;
            }
            Part part = parts[top->following++];
            int64_t from_ns = larger(part.from_ns, top->from_ns), to_ns = smaller(part.to_ns, top->to_ns);
            if (part.stage == look_up)
                stack[depth++] = (Inside){part_at(parts, &tracks[part.row], from_ns), from_ns, to_ns, part.row};
            else
                made = add_segment(segments, made, (Segment){root.trace, from_ns, to_ns, part.stage, part.row});
        }
    }
    return made;
}

/* Returns how many segments there are. */
CORE_FUNCTION(gather) {
    Lent lent;
    const Part *parts;
    const Track *tracks;
    Segment *segments;
    Inside *stack;
    int64_t made;
    if (!core_take(&lent, critical_paths_names, args, given, "q4p q3t Qs", &parts, &tracks, &segments))
        return NULL;
    if (size_of(&lent, 's') < 10 * size_of(&lent, 'p'))
        return core_misfit(&lent);
    if (!core_room(&lent, 4 * (size_of(&lent, 't') + 1), &stack))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    made = put_together(parts, tracks, size_of(&lent, 't'), stack, segments);
    Py_END_ALLOW_THREADS
    core_end(&lent);
    return PyLong_FromLongLong(made);
}

static PyMethodDef functions[] = {
    CORE_METHOD(win, "Find what each of the intervals packed on a span gets."),
    CORE_METHOD(descend, "Walk each span on a path once."),
    CORE_METHOD(gather, "Put together what counts of each track."),
    {NULL, NULL, 0, NULL}};

int critical_paths_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
