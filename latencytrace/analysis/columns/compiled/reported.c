/* Tokens, queues and the like, as the spans of requests carry them. */
#include "core.h"

#define REPORTED_NAMES(ONE)                                                                                \
    ONE(FACTS) /* how many columns the table of facts has; those are */                                    \
    ONE(IS_OURS) ONE(IS_PIECE) ONE(MAY_BE_OF_ENGINE) ONE(PREEMPTIONS) ONE(SERVER) ONE(TELLS)               \
    ONE(TELLS_TIMES)                                                                                       \
    ONE(SAID) /* likewise of what spans say */                                                             \
    ONE(SAID_INPUT) ONE(SAID_OUTPUT) ONE(SAID_CACHED) ONE(SAID_SEQUENCES) ONE(SAID_BATCH_SIZE)             \
    ONE(SAID_STREAMED_TOKENS) ONE(SAID_STREAMED_EVENTS) ONE(SAID_FIRST_BODY) ONE(SAID_FIRST_CHUNK)         \
    ONE(SAID_FIRST_TOKEN) ONE(SAID_LEFT) ONE(SAID_QUEUE_DEPTH) ONE(SAID_CONCURRENCY) ONE(SAID_PREEMPTIONS) \
    ONE(SAID_MODEL) ONE(SAID_FINISH_REASON) ONE(SAID_DECODED) ONE(SAID_FIRST_TOLD) ONE(SAID_FIRST_EVENT)   \
    ONE(SAID_CHOICES)                                                                                      \
    ONE(KNOWN) /* likewise of what is known of requests */                                                 \
    ONE(MODEL_CALL) ONE(FINISHER) ONE(BATCH_SIZE) ONE(INPUT) ONE(CACHED) ONE(OUTPUT) ONE(FIRST_TOKEN)      \
    ONE(FIRST_TOKEN_OF) ONE(MODELS_FIRST_TOKEN) ONE(PER_TOKEN) ONE(QUEUE_DEPTH) ONE(CONCURRENCY)           \
    ONE(REQUEST_PREEMPTIONS) ONE(COLD_START)                                                               \
    ONE(OF_CALLER) ONE(OF_MODEL) /* whose first token it is */                                             \
    ONE(PREFILL) ONE(DECODE) ONE(REMOTE_MODEL) ONE(LOAD) /* stages */                                      \
    ONE(UNKNOWN) ONE(LEAST_STREAMED) ONE(MOST_ATTRIBUTES)

CORE_NAMES(reported_names, REPORTED_NAMES)

typedef struct {
    const int64_t *rows, *above, *begin_ns, *finish_ns, *stages; /* of the trees */
    const int64_t *intervals, *interval_start_ns, *interval_end_ns, *interval_stage;
    const int64_t *start_ns, *end_ns, *span_id, *kind, *facts; /* by span */
    int64_t *said;
    uint8_t *is_call, *covered; /* by place: the outermost model calls, and what is inside them */
    uint8_t *is_made, *has_told; /* by place: all model calls; see `last_told` */
    int64_t *inside;            /* by place: tokens that calls inside a span tell */
    uint8_t *counts_as;         /* a span that tells the tokens of decode spans */
    /* Of the request */
    int64_t base, beyond, root; /* its places, the row of the first */
    int64_t calls;
    int64_t *known;
} Reporters;

static inline const int64_t *facts_of(const Reporters *reporters, int64_t row) {
    return reporters->facts + reporters->kind[row] * FACTS;
}

static inline int64_t *said_by(const Reporters *reporters, int64_t row) { return reporters->said + row * SAID; }

static inline int64_t length_of(const Reporters *reporters, int64_t row) {
    return minus(reporters->end_ns[row], reporters->start_ns[row]);
}

/* Take up the next request. */
static inline void turn_to(Reporters *reporters, const int64_t *first, int64_t request) {
    reporters->base = first[request];
    reporters->beyond = first[request + 1];
    reporters->root = reporters->rows[reporters->base];
}

static inline int is_within(int64_t after_ns, int64_t length_ns) { return 0 <= after_ns && after_ns <= length_ns; }

/* --- the pieces of streamed answers */

