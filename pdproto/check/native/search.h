/* What the native search engine is made of: the program that it runs, and what it remembers.

   pack.py builds the program's structures and explains the order of guards. [n] after a pointer
   tells how much it points to. */
#ifndef SEARCH_H
#define SEARCH_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

typedef uint8_t u8;
typedef uint32_t u32;
typedef int64_t i64;
typedef uint64_t u64;
__extension__ typedef unsigned __int128 u128;

enum {
    SHARD_BITS = 4,
    SHARDS = 1 << SHARD_BITS,
    INDEX_BITS = 32 - SHARD_BITS,      /* an id is a shard and an index in it */
    CHUNK_STATES = 2048,               /* of a shard, which it expands in a round */
    BUCKET = 8,                        /* slots in a cache line */
};
static const u32 NONE = UINT32_MAX;
static const u64 INDEX_MASK = ((u64)1 << INDEX_BITS) - 1;
static const u64 ALL = UINT64_MAX;

/* ---- The program: pack.py builds these structures and explains the order of guards ----------- */

typedef struct {
    u64 count, blocks;
    const u64 *block_start;            /* [blocks + 1] */
    const u64 *block_word;             /* [blocks] the word that the keys of a block are about */
    const u64 *block_simple;           /* [blocks] bit i: the i-th key is the whole guard */
    const u64 *key_mask, *key_value;   /* [count] the guard's cube in the key word */
    const u64 *mask, *value;           /* [count, words] the guard's cube */
    const u64 *clause_start;           /* [count + 1] */
    const u64 *literal_start;          /* [clauses + 1] */
    const u64 *literal_word, *literal_mask, *literal_value; /* [literals] see literal_holds */
    const u64 *literal_shift, *literal_set;
    const u64 *walk_start;             /* [count + 1], in walks */
    const u64 *walk_first;             /* [walks] the first node of each decision */
    const u64 *node_word, *node_mask, *node_shift; /* [nodes] the cell that a node asks for */
    const u64 *node_below;             /* [nodes] where its codes begin in `below` */
    const u64 *below;                  /* [codes of all nodes] the next node; NO, YES */
} Guards;

typedef struct {
    Guards guards;
    const u64 *keep, *assign;          /* [count, words]: the next state is state & keep | assign, */
    const u64 *move_start;             /* [count + 1]        and the bits that are moved */
    const u64 *move_from, *move_mask;  /* [moves] the word and the bits before */
    const u64 *move_turn, *move_to;    /* [moves] rotation to the left, and the word after */
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
    u64 words;                         /* in a state */
    Actions rows;
    const u64 *row_number;             /* [rows] the number that the program gives it */
    const u64 *block_progress;         /* [blocks of rows] bit i: the i-th row is progress */
    Actions sweeps;
    Actions idle;                      /* their `keep` lacks the bits that are idle */
    const u64 *lasting;                /* [words] bits that are never idle */
    Guards patterns;
    Guards final;                      /* states that are not stuck, though nothing moves them */
    Stripes stripes;
    Groups groups;
} Program;

/* ---- The search ------------------------------------------------------------------------------ */

/* The states of a shard, and an index of them by hash. A slot is 0 if it is free; otherwise its
   low INDEX_BITS are an index plus one, and the rest is the *tag*, the leading bits of the hash.
   They also choose the bucket where probing starts, so a table is doubled in one pass from front
   to back, without a look at the states. The last SHARD_BITS of the hash choose the shard. */
typedef struct {
    u64 *slots;                        /* [2 ** slot_bits], a bucket to a cache line */
    u64 *states;                       /* [state_room, words] */
    u32 *parents;                      /* [parent_room] */
    u32 slot_bits, count;
    u64 state_room, parent_room;
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

/* States posted to a shard, each followed by a word that tells where it comes from: the parent's
   id, or the row's number. */
typedef struct {
    u64 *start, *end;
} Box;

typedef struct {
    u64 base[SHARDS];                  /* the position of a shard's first state */
    const Guards *guard;               /* one guard, for `where` */
    u8 *where;                         /* [states] */
} Reading;

/* States that the caller keeps, and where their rows lead: each step is followed by the place of its
   state in the list and, shifted by 32, the number of its row. */
typedef struct {
    const u64 *states;                 /* [count, words] */
    u64 count, expanded;
    bool counts;                       /* count enabled rows, stuck states, and look for patterns */
    Box steps;
    const u64 *room_end;
} Batch;

struct Kernel;
struct Search;
typedef void Read(struct Search *, u32 shard);

typedef struct Search {
    const Program *program;
    const struct Kernel *kernel;
    u64 words, bytes_max, shard_max;
    u32 chunk_states;                  /* so many a shard expands in a round, at the most */
    u64 chunk_steps;                   /* after so many a shard expands no more in a round */
    bool normalises;                   /* the program has dead bits or symmetry */
    Shard shard[SHARDS];
    Box box[SHARDS][SHARDS];           /* [from][to] */
    u64 *arena;                        /* what the boxes are cut from */
    i64 *fired[SHARDS];                /* [worker][rows] */
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
    Read *read;                        /* what this call reads, and where to */
    Reading reading;
} Search;

typedef struct Kernel {
    void (*normalise)(const Search *, u64 *state);
    void (*expand)(Search *, u32 shard, u32 worker, i64 sign);
    void (*store)(Search *, u32 shard);
    void (*expand_batch)(Search *, Batch *);
    void (*holds_in)(const Search *, const Guards *guard, const u64 *states, u64 count, u8 *where);
    Read *where;
    u32 (*edges_of)(const Search *, u32 identity, u64 *edge);
} Kernel;

extern const Kernel kernel_plain, kernel_avx2;

#endif
