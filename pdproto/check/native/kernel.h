/* The inner loops of the native search engine.

   Rule 1: this file is compiled once for any processor, as part of search.c, and once for AVX2, by
   kernel_avx2.c. It exports nothing but a Kernel: the functions at its end.
   Rule 2: nothing here allocates, waits, or knows of workers.
   Rule 3: functions that take W, the words in a state, are inlined where W is a constant, so that
   loops over words vanish; see AT_WIDTH. */
#include "search.h"
#ifdef AVX2
#include <immintrin.h>
#endif

enum { BATCH = 64 };                   /* posted states whose cache misses overlap */

/* Call the function with the width of a state as a constant. */
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

INLINE u64 lowest(u64 bits) {
    return (u64)__builtin_ctzll(bits);
}

/* ---- Eight at a time ------------------------------------------------------------------------- */

/* Bit i of the result: word & mask[i] == value[i]. The count is a multiple of 8, at most 64. */
INLINE u64 match(const u64 *mask, const u64 *value, u64 count, u64 word) {
    u64 bits = 0;
#ifdef AVX2
    __m256i wide = _mm256_set1_epi64x((long long)word);
    for (u64 i = 0; i < count; i += 4) {
        __m256i cube = _mm256_and_si256(wide, _mm256_loadu_si256((const __m256i *)(mask + i)));
        cube = _mm256_cmpeq_epi64(cube, _mm256_loadu_si256((const __m256i *)(value + i)));
        bits |= (u64)(u32)_mm256_movemask_pd(_mm256_castsi256_pd(cube)) << i;
    }
#else
    for (u64 i = 0; i < count; i++)
        bits |= (u64)((word & mask[i]) == value[i]) << i;
#endif
    return bits;
}

/* Whether any bit of `match` would be set: what is looked for is rarely there. */
INLINE bool match_any(const u64 *mask, const u64 *value, u64 count, u64 word) {
#ifdef AVX2
    __m256i wide = _mm256_set1_epi64x((long long)word), any = _mm256_setzero_si256();
    for (u64 i = 0; i < count; i += 4) {
        __m256i cube = _mm256_and_si256(wide, _mm256_loadu_si256((const __m256i *)(mask + i)));
        cube = _mm256_cmpeq_epi64(cube, _mm256_loadu_si256((const __m256i *)(value + i)));
        any = _mm256_or_si256(any, cube);
    }
    return !_mm256_testz_si256(any, any);
#else
    return match(mask, value, count, word);
#endif
}

/* Bit i of the result: the i-th slot of the bucket is free or has the tag. */
INLINE u32 candidates(const u64 *bucket, u64 tag) {
    u32 bits = 0;
#ifdef AVX2
    const __m256i index = _mm256_set1_epi64x((long long)INDEX_MASK), free = _mm256_setzero_si256();
    __m256i wanted = _mm256_set1_epi64x((long long)tag);
    for (u32 i = 0; i < BUCKET; i += 4) {
        __m256i slots = _mm256_load_si256((const __m256i *)(bucket + i));
        __m256i good = _mm256_or_si256(
            _mm256_cmpeq_epi64(slots, free),
            _mm256_cmpeq_epi64(_mm256_andnot_si256(index, slots), wanted));
        bits |= (u32)_mm256_movemask_pd(_mm256_castsi256_pd(good)) << i;
    }
#else
    for (u32 i = 0; i < BUCKET; i++)
        bits |= (u32)(!bucket[i] | !((bucket[i] ^ tag) & ~INDEX_MASK)) << i;
#endif
    return bits;
}

/* ---- Guards ---------------------------------------------------------------------------------- */

/* Whether the masked bits, without the value and shifted down, are in the set of small numbers. */
INLINE bool literal_holds(const Guards *guards, u64 literal, const u64 *state) {
    u64 bits = state[guards->literal_word[literal]] & guards->literal_mask[literal];
    u64 rest = (bits ^ guards->literal_value[literal]) >> guards->literal_shift[literal];
    return rest < 64 && guards->literal_set[literal] >> rest & 1;
}