static inline int is_piece_of(const Reporters *reporters, int64_t at) {
    if (!facts_of(reporters, reporters->rows[at])[IS_PIECE])
        return 0;
    int64_t of = reporters->above[at];
    while (of > reporters->base && !facts_of(reporters, reporters->rows[of])[SERVER]) /* else another's answer */
        of = reporters->above[of];
    return of == reporters->base;
}

static void add_pieces_of(const Reporters *reporters) {
    int64_t root = reporters->root, length_ns = length_of(reporters, root), pieces = 0, first_ns = UNKNOWN;
    for (int64_t at = reporters->base + 1; at < reporters->beyond; at++)
        if (is_piece_of(reporters, at)) {
            int64_t after_ns = minus(reporters->end_ns[reporters->rows[at]], reporters->start_ns[root]);
            if (!pieces++ || after_ns < first_ns)
                first_ns = after_ns;
        }
    int64_t *body_ns = said_by(reporters, root) + SAID_FIRST_BODY;
    if (pieces >= LEAST_STREAMED && is_within(first_ns, length_ns) && !is_within(*body_ns, length_ns))
        *body_ns = first_ns;
}

CORE_FUNCTION(add_pieces) {
    Lent lent;
    Reporters reporters = {0};
    const int64_t *first;
    if (!core_take(&lent, reported_names, args, given, "qm+ qp qp qr qr qr q Q*r", &first, &reporters.rows,
                   &reporters.above, &reporters.start_ns, &reporters.end_ns, &reporters.kind, &reporters.facts, SAID,
                   &reporters.said))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t request = 0; request < size_of(&lent, 'm'); request++) {
        turn_to(&reporters, first, request);
        add_pieces_of(&reporters);
    }
    Py_END_ALLOW_THREADS
    core_end(&lent);
    Py_RETURN_NONE;
}

/* --- model calls */

/* Find the model calls: the outermost that say output tokens, or else input tokens. */
static inline void find_calls(Reporters *reporters) {
    const int64_t unknown = UNKNOWN, whats[] = {SAID_OUTPUT, SAID_INPUT};
    uint8_t *is_call = reporters->is_call, *covered = reporters->covered;
    reporters->calls = 0;
    for (int which = 0; which < 2 && !reporters->calls; which++)
        for (int64_t at = reporters->base; at < reporters->beyond; at++) {
            is_call[at] = 0;
            reporters->is_made[at] = said_by(reporters, reporters->rows[at])[whats[which]] != unknown;
            covered[at] = at > reporters->base && covered[reporters->above[at]];
            if (!covered[at] && reporters->is_made[at]) {
                is_call[at] = covered[at] = 1;
                reporters->calls++;
            }
        }
}

typedef struct {
    int64_t row, end_ns, start_ns;
} Last;

/* Whether a span ended after another: of those that end together the one that began later, or has the larger id. */
static inline int is_later(const Reporters *reporters, const Last *one, const Last *other) {
    if (other->row < 0 || one->end_ns != other->end_ns)
        return other->row < 0 || one->end_ns > other->end_ns;
    if (one->start_ns != other->start_ns)
        return one->start_ns > other->start_ns;
    return reporters->span_id[one->row] > reporters->span_id[other->row];
}

/* Whether a span says something. */
static inline int says(const Reporters *reporters, int64_t row, int64_t what) {
    const int64_t *said = said_by(reporters, row);
    if (what == MODEL_CALL)
        return said[SAID_MODEL] > 0;
    if (what == FINISHER)
        return said[SAID_FINISH_REASON] > 0;
    return said[SAID_BATCH_SIZE] != UNKNOWN;
}

/* Note a span that says something, if it ended later than the one noted. */
static inline void note_later(const Reporters *reporters, int64_t at, int as_sent, Last *last) {
    int64_t row = reporters->rows[at];
    Last one = {row, as_sent ? reporters->end_ns[row] : reporters->finish_ns[at],
                as_sent ? reporters->start_ns[row] : reporters->begin_ns[at]};
    if (is_later(reporters, &one, last))
        *last = one;
}

/* The row of the span that ended last of those that say something: of the outermost model calls, if there are some and
 * only they are asked; else of all that tell of generations. Below 0: none does. */
