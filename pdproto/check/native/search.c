/* The native search engine: breadth first, exact, over a Program as program.py defines it.

   Rule 1: results never depend on the number of workers. The states are divided among SHARDS by
   their hash. In a round every shard expands the next chunk of its part of the level and posts
   the successors in one box per shard; then every shard stores what was posted to it, box by box.
   Workers only decide who does which shard.
   Rule 2: a round happens entirely or not at all. Memory is found before anything is stored; if
   it cannot be had, what the round has counted is taken back, and the round may be tried again.
   Rule 3: a result depends on the program alone: not on states_max, and not on addresses.
   Rule 4: nothing here knows a protocol, and nothing is compiled per program.

   pack.py builds the structures of the first section and explains the order of guards. */
#define _GNU_SOURCE /* for madvise, MAP_ANONYMOUS and sched_yield beside -std=c11 */
#include <Python.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define relax() _mm_pause()
#else
#define relax() ((void)0)
#endif

#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
__extension__ typedef unsigned __int128 u128;

enum {
    SHARD_BITS = 4,
    SHARDS = 1 << SHARD_BITS,
    INDEX_BITS = 32 - SHARD_BITS,      /* an id is a shard and an index in it */
    SLOT_BITS = 8,                     /* a table starts with 2^8 slots */
    ROOM = 128,                        /* and room for so many states */
    CHUNK_STATES = 256,                /* a shard expands at most so many states in a round, */
    CHUNK_STEPS = 2048,                /* and none after it has posted so many successors: a
                                          round's boxes should stay in the second-level cache */
    BUCKET = 8,                        /* slots in a cache line */
    BATCH = 64,                        /* successors whose cache misses overlap */
    TEAM_STATES = 4096,                /* a smaller level is not worth starting threads for */
    CACHE_LINE = 64,
    HUGE_PAGE = 1 << 21,
};
static const u32 NONE = UINT32_MAX;
static const u64 INDEX_MASK = ((u64)1 << INDEX_BITS) - 1;

/* ---- The program --------------------------------------------------------------------------- */

typedef struct {
    u64 count, blocks;
    const u64 *block_start;            /* [blocks + 1] */
    const u64 *block_word;             /* [blocks] the word that the keys of a block are about */
    const u64 *block_simple;           /* [blocks] bit i: the i-th key is the whole guard */
    const u64 *key_mask, *key_value;   /* [count] the guard's cube in the key word */
    const u64 *mask, *value;           /* [count, words] the guard's cube */
    const u64 *clause_start;           /* [count + 1] */
    const u64 *literal_start;          /* [clauses + 1] */
    const u64 *literal_word, *literal_mask, *literal_value; /* [literals] */
} Guards;

typedef struct {
    Guards guards;
    const u64 *keep, *assign;          /* [count, words]: the next state is state & keep | assign */
} Actions;

typedef struct {
    u64 count;
    const u64 *start;                  /* [count + 1] */
    const u64 *ones;                   /* [count] mask of a column that was shifted down to bit 0 */
    const u64 *word, *shift;           /* [columns] */
} Stripes;

typedef struct {
    u64 count;
    const u64 *start;                  /* [count + 1], in permutations */
    const u64 *piece_start;            /* [permutations * words + 1]: the top word's pieces first */
    const u64 *piece_word, *piece_mask; /* [pieces] where the bits come from */
    const u64 *piece_turn;             /* [pieces] rotation to the left */
} Groups;

typedef struct {
    u64 words;                         /* in a state; W below */
    Actions rows;
    const u64 *row_number;             /* [rows] the number that the program gives it */
    const u64 *block_progress;         /* [blocks of rows] bit i: the i-th row is progress */
    Actions sweeps;
    Guards patterns;
    Guards final;                      /* states that are not stuck, though nothing moves them */
    Stripes stripes;
    Groups groups;
} Program;

/* ---- Matching: which guards of a block agree with a word ------------------------------------ */

/* Bit i of the result tells whether word & mask[i] == value[i]; count is a multiple of 8, <= 64. */
typedef u64 Match(const u64 *mask, const u64 *value, u64 count, u64 word);