static bool clauses_hold(const Guards *guards, u64 guard, const u64 *state) {
    for (u64 c = guards->clause_start[guard]; c < guards->clause_start[guard + 1]; c++) {
        u64 literal = guards->literal_start[c], end = guards->literal_start[c + 1];
        while (literal < end && !literal_holds(guards, literal, state))
            literal++;
        if (literal == end)
            return false;
    }
    return true;
}

/* Whether each walk ends at YES. Nodes 0 and 1 are the ends, NO and YES. */
static bool walks_end_well(const Guards *guards, u64 guard, const u64 *state) {
    for (u64 w = guards->walk_start[guard]; w < guards->walk_start[guard + 1]; w++) {
        u64 node = guards->walk_first[w];
        while (node > 1) {
            u64 bits = state[guards->node_word[node]] & guards->node_mask[node];
            node = guards->below[guards->node_below[node] + (bits >> guards->node_shift[node])];
        }
        if (!node)
            return false;
    }
    return true;
}

INLINE bool holds(const Guards *guards, u64 guard, const u64 *state, u64 W) {
    const u64 *mask = guards->mask + guard * W, *value = guards->value + guard * W;
    u64 wrong = 0;
    for (u64 w = 0; w < W; w++)
        wrong |= (state[w] & mask[w]) ^ value[w];
    return !wrong && clauses_hold(guards, guard, state) && walks_end_well(guards, guard, state);
}

/* The guards of the block whose keys hold. */
INLINE u64 keyed(const Guards *guards, u64 block, const u64 *state) {
    u64 start = guards->block_start[block], count = guards->block_start[block + 1] - start;
    return match(guards->key_mask + start, guards->key_value + start, count,
                 state[guards->block_word[block]]);
}

/* The guards of the block that hold. */
INLINE u64 holding(const Guards *guards, u64 block, const u64 *state, u64 W) {
    u64 bits = keyed(guards, block, state);
    for (u64 rest = bits & ~guards->block_simple[block]; rest; rest &= rest - 1)
        if (!holds(guards, guards->block_start[block] + lowest(rest), state, W))
            bits ^= rest & -rest;
    return bits;
}