static inline int64_t last_that_says(const Reporters *reporters, int64_t what, int of_calls) {
    const int64_t tells = TELLS;
    Last last = {-1, 0, 0};
    for (int64_t at = reporters->base; at < reporters->beyond; at++) {
        int64_t row = reporters->rows[at];
        if (of_calls ? !reporters->is_call[at] : !facts_of(reporters, row)[tells])
            continue;
        if (says(reporters, row, what))
            note_later(reporters, at, of_calls, &last);
    }
    return last.row;
}

enum { WITHIN = 1, CALL_TOLD = 2, ANY_TOLD = 4 }; /* of a place: it is within a call; above it a call told it, or any span */

/* The row of the span that ended last: of the outermost model calls that say something, else of the outermost spans
 * inside model calls that do. Below 0: none does. */
static inline int64_t last_told(const Reporters *reporters, int64_t what) {
    Last of_calls = {-1, 0, 0}, inside = {-1, 0, 0};
    uint8_t *has_told = reporters->has_told;
    for (int64_t at = reporters->base; at < reporters->beyond; at++) {
        uint8_t told = at > reporters->base ? has_told[reporters->above[at]] : 0, is_made = reporters->is_made[at];
        int is_said = says(reporters, reporters->rows[at], what);
        if (is_said && is_made && !(told & CALL_TOLD))
            note_later(reporters, at, 1, &of_calls);
        else if (is_said && (told & WITHIN) && !(told & ANY_TOLD))
            note_later(reporters, at, 1, &inside);
        has_told[at] = told | (is_made ? WITHIN : 0) | (is_said && is_made ? CALL_TOLD : 0) |
                       (is_said && (told & WITHIN) ? ANY_TOLD : 0);
    }
    return of_calls.row >= 0 ? of_calls.row : inside.row;
}

static inline void read_last(Reporters *reporters) {
    int64_t *known = reporters->known, may_be_of_engine = 0;
    int of_calls = reporters->calls > 0;
    for (int64_t at = reporters->base; at < reporters->beyond && !may_be_of_engine; at++)
        may_be_of_engine = facts_of(reporters, reporters->rows[at])[MAY_BE_OF_ENGINE];
    known[MODEL_CALL] = of_calls ? last_told(reporters, MODEL_CALL) : last_that_says(reporters, MODEL_CALL, 0);
    known[FINISHER] = of_calls ? last_told(reporters, FINISHER) : last_that_says(reporters, FINISHER, 0);
    int64_t batch = last_that_says(reporters, BATCH_SIZE, of_calls);
    if (batch < 0 && may_be_of_engine)
        batch = last_that_says(reporters, BATCH_SIZE, 0);
    if (known[MODEL_CALL] < 0)
        known[MODEL_CALL] = UNKNOWN;
    if (known[FINISHER] < 0)
        known[FINISHER] = UNKNOWN;
    if (batch >= 0)
        known[BATCH_SIZE] = said_by(reporters, batch)[SAID_BATCH_SIZE];
}

static inline void add_count(int64_t *total, int64_t count) {
    if (count != UNKNOWN)
        *total = plus(*total == UNKNOWN ? 0 : *total, count);
}

/* Of each model call the larger of what it tells and of what those inside it do, added up. */
static inline int64_t total_of(const Reporters *reporters, int64_t what) {
    const int64_t unknown = UNKNOWN;
    int64_t *inside = reporters->inside, base = reporters->base;
    for (int64_t at = base; at < reporters->beyond; at++)
        inside[at] = unknown;
    for (int64_t at = reporters->beyond - 1; at >= base; at--) { /* what is inside a span comes after it */
        if (reporters->is_made[at])
            inside[at] = larger(inside[at], said_by(reporters, reporters->rows[at])[what]);
        if (at > base)
            add_count(&inside[reporters->above[at]], inside[at]);
    }
    return inside[base];
}

static inline void count_tokens(Reporters *reporters) {
    if (!reporters->calls)
        return;
    reporters->known[INPUT] = total_of(reporters, SAID_INPUT);
    reporters->known[CACHED] = total_of(reporters, SAID_CACHED);
    reporters->known[OUTPUT] = total_of(reporters, SAID_OUTPUT);
}

/* --- first tokens */