static u64 match_plain(const u64 *mask, const u64 *value, u64 count, u64 word) {
    u64 bits = 0;
    for (u64 i = 0; i < count; i++)
        bits |= (u64)((word & mask[i]) == value[i]) << i;
    return bits;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static u64 match_avx2(const u64 *mask, const u64 *value, u64 count,
                                                      u64 word) {
    u64 bits = 0;
    __m256i wide = _mm256_set1_epi64x((long long)word);
    for (u64 i = 0; i < count; i += 4) {
        __m256i cube = _mm256_and_si256(wide, _mm256_loadu_si256((const __m256i *)(mask + i)));
        cube = _mm256_cmpeq_epi64(cube, _mm256_loadu_si256((const __m256i *)(value + i)));
        bits |= (u64)(u32)_mm256_movemask_pd(_mm256_castsi256_pd(cube)) << i;
    }
    return bits;
}
#endif

INLINE u64 match_block(Match *match, const Guards *guards, u64 block, const u64 *state) {
    u64 start = guards->block_start[block], count = guards->block_start[block + 1] - start;
    return match(guards->key_mask + start, guards->key_value + start, count,
                 state[guards->block_word[block]]);
}

static bool clauses_hold(const Guards *guards, u64 guard, const u64 *state) {
    for (u64 c = guards->clause_start[guard]; c < guards->clause_start[guard + 1]; c++) {
        u64 literal = guards->literal_start[c], end = guards->literal_start[c + 1];
        while (literal < end && (state[guards->literal_word[literal]] &
                                 guards->literal_mask[literal]) != guards->literal_value[literal])
            literal++;
        if (literal == end)
            return false;
    }
    return true;
}

INLINE bool holds(const Guards *guards, u64 guard, const u64 *state, u64 W) {
    const u64 *mask = guards->mask + guard * W, *value = guards->value + guard * W;
    u64 wrong = 0;
    for (u64 w = 0; w < W; w++)
        wrong |= (state[w] & mask[w]) ^ value[w];
    return !wrong && clauses_hold(guards, guard, state);
}

/* The guards of the block, among those of the given bits, that hold. */
INLINE u64 holding(Match *match, const Guards *guards, u64 block, u64 among, const u64 *state,
                   u64 W) {
    u64 bits = among ? match_block(match, guards, block, state) & among : 0;
    for (u64 rest = bits & ~guards->block_simple[block]; rest; rest &= rest - 1)
        if (!holds(guards, guards->block_start[block] + (u64)__builtin_ctzll(rest), state, W))
            bits &= ~(rest & -rest);
    return bits;
}

/* ---- States ---------------------------------------------------------------------------------- */

INLINE bool same(const u64 *a, const u64 *b, u64 W) {
    u64 wrong = 0;
    for (u64 w = 0; w < W; w++)
        wrong |= a[w] ^ b[w];
    return !wrong;
}

INLINE void copy(u64 *target, const u64 *source, u64 W) {
    for (u64 w = 0; w < W; w++)
        target[w] = source[w];
}

INLINE void apply(const Actions *actions, u64 action, const u64 *state, u64 *next, u64 W) {
    const u64 *keep = actions->keep + action * W, *assign = actions->assign + action * W;
    for (u64 w = 0; w < W; w++)
        next[w] = (state[w] & keep[w]) | assign[w];
}

INLINE u64 fold(u64 a, u64 b) {
    u128 product = (u128)a * b;
    return (u64)(product >> 64) ^ (u64)product;
}

/* The top SHARD_BITS choose the shard, the bits below them the slot: see Shard. */
INLINE u64 hash(const u64 *state, u64 W) {
    u64 h = 0x9e3779b97f4a7c15;
    for (u64 w = 0; w < W; w++)
        h = fold(h ^ state[w], 0xd6e8feb86659fd93);
    return fold(h ^ 0xa0761d6478bd642f, 0xe7037ed1a0b428db);
}

static void sweep(const Program *program, Match *match, u64 *state, u64 W) {
    const Guards *guards = &program->sweeps.guards;
    for (u64 block = 0; block < guards->blocks; block++) {
        u64 start = guards->block_start[block], simple = guards->block_simple[block];
        u64 bits = match_block(match, guards, block, state);
        while (bits) {
            u64 lane = (u64)__builtin_ctzll(bits), later = ~(u64)1 << lane;
            bits &= later;
            if (!(simple >> lane & 1) && !holds(guards, start + lane, state, W))
                continue;
            u64 before = state[guards->block_word[block]];
            apply(&program->sweeps, start + lane, state, state, W);
            if (state[guards->block_word[block]] != before)
                bits = match_block(match, guards, block, state) & later;
        }
    }
}

/* Insertion sort: a step moves few columns, so they are almost in order. */
static void sort_stripes(const Stripes *stripes, u64 *state) {
    for (u64 stripe = 0; stripe < stripes->count; stripe++) {
        u64 ones = stripes->ones[stripe], first = stripes->start[stripe];
        for (u64 column = first + 1; column < stripes->start[stripe + 1]; column++) {
            u64 moving = state[stripes->word[column]] >> stripes->shift[column] & ones;
            for (u64 hole = column; hole > first; hole--) {
                u64 *low = state + stripes->word[hole - 1], *high = state + stripes->word[hole];
                u64 low_shift = stripes->shift[hole - 1], high_shift = stripes->shift[hole];
                u64 other = *low >> low_shift & ones;
                if (other <= moving)
                    break;
                *high = (*high & ~(ones << high_shift)) | other << high_shift;
                *low = (*low & ~(ones << low_shift)) | moving << low_shift;
            }
        }
    }
}

/* The least image is found from the top word down, so most permutations end at its first word. */
static void least_images(const Groups *groups, u64 *state, u64 W) {
    u64 least[W], image[W];
    for (u64 group = 0; group < groups->count; group++) {
        memset(least, 0xff, W * sizeof *least);
        for (u64 p = groups->start[group]; p < groups->start[group + 1]; p++) {
            bool less = false;
            const u64 *piece_start = groups->piece_start + p * W;
            u64 w = W;
            while (w--) {
                u64 piece = *piece_start++, bits = 0;
                for (; piece < *piece_start; piece++) {
                    u64 part = state[groups->piece_word[piece]] & groups->piece_mask[piece];
                    u64 turn = groups->piece_turn[piece];
                    bits |= part << turn | part >> (-turn & 63);
                }
                image[w] = bits;
                if (!less && bits > least[w])
                    break;
                less |= bits < least[w];
            }
            if (less)
                copy(least, image, W);
        }
        copy(state, least, W);
    }
}

/* Brings a state into the form in which it is stored: Program.normal. */
INLINE void normalise(const Program *program, Match *match, u64 *state, u64 W) {
    if (program->sweeps.guards.count)
        sweep(program, match, state, W);
    if (program->stripes.count)
        sort_stripes(&program->stripes, state);
    if (program->groups.count)
        least_images(&program->groups, state, W);
}

/* ---- Shards ---------------------------------------------------------------------------------- */

/* A slot holds an index plus one in its low INDEX_BITS, 0 if it is free, and above them the
   *tag*: the leading bits of the hash without the shard. The leading bits of the tag also choose
   the bucket where probing starts, so a table is doubled in one pass from front to back, without
   a look at the states. Probing is linear, and a bucket is a cache line. */
typedef struct {
    u64 *slots;                        /* [2 ** slot_bits] */
    u64 *states;                       /* [state_room, words] */
    u32 *parents;                      /* [parent_room] */
    u32 slot_bits, count, state_room, parent_room;
} Table;

typedef struct {
    Table table;
    u32 planned_bits, planned_count;
    u32 expanded, level_end, round_end;
    u32 stuck_first;
    u64 stuck;                         /* in this round */
    u32 hits;                          /* patterns found in this round, and where */
    u32 *hit;                          /* [patterns] */
    char apart[128];                   /* two shards share no cache line */
} Shard;

/* States posted to a shard, each followed by a word that tells where it comes from. */
typedef struct {
    u64 *start, *end;                  /* room for CHUNK_STEPS + rows of them */
} Box;

typedef void Seek(const Shard *shards, const u64 *hashes, u64 *found, u32 count, u64 W);

typedef struct Search {
    const Program *program;
    Match *match;                      /* the best of this processor, as is seek */
    Seek *seek;
    u64 words, bytes_max, shard_max;
    bool normalises;                   /* the program has sweeps or symmetry */
    Shard shard[SHARDS];
    Box box[SHARDS][SHARDS];           /* [from][to] */
    void *arena;
    u64 arena_bytes;
    int64_t *fired[SHARDS];            /* [worker][rows] */
    u64 *live;                         /* [blocks of patterns] bit i: not found before this round */
    u32 *hit;                          /* [patterns] */
    u64 stuck;
    u32 stuck_first;
    u64 budget;                        /* states that this call may still expand */
    bool stop;
    atomic_bool failed;
    u32 workers;
    atomic_uint next, arrived, meeting;
    atomic_bool begun;
    void (*body)(struct Search *, u32 worker);
    const struct Reading *reading;
} Search;

INLINE u32 shard_of(u64 h) {
    return (u32)(h >> (64 - SHARD_BITS));
}

INLINE u64 home(const Table *table, u64 h) {
    return (h << SHARD_BITS >> (64 - table->slot_bits)) & ~(u64)(BUCKET - 1);
}

INLINE u64 tag(u64 h) {
    return h << SHARD_BITS & ~INDEX_MASK;
}

INLINE u64 after(const Table *table, u64 slot) {
    return (slot + 1) & (((u64)1 << table->slot_bits) - 1);
}

INLINE u64 *state_in(const Table *table, u64 slot, u64 W) {
    return table->states + ((table->slots[slot] & INDEX_MASK) - 1) * W;
}

/* The first slot from `slot` on that is free or has the tag. */
INLINE u64 likely(const Table *table, u64 slot, u64 wanted) {
    while (table->slots[slot] && ((table->slots[slot] ^ wanted) & ~INDEX_MASK))
        slot = after(table, slot);
    return slot;
}

/* The slot of the state, or the free slot where it belongs. */
INLINE u64 probe(const Table *table, u64 slot, u64 wanted, const u64 *state, u64 W) {
    for (;; slot = after(table, slot)) {
        slot = likely(table, slot, wanted);
        if (!table->slots[slot] || same(state_in(table, slot, W), state, W))
            return slot;
    }
}

/* For each hash: the first slot from its home on that is free or has its tag; then fetch the state
   that is there. The home bucket is searched without a branch, for where a state is found in it
   cannot be predicted. */
INLINE u64 settle(const Table *table, u64 h, u32 candidates, u64 W) {
    u64 slot = home(table, h);
    slot = candidates ? slot + (u64)__builtin_ctz(candidates)
                      : likely(table, after(table, slot + BUCKET - 1), tag(h));
    if (table->slots[slot])
        __builtin_prefetch(state_in(table, slot, W));
    return slot;
}

static void seek_plain(const Shard *shards, const u64 *hashes, u64 *found, u32 count, u64 W) {
    for (u32 i = 0; i < count; i++) {
        const Table *table = &shards[shard_of(hashes[i])].table;
        const u64 *bucket = table->slots + home(table, hashes[i]);
        u32 candidates = 0;
        for (u32 lane = 0; lane < BUCKET; lane++)
            candidates |= (u32)(!bucket[lane] | !((bucket[lane] ^ tag(hashes[i])) & ~INDEX_MASK))
                          << lane;
        found[i] = settle(table, hashes[i], candidates, W);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void seek_avx2(const Shard *shards, const u64 *hashes,
                                                      u64 *found, u32 count, u64 W) {
    const __m256i zero = _mm256_setzero_si256();
    for (u32 i = 0; i < count; i++) {
        const Table *table = &shards[shard_of(hashes[i])].table;
        const __m256i *bucket = (const __m256i *)(table->slots + home(table, hashes[i]));
        __m256i wanted = _mm256_set1_epi64x((long long)tag(hashes[i]));
        u32 candidates = 0;
        for (int half = 0; half < 2; half++) {
            __m256i slots = _mm256_load_si256(bucket + half);
            __m256i tags = _mm256_andnot_si256(_mm256_set1_epi64x((long long)INDEX_MASK), slots);
            __m256i good = _mm256_or_si256(_mm256_cmpeq_epi64(slots, zero),
                                           _mm256_cmpeq_epi64(tags, wanted));
            candidates |= (u32)_mm256_movemask_pd(_mm256_castsi256_pd(good)) << 4 * half;
        }
        found[i] = settle(table, hashes[i], candidates, W);
    }
}
#endif

INLINE u64 whole_pages(u64 bytes) {
    return (bytes + HUGE_PAGE - 1) & ~(u64)(HUGE_PAGE - 1);
}

/* Zeroed memory, in huge pages where it is large: most accesses are random. */
static void *allocate(u64 bytes) {
    if (bytes < HUGE_PAGE) {
        void *small = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) & ~(u64)(CACHE_LINE - 1));
        return small ? memset(small, 0, bytes) : NULL;
    }
    bytes = whole_pages(bytes);
    char *start = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    u64 head = -(uintptr_t)start & (HUGE_PAGE - 1);
    if (head)
        munmap(start, head);
    munmap(start + head + bytes, HUGE_PAGE - head);
#ifdef MADV_HUGEPAGE
    madvise(start + head, bytes, MADV_HUGEPAGE);
#endif
    return start + head;
}

static void release(void *memory, u64 bytes) {
    if (bytes < HUGE_PAGE)
        free(memory);
    else if (memory)
        munmap(memory, whole_pages(bytes));
}

/* A longer copy of the memory, which is given back; NULL, and no change, if there is none. Large
   memory is not copied where the system can move its pages. */
static void *lengthen(void *memory, u64 bytes, u64 more) {
    char *longer = allocate(more);
    if (!longer || !bytes)
        return longer;
#ifdef MREMAP_FIXED
    u64 pages = whole_pages(bytes);
    if (bytes >= HUGE_PAGE &&
        mremap(memory, pages, pages, MREMAP_MAYMOVE | MREMAP_FIXED, longer) == longer)
        return longer;
#endif
    memcpy(longer, memory, bytes);
    release(memory, bytes);
    return longer;
}

static bool grow_slots(Table *table, u32 slot_bits) {
    u64 size = table->slots ? (u64)1 << table->slot_bits : 0;
    Table grown = *table;
    grown.slot_bits = slot_bits;
    grown.slots = allocate(sizeof(u64) << slot_bits);
    if (!grown.slots)
        return false;
    for (u64 i = 0; i < size; i++)
        if (table->slots[i]) {
            u64 slot = home(&grown, table->slots[i] >> SHARD_BITS);
            while (grown.slots[slot])
                slot = after(&grown, slot);
            grown.slots[slot] = table->slots[i];
        }
    if (size)
        release(table->slots, size * sizeof(u64));
    *table = grown;
    return true;
}

/* Room for so many elements of the width; it is doubled, but untouched memory costs nothing. */
static void *make_room(void *array, u32 *room, u32 count, u64 width) {
    u64 longer = *room ? *room : ROOM;
    while (longer < count)
        longer *= 2;
    if (longer == *room)
        return array;
    array = lengthen(array, *room * width, longer * width);
    *room = array ? (u32)longer : *room;
    return array;
}

static bool grow_arrays(Table *table, u32 count, u64 W) {
    u64 *states = make_room(table->states, &table->state_room, count, W * sizeof *states);
    table->states = states ? states : table->states;
    u32 *parents = make_room(table->parents, &table->parent_room, count, sizeof *parents);
    table->parents = parents ? parents : table->parents;
    return states && parents;
}

/* ---- Workers --------------------------------------------------------------------------------- */

/* The next shard that nobody has taken in this phase; SHARDS or more when none is left. */
INLINE u32 take(Search *search) {
    return atomic_fetch_add_explicit(&search->next, 1, memory_order_relaxed);
}

/* Wait for every worker; the last to come does `between` alone. */
static void meet(Search *search, void (*between)(Search *)) {
    u32 meeting = atomic_load_explicit(&search->meeting, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&search->arrived, 1, memory_order_acq_rel) + 1 == search->workers) {
        atomic_store_explicit(&search->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&search->next, 0, memory_order_relaxed);
        between(search);
        atomic_store_explicit(&search->meeting, meeting + 1, memory_order_release);
        return;
    }
    for (u32 tries = 0; atomic_load_explicit(&search->meeting, memory_order_acquire) == meeting; tries++)
        if (tries < 4096)
            relax();
        else
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

/* Call the function with the width of a state as a constant, so that loops over words vanish. */
#define AT_WIDTH(words, function, ...)                                                            \
    switch (words) {                                                                              \
    case 1: function(__VA_ARGS__, 1); break;                                                      \
    case 2: function(__VA_ARGS__, 2); break;                                                      \
    case 3: function(__VA_ARGS__, 3); break;                                                      \
    case 4: function(__VA_ARGS__, 4); break;                                                      \
    case 6: function(__VA_ARGS__, 6); break;                                                      \
    case 8: function(__VA_ARGS__, 8); break;                                                      \
    default: function(__VA_ARGS__, words);                                                        \
    }

/* ---- Expanding ------------------------------------------------------------------------------- */

/* Take the rows of the bits, all of them enabled, and keep the steps that lead elsewhere: where
   to, in stored form, in next: [64, W], and by which lane of the block in lanes: [64]. Returns
   how many there are. */
INLINE u32 steps(const Search *search, u64 block, u64 bits, const u64 *state, u64 *next, u8 *lanes,
                 u64 W) {
    const Program *program = search->program;
    u64 start = program->rows.guards.block_start[block];
    bool normalises = search->normalises;
    u32 count = 0;
    for (; bits; bits &= bits - 1) {
        u64 lane = (u64)__builtin_ctzll(bits), *successor = next + count * W;
        apply(&program->rows, start + lane, state, successor, W);
        if (normalises)
            normalise(program, search->match, successor, W);
        lanes[count] = (u8)lane;
        count += !same(successor, state, W);
    }
    return count;
}

INLINE u64 enabled(const Search *search, u64 block, const u64 *state, u64 W) {
    return holding(search->match, &search->program->rows.guards, block, ~(u64)0, state, W);
}

INLINE void post(Box *box, const u64 *state, u64 extra, u64 W) {
    u64 *end = box->end;
    copy(end, state, W);
    end[W] = extra;
    box->end = end + W + 1;
}

INLINE void look_for_patterns(Search *search, Shard *shard, const u64 *state, u32 identity, u64 W) {
    const Guards *patterns = &search->program->patterns;
    for (u64 block = 0; block < patterns->blocks; block++) {
        u64 bits = holding(search->match, patterns, block, search->live[block], state, W);
        for (; bits; bits &= bits - 1) {
            u64 pattern = patterns->block_start[block] + (u64)__builtin_ctzll(bits);
            if (shard->hit[pattern] == NONE) {
                shard->hit[pattern] = identity;
                shard->hits++;
            }
        }
    }
}

static bool is_final(const Search *search, const u64 *state) {
    const Guards *final = &search->program->final;
    u64 any = 0;
    for (u64 block = 0; block < final->blocks; block++)
        any |= holding(search->match, final, block, ~(u64)0, state, search->words);
    return any;
}

/* Expand the shard's chunk of this round. A sign of -1 takes back what that has counted. */
INLINE void expand(Search *search, u32 number, u32 worker, int64_t sign, u64 W) {
    Shard *shard = &search->shard[number];
    Box *box = search->box[number];
    const Guards *guards = &search->program->rows.guards;
    u64 next[64 * W];
    u8 lanes[64];
    u32 posted = 0, index = shard->expanded;
    u32 end = shard->level_end - index < CHUNK_STATES ? shard->level_end : index + CHUNK_STATES;
    for (; index < end && posted < CHUNK_STEPS; index++) {
        const u64 *state = shard->table.states + index * W;
        u32 identity = number << INDEX_BITS | index;
        u64 progress = 0;
        look_for_patterns(search, shard, state, identity, W);
        for (u64 block = 0; block < guards->blocks; block++) {
            int64_t *fired = search->fired[worker] + guards->block_start[block];
            u64 bits = enabled(search, block, state, W), moved = 0;
            u32 count = steps(search, block, bits, state, next, lanes, W);
            for (; bits; bits &= bits - 1)
                fired[__builtin_ctzll(bits)] += sign;
            for (u32 i = 0; i < count; i++) {
                post(box + shard_of(hash(next + i * W, W)), next + i * W, identity, W);
                moved |= (u64)1 << lanes[i];
            }
            progress |= moved & search->program->block_progress[block];
            posted += count;
        }
        if (!progress && !is_final(search, state) && !shard->stuck++)
            shard->stuck_first = identity;
    }
    shard->round_end = index;
}

static void expand_shard(Search *search, u32 number, u32 worker, int64_t sign) {
    AT_WIDTH(search->words, expand, search, number, worker, sign)
}

/* ---- Storing --------------------------------------------------------------------------------- */

typedef struct {
    u64 hash[BATCH], slot[BATCH];      /* where the search for the state goes on */
} Aims;

/* Hash the posted states and find where they probably are, with the cache misses of all of them
   under way at once. */
INLINE void aim(const Search *search, const u64 *posted, u32 count, Aims *aims, u64 W) {
    for (u32 i = 0; i < count; i++) {
        u64 h = aims->hash[i] = hash(posted + i * (W + 1), W);
        const Table *table = &search->shard[shard_of(h)].table;
        __builtin_prefetch(table->slots + home(table, h));
    }
    search->seek(search->shard, aims->hash, aims->slot, count, W);
}

INLINE u32 batch(const Box *box, const u64 *posted, u64 W) {
    u64 left = (u64)(box->end - posted) / (W + 1);
    return left < BATCH ? (u32)left : BATCH;
}

/* Store what was posted to the shard and is new; reserve_shard has made room. */
INLINE void store(Search *search, u32 number, u64 W) {
    Table table = search->shard[number].table;
    Aims aims;
    for (u32 from = 0; from < SHARDS; from++) {
        Box *box = &search->box[from][number];
        for (u64 *posted = box->start; posted < box->end;) {
            u32 count = batch(box, posted, W);
            aim(search, posted, count, &aims, W);
            for (u32 i = 0; i < count; i++, posted += W + 1) {
                u64 wanted = tag(aims.hash[i]), slot = probe(&table, aims.slot[i], wanted, posted, W);
                if (table.slots[slot])
                    continue;
                copy(table.states + table.count * W, posted, W);
                table.parents[table.count++] = (u32)posted[W];
                table.slots[slot] = wanted | table.count;
            }
        }
        box->end = box->start;
    }
    search->shard[number].table.count = table.count;
}

static void store_shard(Search *search, u32 number) {
    AT_WIDTH(search->words, store, search, number)
}

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

/* Decide how large the shards must become, were all that was posted new. */
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

/* ---- Rounds ---------------------------------------------------------------------------------- */

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

static void take_back(Search *search) {
    for (u32 from = 0; from < SHARDS; from++) {
        empty_boxes(search, from);
        expand_shard(search, from, 0, -1);
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
            expand_shard(search, number, worker, +1);
        meet(search, plan);
        while (!atomic_load(&search->failed) && (number = take(search)) < SHARDS)
            reserve_shard(search, number);
        meet(search, nothing);
        while (!atomic_load(&search->failed) && (number = take(search)) < SHARDS)
            store_shard(search, number);
        meet(search, finish_round);
    }
}

/* ---- Reading the explored graph -------------------------------------------------------------- */

typedef struct Reading {
    u64 base[SHARDS];                  /* the position of a shard's first state */
    const Guards *guard;               /* one guard, for `where` */
    u8 *where;                         /* [states] */
    int64_t *counts;                   /* [states] edges */
    const int64_t *starts;             /* [states + 1] */
    u32 *targets, *rows;               /* [edges] */
} Reading;

INLINE void read_where(Search *search, u32 number, u64 W) {
    const Reading *reading = search->reading;
    const Table *table = &search->shard[number].table;
    for (u32 index = 0; index < table->count; index++)
        reading->where[reading->base[number] + index] =
            holds(reading->guard, 0, table->states + index * W, W);
}

INLINE void count_edges(Search *search, u32 number, u64 W) {
    Shard *shard = &search->shard[number];
    int64_t *counts = search->reading->counts + search->reading->base[number];
    u64 next[64 * W];
    u8 lanes[64];
    for (u32 index = 0; index < shard->expanded; index++) {
        const u64 *state = shard->table.states + index * W;
        for (u64 block = 0; block < search->program->rows.guards.blocks; block++)
            counts[index] += steps(search, block, enabled(search, block, state, W), state, next,
                                   lanes, W);
    }
}

/* Look up the successors in the box, which come from rows. */
INLINE void look_up(Search *search, Box *box, int64_t edge, u64 W) {
    const Reading *reading = search->reading;
    Aims aims;
    for (u64 *posted = box->start; posted < box->end;) {
        u32 count = batch(box, posted, W);
        aim(search, posted, count, &aims, W);
        for (u32 i = 0; i < count; i++, edge++, posted += W + 1) {
            u32 number = shard_of(aims.hash[i]);
            const Table *table = &search->shard[number].table;
            u64 slot = probe(table, aims.slot[i], tag(aims.hash[i]), posted, W);
            u64 position = reading->base[number] + (table->slots[slot] & INDEX_MASK) - 1;
            reading->targets[edge] = (u32)position;
            reading->rows[edge] = (u32)search->program->row_number[posted[W]];
        }
    }
    box->end = box->start;
}

/* Insertion sort: only blocks of different key words are out of order. */
static void sort_edges(u32 *rows, u32 *targets, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        u32 row = rows[i], target = targets[i];
        int64_t hole = i;
        for (; hole && rows[hole - 1] > row; hole--) {
            rows[hole] = rows[hole - 1];
            targets[hole] = targets[hole - 1];
        }
        rows[hole] = row;
        targets[hole] = target;
    }
}