INLINE bool none_keyed(const Guards *guards, u64 block, const u64 *state) {
    u64 start = guards->block_start[block], count = guards->block_start[block + 1] - start;
    return !match_any(guards->key_mask + start, guards->key_value + start, count,
                      state[guards->block_word[block]]);
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

/* What is moved too; `next` is another state, and has had the rest applied. */
INLINE void move(const Actions *actions, u64 action, const u64 *state, u64 *next) {
    for (u64 m = actions->move_start[action]; m < actions->move_start[action + 1]; m++) {
        u64 bits = state[actions->move_from[m]] & actions->move_mask[m];
        u64 turn = actions->move_turn[m];
        next[actions->move_to[m]] |= bits << turn | bits >> (-turn & 63);
    }
}

/* Each word is multiplied into the hash, and the product folded upon itself. */
INLINE u64 hash(const u64 *state, u64 W) {
    u64 h = 0x9e3779b97f4a7c15;
    for (u64 w = 0; w < W; w++) {
        u128 product = (u128)(h ^ state[w]) * 0xd6e8feb86659fd93;
        h = (u64)(product >> 64) ^ (u64)product;
    }
    return h;
}

INLINE void sweep(const Program *program, u64 *state, u64 W) {
    const Guards *guards = &program->sweeps.guards;
    for (u64 block = 0; block < guards->blocks; block++) {
        u64 start = guards->block_start[block], simple = guards->block_simple[block];
        u64 bits = none_keyed(guards, block, state) ? 0 : keyed(guards, block, state);
        while (bits) {
            u64 lane = lowest(bits), later = bits & (bits - 1);
            u64 before = state[guards->block_word[block]];
            if ((simple >> lane & 1) || holds(guards, start + lane, state, W))
                apply(&program->sweeps, start + lane, state, state, W);
            if (state[guards->block_word[block]] != before)
                later = keyed(guards, block, state) & (ALL - 1) << lane;
            bits = later;
        }
    }
}

/* Insertion sort: a step moves few columns, so they are almost in order. */
INLINE void sort_stripes(const Stripes *stripes, u64 *state) {
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
INLINE void least_images(const Groups *groups, u64 *state, u64 W) {
    u64 least[W], image[W];
    for (u64 group = 0; group < groups->count; group++) {
        memset(least, 0xff, W * sizeof *least);
        for (u64 p = groups->start[group]; p < groups->start[group + 1]; p++) {
            const u64 *piece_start = groups->piece_start + p * W;
            bool less = false;
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

/* Brings a state into the form in which it is stored: Program.normal. Never inlined, for most
   programs have no use for it. */
static __attribute__((noinline)) void normalise(const Search *search, u64 *state) {
    const Program *program = search->program;
    if (program->sweeps.guards.count)
        AT_WIDTH(search->words, sweep, program, state)
    if (program->stripes.count)
        sort_stripes(&program->stripes, state);
    if (program->groups.count)
        least_images(&program->groups, state, search->words);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

INLINE u32 shard_of(u64 h) {
    return (u32)h & (SHARDS - 1);
}

INLINE u64 tag(u64 h) {
    return h & ~INDEX_MASK;
}

INLINE u64 home(const Table *table, u64 h) {
    return h >> (64 - table->slot_bits) & ~(u64)(BUCKET - 1);
}

INLINE u64 after(const Table *table, u64 slot, u64 step) {
    return (slot + step) & (((u64)1 << table->slot_bits) - 1);
}

INLINE u64 *state_in(const Table *table, u64 slot, u64 W) {
    return table->states + ((table->slots[slot] & INDEX_MASK) - 1) * W;
}

/* The first slot from the given one on that is free or has the tag of the hash. */
INLINE u64 seek(const Table *table, u64 slot, u64 h) {
    u32 among = UINT32_MAX << slot % BUCKET;
    u64 bucket = slot - slot % BUCKET;
    for (;; among = UINT32_MAX, bucket = after(table, bucket, BUCKET)) {
        u32 good = candidates(table->slots + bucket, tag(h)) & among;
        if (good)
            return bucket + (u32)__builtin_ctz(good);
    }
}

/* The slot of the state, or the free slot where it belongs; not before the given one. */
INLINE u64 probe(const Table *table, u64 slot, u64 h, const u64 *state, u64 W) {
    while (table->slots[slot] && (tag(table->slots[slot] ^ h) ||
                                  !same(state_in(table, slot, W), state, W)))
        slot = seek(table, after(table, slot, 1), h);
    return slot;
}

/* ---- Expanding ------------------------------------------------------------------------------- */

/* Whether two states differ in a bit of the mask. */
INLINE bool differ(const u64 *a, const u64 *b, const u64 *mask, u64 W) {
    u64 bits = 0;
    for (u64 w = 0; w < W; w++)
        bits |= (a[w] ^ b[w]) & mask[w];
    return bits;
}

/* Take the enabled rows of the block, and keep the steps that lead elsewhere: where to, in stored
   form, in next: [64, W], and their lanes as bits in moved. Returns how many they are. Lanes of
   rows that change a lasting bit are bits in changed. If fired is not NULL, [rows of the block],
   the sign is added for each enabled row. */
INLINE u32 steps(const Search *search, u64 block, const u64 *state, u64 *next, u64 *moved,
                 u64 *changed, i64 *fired, i64 sign, u64 W) {
    const Actions *rows = &search->program->rows;
    u64 start = rows->guards.block_start[block];
    bool normalises = search->normalises;
    u32 count = 0;
    u64 lasting = 0;
    *moved = 0;
    for (u64 bits = holding(&rows->guards, block, state, W); bits; bits &= bits - 1) {
        u64 lane = lowest(bits), *successor = next + count * W;
        apply(rows, start + lane, state, successor, W);
        move(rows, start + lane, state, successor);
        if (normalises) {
            bool lasts = differ(successor, state, search->program->lasting, W);
            lasting |= bits & -bits & -(u64)lasts;
            normalise(search, successor);
        }
        bool moves = !same(successor, state, W);
        *moved |= bits & -bits & -(u64)moves;
        count += moves;
        if (fired)
            fired[lane] += sign;
    }
    *changed = normalises ? lasting : *moved;
    return count;
}

INLINE void post(Box *box, const u64 *state, u64 origin, u64 W) {
    u64 *end = box->end;
    copy(end, state, W);
    end[W] = origin;
    box->end = end + W + 1;
}

INLINE void look_for_patterns(Search *search, Shard *shard, const u64 *state, u32 identity, u64 W) {
    const Guards *patterns = &search->program->patterns;
    for (u64 block = 0; block < patterns->blocks; block++) {
        if (!search->live[block] || none_keyed(patterns, block, state))
            continue;
        u64 bits = search->live[block] & holding(patterns, block, state, W);
        for (; bits; bits &= bits - 1) {
            u64 pattern = patterns->block_start[block] + lowest(bits);
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
        any |= holding(final, block, state, search->words);
    return any;
}

/* Whether a row of the protocol changes a bit that may be idle, but is not so in this state. What it
   leads to is compared as it is, neither swept nor renamed. Never inlined: few states need it. */
static __attribute__((noinline)) bool changes(const Search *search, const u64 *state) {
    const Program *program = search->program;
    const Guards *guards = &program->rows.guards, *idle = &program->idle.guards;
    u64 W = search->words, next[W], matters[W];
    if (!idle->count)
        return false;
    memset(matters, 0xff, sizeof matters);
    for (u64 block = 0; block < idle->blocks; block++)
        for (u64 bits = holding(idle, block, state, W); bits; bits &= bits - 1)
            apply(&program->idle, idle->block_start[block] + lowest(bits), matters, matters, W);
    for (u64 block = 0; block < guards->blocks; block++) {
        u64 bits = holding(guards, block, state, W) & program->block_progress[block];
        for (; bits; bits &= bits - 1) {
            apply(&program->rows, guards->block_start[block] + lowest(bits), state, next, W);
            move(&program->rows, guards->block_start[block] + lowest(bits), state, next);
            if (differ(next, state, matters, W))
                return true;
        }
    }
    return false;
}

INLINE void expand_at(Search *search, u32 number, u32 worker, i64 sign, u64 W) {
    Shard *shard = &search->shard[number];
    Box *box = search->box[number];
    const Program *program = search->program;
    const Guards *guards = &program->rows.guards;
    u64 next[64 * W], moved, changed;
    u64 posted = 0;
    u32 index = shard->expanded;
    u32 chunk = search->chunk_states;
    u32 end = shard->level_end - index < chunk ? shard->level_end : index + chunk;
    for (; index < end && posted < search->chunk_steps; index++) {
        const u64 *state = shard->table.states + index * W;
        u32 identity = number << INDEX_BITS | index;
        u64 progress = 0;
        look_for_patterns(search, shard, state, identity, W);
        for (u64 block = 0; block < guards->blocks; block++) {
            i64 *fired = search->fired[worker] + guards->block_start[block];
            u32 count = steps(search, block, state, next, &moved, &changed, fired, sign, W);
            for (u32 i = 0; i < count; i++)
                post(box + shard_of(hash(next + i * W, W)), next + i * W, identity, W);
            progress |= changed & program->block_progress[block];
            posted += count;
        }
        if (!progress && !is_final(search, state) && !changes(search, state) &&
            !shard->stuck++)
            shard->stuck_first = identity;
    }
    shard->round_end = index;
}

/* Expand the shard's chunk of this round. A sign of -1 takes back what that has counted. */
static void expand(Search *search, u32 number, u32 worker, i64 sign) {
    AT_WIDTH(search->words, expand_at, search, number, worker, sign)
}

/* ---- States that the caller keeps -------------------------------------------------------------- */

INLINE void expand_batch_at(Search *search, Batch *batch, u64 W) {
    Shard *shard = &search->shard[0];
    const Program *program = search->program;
    const Guards *guards = &program->rows.guards;
    u64 next[64 * W], moved, changed;
    i64 widest = (i64)(guards->count * (W + 1));
    for (; batch->expanded < batch->count && batch->room_end - batch->steps.end >= widest;
         batch->expanded++) {
        const u64 *state = batch->states + batch->expanded * W;
        u64 progress = 0;
        if (batch->counts)
            look_for_patterns(search, shard, state, (u32)batch->expanded, W);
        for (u64 block = 0; block < guards->blocks; block++) {
            u64 start = guards->block_start[block];
            i64 *fired = batch->counts ? search->fired[0] + start : NULL;
            u32 count = steps(search, block, state, next, &moved, &changed, fired, +1, W);
            progress |= changed & program->block_progress[block];
            for (u32 i = 0; i < count; i++, moved &= moved - 1)
                post(&batch->steps, next + i * W,
                     batch->expanded | program->row_number[start + lowest(moved)] << 32, W);
        }
        if (batch->counts && !progress && !is_final(search, state) && !changes(search, state) &&
            !shard->stuck++)
            shard->stuck_first = (u32)batch->expanded;
    }
}

/* Expand states of the list until all are expanded, or a state may find no room for its steps. */
static void expand_batch(Search *search, Batch *batch) {
    AT_WIDTH(search->words, expand_batch_at, search, batch)
}

/* where: [count], whether the guard holds in each of the states, [count, words]. */
static void holds_in(const Search *search, const Guards *guard, const u64 *states, u64 count,
                     u8 *where) {
    for (u64 i = 0; i < count; i++)
        where[i] = holds(guard, 0, states + i * search->words, search->words);
}

/* ---- Storing --------------------------------------------------------------------------------- */

typedef struct {
    u64 hash[BATCH], slot[BATCH];      /* where the search for the state goes on */
} Aims;

INLINE u32 batch(const Box *box, const u64 *posted, u64 W) {
    u64 left = (u64)(box->end - posted) / (W + 1);
    return left < BATCH ? (u32)left : BATCH;
}

INLINE void fetch(const Table *table, u64 slot, u64 W) {
    if (table->slots[slot])
        __builtin_prefetch(state_in(table, slot, W));
}

INLINE void store_at(Search *search, u32 number, u64 W) {
    Table table = search->shard[number].table;
    Aims aims;
    for (u32 from = 0; from < SHARDS; from++) {
        Box *box = &search->box[from][number];
        for (u64 *posted = box->start; posted < box->end;) {
            u32 count = batch(box, posted, W);
            for (u32 i = 0; i < count; i++) {
                aims.hash[i] = hash(posted + i * (W + 1), W);
                __builtin_prefetch(table.slots + home(&table, aims.hash[i]));
            }
            for (u32 i = 0; i < count; i++) {
                aims.slot[i] = seek(&table, home(&table, aims.hash[i]), aims.hash[i]);
                fetch(&table, aims.slot[i], W);
            }
            for (u32 i = 0; i < count; i++, posted += W + 1) {
                u64 slot = probe(&table, aims.slot[i], aims.hash[i], posted, W);
                if (table.slots[slot])
                    continue;
                copy(table.states + table.count * W, posted, W);
                table.parents[table.count++] = (u32)posted[W];
                table.slots[slot] = tag(aims.hash[i]) | table.count;
            }
        }
        box->end = box->start;
    }
    search->shard[number].table.count = table.count;
}

/* Store what was posted to the shard and is new, box by box. There must be room for all of it. */
static void store(Search *search, u32 number) {
    AT_WIDTH(search->words, store_at, search, number)
}

/* ---- Reading the explored graph -------------------------------------------------------------- */

static void where(Search *search, u32 number) {
    const Reading *reading = &search->reading;
    const Table *table = &search->shard[number].table;
    for (u32 index = 0; index < table->count; index++)
        reading->where[reading->base[number] + index] =
            holds(reading->guard, 0, table->states + index * search->words, search->words);
}

/* Look up so many states, [count, W], and put down their ids. Their cache misses overlap. */
INLINE void look_up(const Search *search, const u64 *states, u32 count, u64 *identities, u64 W) {
    u64 hashes[2 * BATCH], slots[2 * BATCH];
    for (u32 i = 0; i < count; i++) {
        u64 h = hashes[i] = hash(states + i * W, W);
        const Table *table = &search->shard[shard_of(h)].table;
        __builtin_prefetch(table->slots + home(table, h));
    }
    for (u32 i = 0; i < count; i++) {
        const Table *table = &search->shard[shard_of(hashes[i])].table;
        slots[i] = seek(table, home(table, hashes[i]), hashes[i]);
        fetch(table, slots[i], W);
    }
    for (u32 i = 0; i < count; i++) {
        u32 number = shard_of(hashes[i]);
        const Table *table = &search->shard[number].table;
        u64 slot = probe(table, slots[i], hashes[i], states + i * W, W);
        identities[i] = (u64)number << INDEX_BITS | ((table->slots[slot] & INDEX_MASK) - 1);
    }
}

/* Insertion sort: only blocks of different key words are out of order. */
INLINE void sort_edges(u64 *edge, u32 count) {
    for (u32 i = 1; i < count; i++) {
        u64 moving = edge[i];
        u32 hole = i;
        for (; hole && edge[hole - 1] > moving; hole--)
            edge[hole] = edge[hole - 1];
        edge[hole] = moving;
    }
}

INLINE void edges_at(const Search *search, u32 identity, u64 *edge, u32 *count, u64 W) {
    const Program *program = search->program;
    const Guards *guards = &program->rows.guards;
    const Shard *shard = &search->shard[identity >> INDEX_BITS];
    const u64 *state = shard->table.states + (identity & INDEX_MASK) * W;
    u64 next[2 * BATCH * W], rows[2 * BATCH], moved, changed;
    u32 waiting = 0;
    *count = 0;
    if ((identity & INDEX_MASK) >= shard->expanded)
        return;
    for (u64 block = 0; block < guards->blocks; block++) {
        const u64 *row_number = program->row_number + guards->block_start[block];
        u32 end = waiting +
                  steps(search, block, state, next + waiting * W, &moved, &changed, NULL, 0, W);
        for (; waiting < end; waiting++, moved &= moved - 1)
            rows[waiting] = row_number[lowest(moved)];
        if (waiting < BATCH && block + 1 < guards->blocks)
            continue;
        look_up(search, next, waiting, edge + *count, W);
        for (u32 i = 0; i < waiting; i++)
            edge[(*count)++] |= rows[i] << 32;
        waiting = 0;
    }
    sort_edges(edge, *count);
}

/* Put down the edges of an expanded state to other states: each is a row, shifted by 32, and the
   id of the target, so that they ascend with their rows. There must be room for one from each row.
   Returns how many they are. */
static u32 edges_of(const Search *search, u32 identity, u64 *edge) {
    u32 count;
    AT_WIDTH(search->words, edges_at, search, identity, edge, &count)
    return count;
}

const Kernel KERNEL = {
    .normalise = normalise,
    .expand = expand,
    .store = store,
    .expand_batch = expand_batch,
    .holds_in = holds_in,
    .where = where,
    .edges_of = edges_of,
};