typedef struct {
    int64_t models_ns, engines_ns, prefilled_ns;
    int generates, loaded;
} Firsts;

static inline void note_first(int64_t *first_ns, int64_t at_ns) {
    if (*first_ns == UNKNOWN || at_ns < *first_ns)
        *first_ns = at_ns;
}

/* Note what the stage of a span tells, and the stages of its intervals. */
static inline void read_stages(const Reporters *reporters, int64_t at, Firsts *firsts) {
    const int64_t prefill = PREFILL, load = LOAD;
    int64_t stage = reporters->stages[at], end_ns = reporters->end_ns[reporters->rows[at]];
    int64_t finish_ns = reporters->finish_ns[at];
    firsts->generates |= stage == prefill || stage == DECODE || stage == REMOTE_MODEL;
    firsts->loaded |= stage == load;
    if (stage == prefill)
        note_first(&firsts->prefilled_ns, end_ns);
    for (int64_t one = reporters->intervals[at]; one < reporters->intervals[at + 1]; one++) {
        int64_t of_interval = reporters->interval_stage[one], interval_end_ns = reporters->interval_end_ns[one];
        firsts->loaded |= of_interval == load;
        if (of_interval != prefill || (interval_end_ns >= finish_ns && end_ns > finish_ns))
            continue; /* or it is cut short */
        note_first(&firsts->prefilled_ns, interval_end_ns);
    }
}

/* Note when the first token was there, as a span tells it. */
static inline void read_first_token(const Reporters *reporters, int64_t at, Firsts *firsts) {
    const int64_t unknown = UNKNOWN;
    int64_t row = reporters->rows[at], length_ns = length_of(reporters, row);
    const int64_t *said = said_by(reporters, row);
    int64_t after_ns = said[SAID_FIRST_TOKEN];
    if (is_within(after_ns, length_ns))
        note_first(&firsts->engines_ns, plus(reporters->start_ns[row], after_ns));
    /* What a request's own span says of its first chunk is its caller's. */
    int is_below = at > reporters->base;
    if (is_below && after_ns == unknown)
        after_ns = said[SAID_FIRST_EVENT];
    if (!is_below || after_ns == unknown)
        after_ns = said[SAID_FIRST_TOLD];
    if (is_below && said[SAID_FIRST_CHUNK] != unknown)
        after_ns = said[SAID_FIRST_CHUNK];
    if (is_within(after_ns, length_ns))
        note_first(&firsts->models_ns, plus(reporters->start_ns[row], after_ns));
}

/* When the model's first token was there, from the start of the request. */
static inline int64_t models_first_token(const Reporters *reporters, const Firsts *firsts) {
    int64_t base = reporters->base, at_ns = firsts->models_ns;
    if (firsts->prefilled_ns != UNKNOWN)
        at_ns = firsts->prefilled_ns;
    if (firsts->engines_ns != UNKNOWN)
        at_ns = firsts->engines_ns;
    if (at_ns == UNKNOWN || at_ns > reporters->finish_ns[base]) /* the caller had gone by then */
        return UNKNOWN;
    return minus(larger(at_ns, reporters->begin_ns[base]), reporters->begin_ns[base]);
}

/* When the first token left for the caller, as the request's own span tells it. */
static inline int64_t callers_first_token(const Reporters *reporters, int is_generation) {
    const int64_t *said = said_by(reporters, reporters->root);
    int64_t length_ns = length_of(reporters, reporters->root), left_ns = said[SAID_FIRST_CHUNK];
    if (left_ns == UNKNOWN)
        left_ns = said[SAID_FIRST_EVENT];
    if (is_within(left_ns, length_ns))
        return left_ns;
    left_ns = said[SAID_FIRST_BODY];
    return is_generation && is_within(left_ns, length_ns) ? left_ns : UNKNOWN;
}