/* A box keeps the successors of a few states until they are looked up together. */
INLINE void fill_edges(Search *search, u32 number, u64 W) {
    const Reading *reading = search->reading;
    Shard *shard = &search->shard[number];
    Box *box = search->box[number];
    const int64_t *starts = reading->starts + reading->base[number];
    const Guards *guards = &search->program->rows.guards;
    u64 next[64 * W];
    u8 lanes[64];
    for (u32 index = 0, first = 0; index < shard->expanded;) {
        const u64 *state = shard->table.states + index++ * W;
        for (u64 block = 0; block < guards->blocks; block++) {
            u64 bits = enabled(search, block, state, W);
            u32 count = steps(search, block, bits, state, next, lanes, W);
            for (u32 i = 0; i < count; i++)
                post(box, next + i * W, guards->block_start[block] + lanes[i], W);
        }
        if (box->end - box->start < (ptrdiff_t)(CHUNK_STEPS * (W + 1)) && index < shard->expanded)
            continue;
        look_up(search, box, starts[first], W);
        for (; first < index; first++)
            sort_edges(reading->rows + starts[first], reading->targets + starts[first],
                       starts[first + 1] - starts[first]);
    }
}

static void read_shards(Search *search, u32 worker) {
    (void)worker;
    for (u32 number; (number = take(search)) < SHARDS;)
        if (search->reading->where)
            AT_WIDTH(search->words, read_where, search, number)
        else if (search->reading->counts)
            AT_WIDTH(search->words, count_edges, search, number)
        else
            AT_WIDTH(search->words, fill_edges, search, number)
}

