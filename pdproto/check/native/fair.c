/* Where can a fair run stay for ever? The strongly connected components of a part of the explored
   graph, found depth first. ../liveness.py says which components a fair run can stay in.

   The algorithm is D. J. Pearce's, "A space-efficient algorithm for finding strongly connected
   components" (Information Processing Letters 116, 2016): one mark for each state. It is the number
   of the earliest open state known to be reachable from it, and in the end the component's number.
   Components count down from LAST, so that every component is above every open state.

   The edges of a state are found when it is visited, and forgotten when it is left: they are never
   in memory all at once. So each call reads the search only, and calls may run beside each other. */
#define _GNU_SOURCE /* for madvise and mremap beside -std=c11 */
#include "memory.h"

static const u32 OPEN = 0;             /* the mark of a state that has not been visited */
static const u32 FIRST = 1, LAST = UINT32_MAX - 1;

/* What fairness says of the rows, by their numbers. */
typedef struct {
    const u8 *fair;                    /* bit k: the row is fair under the k-th assumption */
    const u8 *fault;                   /* the row is a fault: a run that stays takes none */
    const u32 *unit;                   /* rows with the same unit count as one */
    u64 count;
} Rows;

typedef struct {
    u32 *item;                         /* [room] ids of states */
    u64 count, room;
} Stack;

/* A state that is being visited. Its targets that are left are on top of `ahead`, from `start`. */
typedef struct {
    u64 start;
    u32 identity, number;
    u8 leaving;                        /* assumptions under which a fair row is enabled */
} Visit;

typedef struct {
    const Search *search;
    Rows rows;
    u8 every;                          /* the assumptions */
    u64 base[SHARDS];                  /* the position of a shard's first state */
    u32 *mark;                         /* [states] NONE for a state that no run may enter */
    u8 *traps;                         /* [states] */
    Visit *visit;                      /* the path to the state that is being visited */
    u64 depth, visit_room;
    Stack ahead;                       /* targets of the states on the path, still to visit */
    Stack left;                        /* states that were left, but whose component is open */
    Stack after_fault;                 /* where faults lead to: other paths begin there */
    u64 *edge;                         /* [rows] of one state */
    u32 *enabled;                      /* [rows] by unit: states of a component where it is */
    bool *fired;                       /* [rows] by unit: within the component */
    u32 number, component;             /* which the next state and component get */
    u8 found;
} Staying;

INLINE u64 position(const Staying *staying, u32 identity) {
    return staying->base[identity >> INDEX_BITS] + (identity & INDEX_MASK);
}

INLINE u32 row_of(u64 edge) {
    return (u32)(edge >> 32);
}

INLINE u32 *mark_of(const Staying *staying, u32 identity) {
    return staying->mark + position(staying, identity);
}

/* Whether there is room for so many more. */
static bool widen(Stack *stack, u64 more) {
    u32 *item = make_room(stack->item, &stack->room, stack->count + more, sizeof *item);
    stack->item = item ? item : stack->item;
    return item;
}

INLINE void push(Stack *stack, u32 identity) {
    stack->item[stack->count++] = identity;
}

/* Room for one more visit. Every state on the path may be left before the next one is entered. */
static bool prepare_visit(Staying *staying) {
    Visit *visit = make_room(staying->visit, &staying->visit_room, staying->depth + 1,
                             sizeof *visit);
    staying->visit = visit ? visit : staying->visit;
    return visit && widen(&staying->ahead, staying->rows.count) &&
           widen(&staying->after_fault, staying->rows.count) &&
           widen(&staying->left, staying->depth + 1);
}

/* False when there is not enough memory. */
static bool enter(Staying *staying, u32 identity) {
    if (!prepare_visit(staying))
        return false;
    const Rows *rows = &staying->rows;
    u64 *edge = staying->edge;
    u32 count = staying->search->kernel->edges_of(staying->search, identity, edge);
    for (u32 i = 0; i < count; i++)
        __builtin_prefetch(mark_of(staying, (u32)edge[i]));
    u32 *mark = mark_of(staying, identity);
    Visit *visit = &staying->visit[staying->depth++];
    *visit = (Visit){staying->ahead.count, identity, staying->number, 0};
    *mark = staying->number++;
    for (u32 i = 0; i < count; i++) {
        u32 target = (u32)edge[i], there = *mark_of(staying, target);
        visit->leaving |= rows->fair[row_of(edge[i])];
        if (there == OPEN)
            push(rows->fault[row_of(edge[i])] ? &staying->after_fault : &staying->ahead, target);
        else if (there < *mark && !rows->fault[row_of(edge[i])])
            *mark = there;
    }
    return true;
}

/* The assumptions under which a fair row is enabled in the whole component and never fires in it.
   Its members have their mark. Of the rows of a unit at most one is enabled in a state. */