/* Read first tokens. Returns whether a model was loaded. */
static inline int read_first_tokens(Reporters *reporters) {
    int64_t *known = reporters->known;
    Firsts firsts = {UNKNOWN, UNKNOWN, UNKNOWN, 0, 0};
    for (int64_t at = reporters->base; at < reporters->beyond; at++) {
        read_stages(reporters, at, &firsts);
        read_first_token(reporters, at, &firsts);
    }
    int64_t models_ns = models_first_token(reporters, &firsts);
    int64_t left_ns = callers_first_token(reporters, models_ns != UNKNOWN || firsts.generates);
    known[MODELS_FIRST_TOKEN] = models_ns;
    if (left_ns != UNKNOWN || models_ns != UNKNOWN) {
        known[FIRST_TOKEN_OF] = left_ns != UNKNOWN ? OF_CALLER : OF_MODEL;
        known[FIRST_TOKEN] = left_ns != UNKNOWN ? left_ns : models_ns;
    }
    return firsts.loaded;
}

/* --- time per token */

/* A quotient, rounded to the nearest number, halves to the even one. */
static inline int64_t rounded(int64_t total, int64_t count) {
    double quotient = rint((double)total / (double)count);
    return quotient < 9223372036854775808.0 ? (int64_t)quotient : INT64_MAX;
}

/* The tokens of each sequence that follow its first, of what a span says. */
static inline int64_t following_tokens(const int64_t *said) {
    int64_t sequences = larger(said[SAID_SEQUENCES], 1);
    return larger(said[SAID_OUTPUT] / sequences, 1) - 1;
}

typedef struct {
    int64_t tokens, events, choices, all_left_ns; /* of what left for the caller */
    int64_t following;                            /* tokens of model calls that follow their first */
    int64_t engines_following, engines_decoded_ns;
} Streamed;

static inline Streamed read_streamed(const Reporters *reporters) {
    const int64_t *said = said_by(reporters, reporters->root), unknown = UNKNOWN, output = reporters->known[OUTPUT];
    Streamed streamed = {said[SAID_STREAMED_TOKENS],
                         said[SAID_STREAMED_EVENTS],
                         said[SAID_CHOICES],
                         0,
                         0,
                         0,
                         0};
    streamed.all_left_ns = times(said[SAID_LEFT], streamed.choices);
    if (streamed.tokens <= 0 && 0 < streamed.events && output != unknown &&
        output <= streamed.events + streamed.choices)
        streamed.tokens = streamed.events;
    for (int64_t at = reporters->base; reporters->calls && at < reporters->beyond; at++) {
        if (!reporters->is_call[at])
            continue;
        said = said_by(reporters, reporters->rows[at]);
        int64_t each = said[SAID_OUTPUT] == unknown ? 0 : following_tokens(said);
        streamed.following = plus(streamed.following, each);
        if (said[SAID_DECODED] != unknown) {
            streamed.engines_following = plus(streamed.engines_following, each);
            streamed.engines_decoded_ns = plus(streamed.engines_decoded_ns, said[SAID_DECODED]);
        }
    }
    return streamed;
}

/* By decode spans, and the tokens that they tell or else the span above. */
static inline int64_t per_token_of_spans(const Reporters *reporters) {
    const int64_t decode = DECODE, unknown = UNKNOWN;
    int64_t decoded_ns = 0, following = 0;
    for (int64_t at = reporters->base; at < reporters->beyond; at++) {
        if (reporters->stages[at] != decode)
            continue;
        int64_t row = reporters->rows[at], reporter = at;
        if (reporters->above[at] >= 0 && said_by(reporters, row)[SAID_OUTPUT] == unknown)
            reporter = reporters->above[at];
        const int64_t *said = said_by(reporters, reporters->rows[reporter]);
        if (said[SAID_OUTPUT] <= 0)
            continue;
        decoded_ns = plus(decoded_ns, length_of(reporters, row));
        if (!reporters->counts_as[reporter]) {
            reporters->counts_as[reporter] = 1;
            following = plus(following, following_tokens(said));
        }
    }
    return following ? rounded(decoded_ns, following) : 0;
}

/* How long the intervals of decoding are together. */
static inline int64_t decoded_within(const Reporters *reporters) {
    const int64_t decode = DECODE, tells_times = TELLS_TIMES;
    int64_t decoded_ns = 0;
    for (int64_t at = reporters->base; at < reporters->beyond; at++)
        if (facts_of(reporters, reporters->rows[at])[tells_times])
            for (int64_t one = reporters->intervals[at]; one < reporters->intervals[at + 1]; one++)
                if (reporters->interval_stage[one] == decode)
                    decoded_ns =
                        plus(decoded_ns, minus(reporters->interval_end_ns[one], reporters->interval_start_ns[one]));
    return decoded_ns;
}