static void read_graph(Search *search, u32 workers, Reading *reading) {
    u64 states = 0;
    for (u32 number = 0; number < SHARDS; number++) {
        reading->base[number] = states;
        states += search->shard[number].table.count;
    }
    search->reading = reading;
    run(search, states < TEAM_STATES ? 1 : workers, read_shards);
}

/* ---- What Python calls; native/__init__.py checks the arguments ------------------------------- */

/* Python compares this with its own structure, lest an old library read a new one. */
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
    if (search->arena)
        release(search->arena, search->arena_bytes);
    free(search);
}

/* Cut the arena into boxes. A box can take the successors of one more state than it should, and
   its length is odd in cache lines, lest all boxes begin in the same set of the cache. */
static bool set_out_boxes(Search *search) {
    u64 room = (CHUNK_STEPS + search->program->rows.guards.count) * (search->words + 1);
    room = (room + 15) / 16 * 16 + 8;
    search->arena_bytes = SHARDS * SHARDS * room * sizeof(u64);
    u64 *next = search->arena = allocate(search->arena_bytes);
    for (u32 i = 0; next && i < SHARDS * SHARDS; i++, next += room)
        search->box[i / SHARDS][i % SHARDS] = (Box){.start = next, .end = next};
    return next;
}

static void choose_instructions(Search *search) {
    search->match = match_plain;
    search->seek = seek_plain;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        search->match = match_avx2;
        search->seek = seek_avx2;
    }
