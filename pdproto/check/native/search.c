/* The native search engine: breadth first, exact, over a Program as program.py defines it.

   Rule 1: results never depend on the number of workers. The states are divided among SHARDS by
   their hash. In a round every shard expands the next chunk of its part of the level and posts
   the successors in one box per shard; then every shard stores what was posted to it, box by box.
   Workers only decide who does which shard.
   Rule 2: a round happens entirely or not at all. Memory is found before anything is stored; if
   it cannot be had, what the round has counted is taken back, and the round may be tried again.
   Rule 3: a result depends on the program alone: not on states_max (unless a step is strict), and
   not on addresses.
   Rule 4: nothing here knows a protocol, and nothing is compiled per program. */
#define _GNU_SOURCE /* for madvise, mremap and sched_yield beside -std=c11 */
#include <Python.h>
#include <pthread.h>
#include <sched.h>
#include "memory.h"

#define KERNEL kernel_plain
#include "kernel.h"

enum {
    SLOT_BITS = 8,                     /* a table starts with 2^8 slots */
    BOX_WORDS = 32768,                 /* words that a shard may post in a round */
    TEAM_STATES = 4096,                /* a smaller level is not worth starting threads for */
    TRIES = 4096,                      /* looks at a flag before the processor is handed over */
};

/* ---- Tables ------------------------------------------------------------------------------------ */

static bool grow_slots(Table *table, u32 slot_bits) {
    u64 size = table->slots ? (u64)1 << table->slot_bits : 0;
    Table grown = *table;
    grown.slot_bits = slot_bits;
    grown.slots = allocate(sizeof(u64) << slot_bits);
    if (!grown.slots)
        return false;
    for (u64 i = 0; i < size; i++)
        if (table->slots[i]) {
            u64 slot = home(&grown, table->slots[i]);
            while (grown.slots[slot])
                slot = after(&grown, slot, 1);
            grown.slots[slot] = table->slots[i];
        }
    if (size)
        release(table->slots, size * sizeof(u64));
    *table = grown;
    return true;
}

static bool grow_arrays(Table *table, u32 count, u64 W) {
    u64 *states = make_room(table->states, &table->state_room, count, W * sizeof *states);
    table->states = states ? states : table->states;
    u32 *parents = make_room(table->parents, &table->parent_room, count, sizeof *parents);
    table->parents = parents ? parents : table->parents;
    return states && parents;
}

/* ---- Workers --------------------------------------------------------------------------------- */

/* The next shard that no worker has taken in this phase; SHARDS or more if none is left. */
INLINE u32 take(Search *search) {
    return atomic_fetch_add_explicit(&search->next, 1, memory_order_relaxed);
}

/* Wait for every worker; the last to come does `between` alone. */
static void meet(Search *search, void (*between)(Search *)) {
    u32 meeting = atomic_load_explicit(&search->meeting, memory_order_relaxed);
    u32 arrived = atomic_fetch_add_explicit(&search->arrived, 1, memory_order_acq_rel) + 1;
    if (arrived == search->workers) {
        atomic_store_explicit(&search->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&search->next, 0, memory_order_relaxed);
        between(search);
        atomic_store_explicit(&search->meeting, meeting + 1, memory_order_release);
        return;
    }
    u32 tries = 0;
    while (atomic_load_explicit(&search->meeting, memory_order_acquire) == meeting)
        if (++tries > TRIES)
            sched_yield();
}

typedef struct {
    Search *search;
    u32 number;
    pthread_t thread;
} Worker;

static void *work(void *argument) {
    Worker *worker = argument;
    while (!atomic_load_explicit(&worker->search->begun, memory_order_acquire))
        sched_yield();
    worker->search->body(worker->search, worker->number);
    return NULL;
}