/* Read the time per token: of tokens that left for the caller; else of decode spans. */
static inline void read_per_token(Reporters *reporters) {
    Streamed streamed = read_streamed(reporters);
    int64_t per_token_ns = streamed.tokens > 0 ? rounded(streamed.all_left_ns, streamed.tokens) : 0;
    if (!per_token_ns && streamed.engines_following)
        per_token_ns = rounded(streamed.engines_decoded_ns, streamed.engines_following);
    if (!per_token_ns)
        per_token_ns = per_token_of_spans(reporters);
    if (!per_token_ns && streamed.following)
        per_token_ns = rounded(decoded_within(reporters), streamed.following);
    if (!per_token_ns && streamed.events > 0) {
        int64_t tokens =
            times(larger(reporters->known[OUTPUT], 0), streamed.events) / (streamed.events + streamed.choices);
        per_token_ns = rounded(streamed.all_left_ns, larger(streamed.events, tokens));
    }
    if (per_token_ns)
        reporters->known[PER_TOKEN] = per_token_ns;
}

/* --- what requests met */

static inline void read_circumstances(Reporters *reporters, int loaded) {
    int64_t *known = reporters->known;
    int64_t depth = UNKNOWN, preemptions = UNKNOWN;
    for (int64_t at = reporters->base; at < reporters->beyond; at++) {
        int64_t row = reporters->rows[at], more = said_by(reporters, row)[SAID_PREEMPTIONS];
        int64_t told = facts_of(reporters, row)[PREEMPTIONS];
        depth = larger(depth, said_by(reporters, row)[SAID_QUEUE_DEPTH]);
        if (more != UNKNOWN || told)
            add_count(&preemptions, plus(larger(more, 0), told));
    }
    known[QUEUE_DEPTH] = depth;
    known[REQUEST_PREEMPTIONS] = preemptions;
    known[CONCURRENCY] = said_by(reporters, reporters->root)[SAID_CONCURRENCY];
    if (loaded || facts_of(reporters, reporters->root)[IS_OURS])
        known[COLD_START] = loaded;
}

static void read_request(Reporters *reporters) {
    for (int64_t column = 0; column < KNOWN; column++)
        reporters->known[column] = UNKNOWN;
    find_calls(reporters);
    read_last(reporters);
    count_tokens(reporters);
    int loaded = read_first_tokens(reporters);
    read_per_token(reporters);
    read_circumstances(reporters, loaded);
}

CORE_FUNCTION(read_reporters) {
    Lent lent;
    Reporters reporters = {0};
    const int64_t *first;
    int64_t *known;
    if (!core_take(&lent, reported_names, args, given, "qm+ qp qp qp qp qp qp+ qi qi qi qr qr qr qr q q*r Q*m", &first,
                   &reporters.rows, &reporters.above, &reporters.begin_ns, &reporters.finish_ns, &reporters.stages,
                   &reporters.intervals, &reporters.interval_start_ns, &reporters.interval_end_ns,
                   &reporters.interval_stage, &reporters.start_ns, &reporters.end_ns, &reporters.span_id,
                   &reporters.kind, &reporters.facts, SAID, &reporters.said, KNOWN, &known))
        return NULL;
    int64_t places = size_of(&lent, 'p');
    if (!core_room(&lent, places, &reporters.is_call, &reporters.covered, &reporters.counts_as, &reporters.is_made,
                   &reporters.has_told, &reporters.inside))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    memset(reporters.counts_as, 0, (size_t)places);
    for (int64_t request = 0; request < size_of(&lent, 'm'); request++) {
        turn_to(&reporters, first, request);
        reporters.known = known + request * KNOWN;
        read_request(&reporters);
    }
    Py_END_ALLOW_THREADS
    core_end(&lent);
    Py_RETURN_NONE;
}

/* --- attributes */

typedef struct {
    int64_t request, number;
} Seen;