#endif
}

static u32 *nowhere(u64 count) {
    u32 *hit = malloc((count + 1) * sizeof *hit);
    if (hit)
        memset(hit, 0xff, count * sizeof *hit);
    return hit;
}

/* Returns NULL when there is not enough memory. The program must outlive the search. */
EXPORT Search *search_open(const Program *program, u32 workers, u64 bytes_max, u64 shard_max) {
    Search *search = calloc(1, sizeof *search);
    if (!search)
        return NULL;
    *search = (Search){.program = program, .words = program->words,
                       .bytes_max = bytes_max, .stuck_first = NONE};
    choose_instructions(search);
    search->normalises = program->sweeps.guards.count || program->stripes.count ||
                         program->groups.count;
    search->shard_max = shard_max < INDEX_MASK - 1 ? shard_max : INDEX_MASK - 1;
    bool good = set_out_boxes(search);
    u64 blocks = program->patterns.blocks, patterns = program->patterns.count;
    good &= (search->hit = nowhere(patterns)) != NULL;
    good &= (search->live = malloc((blocks + 1) * sizeof(u64))) != NULL;
    for (u32 number = 0; number < SHARDS; number++)
        good &= (search->shard[number].hit = nowhere(patterns)) != NULL;
    for (u32 worker = 0; worker < workers && worker < SHARDS; worker++)
        good &= (search->fired[worker] = calloc(program->rows.guards.count + 16,
                                                sizeof(int64_t))) != NULL;
    if (!good) {
        search_close(search);
        return NULL;
    }
    memset(search->live, 0xff, blocks * sizeof(u64));
    return search;
}