/* Run `body` on so many workers, this thread among them; on fewer if threads cannot be had. */
static void run(Search *search, u32 workers, void (*body)(Search *, u32 worker)) {
    Worker worker[SHARDS];
    u32 started = 1;
    search->body = body;
    atomic_store(&search->next, 0);
    atomic_store(&search->arrived, 0);
    atomic_store(&search->begun, false);
    for (; started < workers && started < SHARDS; started++) {
        worker[started] = (Worker){.search = search, .number = started};
        if (pthread_create(&worker[started].thread, NULL, work, &worker[started]))
            break;
    }
    search->workers = started;
    atomic_store_explicit(&search->begun, true, memory_order_release);
    body(search, 0);
    while (--started)
        pthread_join(worker[started].thread, NULL);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static void reserve_shard(Search *search, u32 number) {
    Shard *shard = &search->shard[number];
    if ((shard->planned_bits > shard->table.slot_bits &&
         !grow_slots(&shard->table, shard->planned_bits)) ||
        !grow_arrays(&shard->table, shard->planned_count, search->words))
        atomic_store(&search->failed, true);
}

static u64 shard_bytes(const Search *search, u32 count, u32 slot_bits) {
    return (sizeof(u64) << slot_bits) + count * (search->words * sizeof(u64) + sizeof(u32));
}

/* The sizes that the shards need if all posted states are new. */
static void plan(Search *search) {
    u64 bytes = 0, width = search->words + 1;
    for (u32 to = 0; to < SHARDS; to++) {
        Shard *shard = &search->shard[to];
        u64 count = shard->table.count;
        for (u32 from = 0; from < SHARDS; from++)
            count += (u64)(search->box[from][to].end - search->box[from][to].start) / width;
        if (count > search->shard_max) {
            atomic_store(&search->failed, true);
            return;
        }
        shard->planned_count = (u32)count;
        shard->planned_bits = shard->table.slots ? shard->table.slot_bits : SLOT_BITS;
        while (count * 4 > (u64)3 << shard->planned_bits)
            shard->planned_bits++;
        bytes += shard_bytes(search, shard->planned_count, shard->planned_bits);
    }
    if (bytes > search->bytes_max)
        atomic_store(&search->failed, true);
}

static void forget_hits(Search *search, Shard *shard) {
    if (shard->hits)
        memset(shard->hit, 0xff, search->program->patterns.count * sizeof *shard->hit);
    shard->hits = 0;
    shard->stuck = 0;
}

static void commit_shard(Search *search, Shard *shard) {
    const Guards *patterns = &search->program->patterns;
    for (u64 block = 0; shard->hits && block < patterns->blocks; block++) {
        u64 start = patterns->block_start[block];
        for (u64 i = start; i < patterns->block_start[block + 1]; i++)
            if (search->hit[i] == NONE && shard->hit[i] != NONE) {
                search->hit[i] = shard->hit[i];
                search->live[block] &= ~((u64)1 << (i - start));
            }
    }
    if (!search->stuck && shard->stuck)
        search->stuck_first = shard->stuck_first;
    search->stuck += shard->stuck;
    forget_hits(search, shard);
    u64 expanded = shard->round_end - shard->expanded;
    search->budget -= expanded < search->budget ? expanded : search->budget;
    shard->expanded = shard->round_end;
}

static void empty_boxes(Search *search, u32 from) {
    for (u32 to = 0; to < SHARDS; to++)
        search->box[from][to].end = search->box[from][to].start;
}

/* Expand the same chunks once more, and count the other way. */
static void take_back(Search *search) {
    for (u32 from = 0; from < SHARDS; from++) {
        empty_boxes(search, from);
        search->kernel->expand(search, from, 0, -1);
        empty_boxes(search, from);
        forget_hits(search, &search->shard[from]);
    }
}

static u64 level_remains(const Search *search) {
    u64 states = 0;
    for (u32 number = 0; number < SHARDS; number++)
        states += search->shard[number].level_end - search->shard[number].expanded;
    return states;
}

static void finish_round(Search *search) {
    search->stop = atomic_load(&search->failed);
    if (search->stop) {
        take_back(search);
        return;
    }
    for (u32 number = 0; number < SHARDS; number++)
        commit_shard(search, &search->shard[number]);
    search->stop = !search->budget || !level_remains(search);
}

static void nothing(Search *search) {
    (void)search;
}

static void rounds(Search *search, u32 worker) {
    u32 number;
    while (!search->stop) {
        while ((number = take(search)) < SHARDS)
            search->kernel->expand(search, number, worker, +1);
        meet(search, plan);
        while (!atomic_load(&search->failed) && (number = take(search)) < SHARDS)
            reserve_shard(search, number);
        meet(search, nothing);
        while (!atomic_load(&search->failed) && (number = take(search)) < SHARDS)
            search->kernel->store(search, number);
        meet(search, finish_round);
    }
}

/* ---- Reading the explored graph -------------------------------------------------------------- */

static void read_shards(Search *search, u32 worker) {
    (void)worker;
    for (u32 number; (number = take(search)) < SHARDS;)
        search->read(search, number);
}

static void read_graph(Search *search, u32 workers, Read *read, Reading reading) {
    u64 states = 0;
    for (u32 number = 0; number < SHARDS; number++) {
        reading.base[number] = states;
        states += search->shard[number].table.count;
    }
    search->read = read;
    search->reading = reading;
    run(search, states < TEAM_STATES ? 1 : workers, read_shards);
}

/* ---- Functions for Python; native/__init__.py checks the arguments --------------------------- */

/* Python compares this with its own structure, so that an old library is not used with a new one. */
EXPORT u64 search_image_bytes(void) {
    return sizeof(Program);
}

EXPORT void search_close(Search *search) {
    for (u32 number = 0; number < SHARDS; number++) {
        Shard *shard = &search->shard[number];
        Table *table = &shard->table;
        release(table->slots, table->slots ? sizeof(u64) << table->slot_bits : 0);
        release(table->states, table->state_room * search->words * sizeof(u64));
        release(table->parents, table->parent_room * sizeof(u32));
        free(shard->hit);
        free(search->fired[number]);
    }
    free(search->live);
    free(search->hit);
    free(search->arena);
    free(search);
}

/* Cut the arena into boxes. A box can take the successors of one more state than it should, and
   its length is odd in cache lines, so that boxes begin in different sets of the cache. */
static bool set_out_boxes(Search *search) {
    search->chunk_steps = BOX_WORDS / (search->words + 1);
    u64 room = BOX_WORDS + search->program->rows.guards.count * (search->words + 1);
    room = (room + 15) / 16 * 16 + 8;
    u64 *next = search->arena = calloc(SHARDS * SHARDS * room, sizeof *next);
    for (u32 i = 0; next && i < SHARDS * SHARDS; i++, next += room)
        search->box[i / SHARDS][i % SHARDS] = (Box){.start = next, .end = next};
    return next;
}

static const Kernel *best_kernel(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
        return &kernel_avx2;
#endif
    return &kernel_plain;
}

static u32 *nowhere(u64 count) {
    u32 *hit = malloc((count + 1) * sizeof *hit);
    if (hit)
        memset(hit, 0xff, count * sizeof *hit);
    return hit;
}

/* Returns NULL when there is not enough memory. The program must outlive the search. */
EXPORT Search *search_open(const Program *program, u32 workers, u64 bytes_max, u64 shard_max,
                           bool plain) {
    Search *search = calloc(1, sizeof *search);
    if (!search)
        return NULL;
    search->program = program;
    search->kernel = plain ? &kernel_plain : best_kernel();
    search->words = program->words;
    search->normalises = program->sweeps.guards.count || program->idle.guards.count ||
                         program->stripes.count || program->groups.count;
    search->bytes_max = bytes_max;
    search->stuck_first = NONE;
    search->shard_max = shard_max < INDEX_MASK - 1 ? shard_max : INDEX_MASK - 1;
    bool good = set_out_boxes(search);
    u64 blocks = program->patterns.blocks, patterns = program->patterns.count;
    good &= (search->hit = nowhere(patterns)) != NULL;
    good &= (search->live = malloc((blocks + 1) * sizeof(u64))) != NULL;
    for (u32 number = 0; number < SHARDS; number++)
        good &= (search->shard[number].hit = nowhere(patterns)) != NULL;
    for (u32 worker = 0; worker < workers && worker < SHARDS; worker++)
        good &= (search->fired[worker] = calloc(program->rows.guards.count + 16,
                                                sizeof(i64))) != NULL;
    if (!good) {
        search_close(search);
        return NULL;
    }
    memset(search->live, 0xff, blocks * sizeof(u64));
    return search;
}

/* Store initial states, which are normalised in place; false when there is not enough memory. */
EXPORT bool search_seed(Search *search, u64 *states, u64 count) {
    u64 words = search->words;
    for (u64 i = 0; i < count && !atomic_load(&search->failed); i++) {
        u64 *state = states + i * words;
        search->kernel->normalise(search, state);
        post(&search->box[0][shard_of(hash(state, words))], state, NONE, words);
        if ((i + 1) % search->chunk_steps && i + 1 < count)
            continue;
        plan(search);
        for (u32 number = 0; number < SHARDS && !atomic_load(&search->failed); number++)
            reserve_shard(search, number);
        for (u32 number = 0; number < SHARDS && !atomic_load(&search->failed); number++)
            search->kernel->store(search, number);
    }
    return !atomic_load(&search->failed);
}

/* Expand about so many states of the level; false when there is not enough memory. strictly: no
   round expands more, or one state in each shard. */
EXPORT bool search_step(Search *search, u64 states_max, bool strictly, u32 workers) {
    u64 remains = level_remains(search);
    if (!remains)
        for (u32 number = 0; number < SHARDS; number++)
            search->shard[number].level_end = search->shard[number].table.count;
    remains = level_remains(search);
    atomic_store(&search->failed, false);
    search->budget = states_max ? states_max : 1;
    u64 share = (search->budget + SHARDS - 1) / SHARDS;
    search->chunk_states = strictly && share < CHUNK_STATES ? (u32)share : CHUNK_STATES;
    search->stop = !remains;
    run(search, remains < TEAM_STATES ? 1 : workers, rounds);
    return !atomic_load(&search->failed);
}

/* counts: stored [SHARDS], expanded [SHARDS], remaining in the level, bytes, stuck, first stuck. */
EXPORT void search_counts(const Search *search, u64 *counts) {
    u64 bytes = 0;
    for (u32 number = 0; number < SHARDS; number++) {
        const Shard *shard = &search->shard[number];
        counts[number] = shard->table.count;
        counts[SHARDS + number] = shard->expanded;
        if (shard->table.slots)
            bytes += shard_bytes(search, shard->table.count, shard->table.slot_bits);
    }
    u64 *rest = counts + 2 * SHARDS;
    rest[0] = level_remains(search);
    rest[1] = bytes;
    rest[2] = search->stuck;
    rest[3] = search->stuck_first;
}

/* fired: [rows] in the engine's order. */
EXPORT void search_fired(const Search *search, i64 *fired) {
    for (u32 worker = 0; worker < SHARDS && search->fired[worker]; worker++)
        for (u64 row = 0; row < search->program->rows.guards.count; row++)
            fired[row] += search->fired[worker][row];
}

/* hits: [patterns] in the engine's order. */
EXPORT void search_hits(const Search *search, u32 *hits) {
    memcpy(hits, search->hit, search->program->patterns.count * sizeof *hits);
}

EXPORT void search_state(const Search *search, u32 identity, u64 *state) {
    const Table *table = &search->shard[identity >> INDEX_BITS].table;
    copy(state, table->states + (identity & INDEX_MASK) * search->words, search->words);
}

EXPORT u32 search_parent(const Search *search, u32 identity) {
    return search->shard[identity >> INDEX_BITS].table.parents[identity & INDEX_MASK];
}

/* The id of a stored state, or NONE. */
EXPORT u32 search_find(const Search *search, const u64 *state) {
    u64 h = hash(state, search->words);
    const Table *table = &search->shard[shard_of(h)].table;
    if (!table->slots)
        return NONE;
    u64 slot = probe(table, seek(table, home(table, h), h), h, state, search->words);
    u32 index = (u32)(table->slots[slot] & INDEX_MASK);
    return index ? shard_of(h) << INDEX_BITS | (index - 1) : NONE;
}

EXPORT void search_where(Search *search, u32 workers, const Guards *guard, u8 *where) {
    read_graph(search, workers, search->kernel->where, (Reading){.guard = guard, .where = where});
}

/* Put down how many edges each of these states has, [count], and then all of them, as edges_of
   does. There must be room for one more state than there is. */
EXPORT void search_edges(const Search *search, const u32 *identities, u64 count, i64 *counts,
                         u64 *edge) {
    for (u64 i = 0; i < count; edge += counts[i++])
        counts[i] = search->kernel->edges_of(search, identities[i], edge);
}

/* Expand states that the caller keeps, [count, words], until their steps fill the room; returns how
   many were expanded. steps: [room], see Batch; posted: how many words of it are used. What is
   counted, if it is, is added to the counts of the search, with places in the list for ids. */
EXPORT u64 search_expand(Search *search, const u64 *states, u64 count, bool counts, u64 *steps,
                         u64 room, u64 *posted) {
    Batch batch = {.states = states, .count = count, .counts = counts, .room_end = steps + room,
                   .steps = {.start = steps, .end = steps}};
    search->kernel->expand_batch(search, &batch);
    commit_shard(search, &search->shard[0]);
    *posted = (u64)(batch.steps.end - steps);
    return batch.expanded;
}

EXPORT void search_holds(const Search *search, const Guards *guard, const u64 *states, u64 count,
                         u8 *where) {
    search->kernel->holds_in(search, guard, states, count, where);
}

/* Python uses the library through ctypes; as a module it has no functions. */
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_search", .m_size = 0};

PyMODINIT_FUNC PyInit__search(void) {
    return PyModuleDef_Init(&module);
}