typedef struct {
    const int64_t *begin, *count, *item, *items, *number;
    Seen *seen; /* by hash: what a request has; others are free */
    int64_t slots;
    int64_t *inside;      /* by row, the last request that it is part of */
    int64_t *found, made; /* of the request */
} Attributes;

/* Whether a request has an attribute already; from now on it has. */
static inline int has(const Attributes *attributes, int64_t request, int64_t number) {
    int64_t mask = attributes->slots - 1, slot = number & mask;
    for (; attributes->seen[slot].request == request; slot = (slot + 1) & mask)
        if (attributes->seen[slot].number == number)
            return 1;
    attributes->seen[slot] = (Seen){request, number};
    return 0;
}

/* Add the attributes of a span that a request does not have yet. */
static inline void add_attributes(Attributes *attributes, int64_t request, int64_t row) {
    const int64_t most = MOST_ATTRIBUTES, *item = attributes->item, *items = attributes->items;
    for (int64_t one = attributes->begin[row], beyond = one + attributes->count[row]; one < beyond; one++)
        for (int64_t place = item[one]; place < item[one] + items[one]; place++) {
            if (has(attributes, request, attributes->number[place]))
                continue;
            if (attributes->made < most)
                attributes->found[attributes->made] = place;
            attributes->made++;
        }
}

/* How many attributes the spans of a trace tell at most. */
static inline int64_t told_by(const Attributes *attributes, int64_t first, int64_t beyond) {
    int64_t told = 0;
    for (int64_t row = first; row < beyond; row++)
        for (int64_t one = attributes->begin[row]; one < attributes->begin[row] + attributes->count[row]; one++)
            told += attributes->items[one];
    return told;
}

/* Tell the attributes of a request: its own span's come first. */
static inline void tell_request(Attributes *attributes, int64_t request, int64_t root, const int64_t *by_start,
                                const int64_t *beyond) {
    attributes->made = 0;
    add_attributes(attributes, request, root);
    for (; by_start < beyond; by_start++)
        if (*by_start != root && attributes->inside[*by_start] == request)
            add_attributes(attributes, request, *by_start);
}

CORE_FUNCTION(tell_attributes) {
    Lent lent;
    Attributes attributes = {.slots = 64};
    const int64_t *requests, *tree_first, *tree_rows, *first, *by_start;
    int64_t *found, *counted;
    if (!core_take(&lent, reported_names, args, given, "q4m qm+ q qt+ qr qr qr qi qi q Q*m Qm", &requests, &tree_first,
                   &tree_rows, &first, &by_start, &attributes.begin, &attributes.count, &attributes.item,
                   &attributes.items, &attributes.number, MOST_ATTRIBUTES, &found, &counted))
        return NULL;
    int64_t rows = size_of(&lent, 'r'), made = size_of(&lent, 'm'), most = 1;
    for (int64_t trace = 0; trace < size_of(&lent, 't'); trace++)
        most = larger(most, told_by(&attributes, first[trace], first[trace + 1]));
    while (attributes.slots < 2 * most)
        attributes.slots *= 2;
    if (!core_room(&lent, rows, &attributes.inside) || !core_room(&lent, 2 * attributes.slots, &attributes.seen))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    memset(attributes.inside, -1, (size_t)rows * sizeof *attributes.inside);
    memset(attributes.seen, -1, (size_t)attributes.slots * sizeof *attributes.seen);
    memset(found, -1, (size_t)(made * MOST_ATTRIBUTES) * sizeof *found);
    for (int64_t request = 0; request < made; request++) {
        const int64_t *of = requests + 4 * request;
        attributes.found = found + request * MOST_ATTRIBUTES;
        for (int64_t at = tree_first[request]; at < tree_first[request + 1]; at++)
            attributes.inside[tree_rows[at]] = request;
        tell_request(&attributes, request, of[0], by_start + first[of[1]], by_start + first[of[1] + 1]);
        counted[request] = attributes.made;
    }
    Py_END_ALLOW_THREADS
    core_end(&lent);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    CORE_METHOD(add_pieces, "Add the first piece of streamed answers."),
    CORE_METHOD(read_reporters, "Read tokens, and what requests met."),
    CORE_METHOD(tell_attributes, "Tell attributes, each once."),
    {NULL, NULL, 0, NULL}};

int reported_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