INLINE void seed(Search *search, u64 *states, u64 count, u64 W) {
    for (u64 i = 0; i < count && !atomic_load(&search->failed); i++) {
        u64 *state = states + i * W;
        normalise(search->program, search->match, state, W);
        Box *box = &search->box[0][shard_of(hash(state, W))];
        post(box, state, NONE, W);
        if ((i + 1) % CHUNK_STEPS && i + 1 < count)
            continue;
        plan(search);
        for (u32 number = 0; number < SHARDS && !atomic_load(&search->failed); number++)
            reserve_shard(search, number);
        for (u32 number = 0; number < SHARDS && !atomic_load(&search->failed); number++)
            store_shard(search, number);
    }
}

/* Store initial states, which are normalised in place; false when there is not enough memory. */
EXPORT bool search_seed(Search *search, u64 *states, u64 count) {
    AT_WIDTH(search->words, seed, search, states, count)
    return !atomic_load(&search->failed);
}

/* Expand about so many states of the level; false when there is not enough memory. */
EXPORT bool search_step(Search *search, u64 states_max, u32 workers) {
    u64 remains = level_remains(search);
    if (!remains)
        for (u32 number = 0; number < SHARDS; number++)
            search->shard[number].level_end = search->shard[number].table.count;
    remains = level_remains(search);
    atomic_store(&search->failed, false);
    search->budget = states_max ? states_max : 1;
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
EXPORT void search_fired(const Search *search, int64_t *fired) {
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
    u64 slot = probe(table, home(table, h), tag(h), state, search->words);
    u32 index = (u32)(table->slots[slot] & INDEX_MASK);
    return index ? shard_of(h) << INDEX_BITS | (index - 1) : NONE;
}

EXPORT void search_where(Search *search, u32 workers, const Guards *guard, u8 *where) {
    read_graph(search, workers, &(Reading){.guard = guard, .where = where});
}

EXPORT void search_count_edges(Search *search, u32 workers, int64_t *counts) {
    read_graph(search, workers, &(Reading){.counts = counts});
}

EXPORT void search_fill_edges(Search *search, u32 workers, const int64_t *starts, u32 *targets,
                              u32 *rows) {
    read_graph(search, workers, &(Reading){.starts = starts, .targets = targets, .rows = rows});
}

/* The library is reached through ctypes; as a module it has nothing to offer. */
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_search", .m_size = 0};

PyMODINIT_FUNC PyInit__search(void) {
    return PyModuleDef_Init(&module);
}