static u8 driven_out(Staying *staying, const u32 *member, u64 size) {
    const Rows *rows = &staying->rows;
    u32 component = *mark_of(staying, *member);
    u8 driven = 0;
    memset(staying->enabled, 0, rows->count * sizeof *staying->enabled);
    memset(staying->fired, 0, rows->count * sizeof *staying->fired);
    for (u64 i = 0; i < size; i++) {
        u32 count = staying->search->kernel->edges_of(staying->search, member[i], staying->edge);
        for (u32 e = 0; e < count; e++) {
            u32 unit = rows->unit[row_of(staying->edge[e])];
            staying->enabled[unit]++;
            staying->fired[unit] |= *mark_of(staying, (u32)staying->edge[e]) == component;
        }
    }
    for (u64 row = 0; row < rows->count; row++)
        if (staying->enabled[row] == size && !staying->fired[row])
            driven |= rows->fair[row];
    return driven;
}

/* Close the component: the state that was left last, and those from the given one in `left`. */
static void close(Staying *staying, u64 from, u8 leaving) {
    const u32 *member = staying->left.item + from;
    u64 size = staying->left.count - from;
    u32 component = staying->component--;
    for (u64 i = 0; i < size; i++)
        *mark_of(staying, member[i]) = component;
    u8 traps = staying->every & ~(size == 1 ? leaving : driven_out(staying, member, size));
    for (u64 i = 0; traps && i < size; i++)
        staying->traps[position(staying, member[i])] = traps;
    staying->found |= traps;
    staying->left.count = from;
    staying->number -= (u32)size;      /* used again, so that they stay below the components */
}

static void leave(Staying *staying) {
    Visit visit = staying->visit[--staying->depth];
    u32 mark = *mark_of(staying, visit.identity);
    u64 from = staying->left.count;
    push(&staying->left, visit.identity);
    if (mark == visit.number) {
        while (from && *mark_of(staying, staying->left.item[from - 1]) >= visit.number)
            from--;
        close(staying, from, visit.leaving);
    } else if (staying->depth) {
        u32 *before = mark_of(staying, staying->visit[staying->depth - 1].identity);
        *before = mark < *before ? mark : *before;
    }
}

/* Visit all that can be reached from the state without faults; false without enough memory. */
static bool explore(Staying *staying, u32 identity) {
    if (*mark_of(staying, identity) != OPEN)
        return true;
    if (!enter(staying, identity))
        return false;
    while (staying->depth) {
        Stack *ahead = &staying->ahead;
        if (ahead->count == staying->visit[staying->depth - 1].start) {
            leave(staying);
            continue;
        }
        u32 target = ahead->item[--ahead->count];
        if (*mark_of(staying, target) == OPEN && !enter(staying, target))
            return false;
    }
    return true;
}

static bool explore_all(Staying *staying, const u8 *pending) {
    for (u32 shard = 0; shard < SHARDS; shard++)
        for (u32 i = 0; i < staying->search->shard[shard].table.count; i++) {
            u32 identity = shard << INDEX_BITS | i;
            if (pending[position(staying, identity)] && !explore(staying, identity))
                return false;
            while (staying->after_fault.count)
                if (!explore(staying, staying->after_fault.item[--staying->after_fault.count]))
                    return false;
        }
    return true;
}

static bool set_out(Staying *staying, const u8 *allowed) {
    u64 states = 0, rows = staying->rows.count + 1;
    for (u32 shard = 0; shard < SHARDS; shard++) {
        staying->base[shard] = states;
        states += staying->search->shard[shard].table.count;
    }
    for (u64 i = 0; i < states; i++)
        staying->mark[i] = allowed[i] ? OPEN : NONE;
    staying->edge = malloc(rows * sizeof *staying->edge);
    staying->enabled = malloc(rows * sizeof *staying->enabled);
    staying->fired = malloc(rows * sizeof *staying->fired);
    return staying->edge && staying->enabled && staying->fired;
}

static void forget(Staying *staying) {
    Stack *stacks[] = {&staying->ahead, &staying->left, &staying->after_fault};
    for (u32 i = 0; i < sizeof stacks / sizeof *stacks; i++)
        release(stacks[i]->item, stacks[i]->room * sizeof *stacks[i]->item);
    release(staying->visit, staying->visit_room * sizeof *staying->visit);
    free(staying->edge);
    free(staying->enabled);
    free(staying->fired);
}

/* Find the states in which a fair run can stay for ever, of those that can be reached from a
   pending one through allowed ones. traps: [states], bit k under the k-th assumption; 0 before.
   mark: [states] gets the component of each state that was reached. Returns all bits of traps, or
   -1 when there is not enough memory. */
EXPORT int search_traps(const Search *search, const Rows *rows, u8 every, const u8 *pending,
                        const u8 *allowed, u8 *traps, u32 *mark) {
    Staying staying = {.search = search, .rows = *rows, .every = every, .mark = mark,
                       .traps = traps, .number = FIRST, .component = LAST};
    bool good = set_out(&staying, allowed) && explore_all(&staying, pending);
    forget(&staying);
    return good ? staying.found : -1;
}
