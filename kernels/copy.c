/* Pages to a chunk and back, with their digests on the way, while a page is in the cache.

   Rule 1: the caller has checked every number; nothing here looks at a bound.
   Rule 2: what is digested are the bytes that end there, in the chunk or in the pages: read where
   they lie, or in the registers that are stored. A writer that is late may change a chunk between a
   check and a copy, but neither of these.
   Rule 3: what is larger than the cache is stored past it. A line that is stored whole need not be
   read first, and that is a third of the traffic.
   The digest is that of digest.py, which has the definition; host.py has the same copies in numpy.
   */
#include <Python.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    SHORT = 4096,         /* bytes of a page, below which it is over before the next is there */
    AHEAD = 8,            /* pages */
    BEGINS = 512,         /* bytes */
    SOON = 1536,          /* bytes */
    LONG = 1024,          /* bytes of a row that goes past the cache into a page, or into a chunk as
                             whole lines: see RESULTS.md; into a page whole lines always do */
    LONG_IN_CHUNK = 2048, /* the same, into a chunk in parts of lines */
    LINE = 64,            /* bytes */
    CACHED_MAX = 8 << 20, /* bytes of a call: what is read next is best left in the cache */
};

#define EXPORT __attribute__((visibility("default")))

/* The entries of one part. Row r of page p is row p * page_rows + pattern[r] of an entry's pool. */
typedef struct {
    uint8_t *const *pools; /* one for each entry */
    uint64_t entries;
    const int64_t *pattern;
    uint64_t rows; /* of a page, in chunk order */
    uint64_t row_bytes;
    uint64_t page_rows;
} Route;

typedef struct {
    const uint32_t *multipliers; /* two for each word of a page */
    uint64_t key; /* that of the first page of the first entry of the first part */
    uint8_t *scratch; /* a page, where a word may lie in two rows */
    uint64_t *digests; /* [entry, page]; or none are asked for */
} Digest;

static uint64_t word_at(const uint8_t *data, uint64_t bytes) {
    uint64_t word = 0;
    for (uint64_t i = 0; i < bytes; i++)
        word |= (uint64_t)data[i] << (8 * i);
    return word;
}

/* What a word adds to the sum: low * high + the mixed word, so that neither half hides the other. */
static uint64_t term(uint64_t word, const uint32_t *multipliers) {
    uint32_t low = (uint32_t)word + multipliers[0];
    uint32_t high = (uint32_t)(word >> 32) + multipliers[1];
    return (uint64_t)low * high + ((uint64_t)high << 32 | low);
}

/* The digest of a page from its sum, by the key of its place. */
static uint64_t mixed(uint64_t sum, uint64_t key) {
    uint64_t value = sum + key;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
    value = (value ^ value >> 27) * 0x94D049BB133111EB;
    return value ^ value >> 31;
}

static uint64_t key_at(const Digest *digest, uint64_t entry, uint64_t position) {
    return digest->key + 0x9E3779B97F4A7C15 * (entry + (position << 16));
}

static uint64_t sum_of_words(const uint8_t *data, uint64_t words, const uint32_t *multipliers) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, data + 8 * i, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        sum += term(word, multipliers + 2 * i);
    }
    return sum;
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))

AVX2 static __m256i terms(__m256i words, const uint32_t *multipliers) {
    __m256i both = _mm256_add_epi32(words, _mm256_loadu_si256((const void *)multipliers));
    return _mm256_add_epi64(_mm256_mul_epu32(both, _mm256_srli_epi64(both, 32)), both);
}

AVX2 static uint64_t total(const __m256i *sums) {
    uint64_t four[4];
    _mm256_storeu_si256((void *)four, _mm256_add_epi64(sums[0], sums[1]));
    return four[0] + four[1] + four[2] + four[3];
}

/* The same in fours. Two sums, for a multiplication takes five cycles and one starts in each. */
AVX2 static uint64_t
sum_of_words_avx2(const uint8_t *data, uint64_t words, const uint32_t *multipliers) {
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    uint64_t i = 0;
    for (; i + 8 <= words; i += 8)
        for (int half = 0; half < 2; half++) {
            uint64_t first = i + 4 * half;
            __m256i four = _mm256_loadu_si256((const void *)(data + 8 * first));
            sums[half] = _mm256_add_epi64(sums[half], terms(four, multipliers + 2 * first));
        }
    return total(sums) + sum_of_words(data + 8 * i, words - i, multipliers + 2 * i);
}
#endif

static uint64_t sum_of(const uint8_t *data, uint64_t bytes, const uint32_t *multipliers) {
    uint64_t sum, words = bytes / 8;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        sum = sum_of_words_avx2(data, words, multipliers);
    else
#endif
        sum = sum_of_words(data, words, multipliers);
    if (bytes % 8)
        sum += term(word_at(data + 8 * words, bytes % 8), multipliers + 2 * words);
    return sum;
}

#if defined(__x86_64__)
/* Fewer bytes than a line. They are read once, so what is summed is what is stored. */
static uint64_t put_few(uint8_t *target, const uint8_t *source, uint64_t bytes,
                        const uint32_t *multipliers) {
    uint8_t few[LINE];
    memcpy(few, source, bytes);
    __asm__ volatile("" ::: "memory");
    memcpy(target, few, bytes);
    return multipliers ? sum_of(few, bytes, multipliers) : 0;
}

/* Whole lines, each in two registers, which are stored and summed. past: the target begins a line,
   and is stored past the cache. */
AVX2 static inline __attribute__((always_inline)) uint64_t
put_lines(uint8_t *target, const uint8_t *source, uint64_t bytes, const uint32_t *multipliers,
          int past) {
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (uint64_t i = 0; i < bytes; i += LINE)
        for (int half = 0; half < 2; half++) {
            uint64_t at = i + LINE / 2 * half;
            if (past && !half && at + SOON < bytes)
                __builtin_prefetch(source + at + SOON);
            __m256i words = _mm256_loadu_si256((const void *)(source + at));
            __asm__("" : "+x"(words)); /* no compiler loads it a second time */
            if (past)
                _mm256_stream_si256((void *)(target + at), words);
            else
                _mm256_storeu_si256((void *)(target + at), words);
            if (multipliers)
                sums[half] = _mm256_add_epi64(sums[half], terms(words, multipliers + at / 4));
        }
    return multipliers ? total(sums) : 0;
}

AVX2 static uint64_t put_avx2(uint8_t *target, const uint8_t *source, uint64_t bytes,
                              const uint32_t *multipliers, int past) {
    uint64_t first = past ? -(uintptr_t)target % LINE : 0, sum = 0;
    if (first > bytes)
        first = bytes;
    if (multipliers && first % 8) /* a line begins within a word */
        first = past = 0;
    uint64_t lines = (bytes - first) / LINE * LINE, last = first + lines;
    const uint32_t *within = multipliers ? multipliers + first / 4 : NULL;
    if (first)
        sum += put_few(target, source, first, multipliers);
    if (past && multipliers)
        sum += put_lines(target + first, source + first, lines, within, 1);
    else if (past)
        put_lines(target + first, source + first, lines, NULL, 1);
    else
        sum += put_lines(target + first, source + first, lines, within, 0);
    if (last < bytes)
        sum += put_few(target + last, source + last, bytes - last,
                       multipliers ? multipliers + last / 4 : NULL);
    return sum;
}
#endif

/* Copies. Returns the sum of what it has stored, where there are multipliers. */
static uint64_t put(uint8_t *target, const uint8_t *source, uint64_t bytes,
                    const uint32_t *multipliers, int past) {
#if defined(__x86_64__)
    if ((multipliers || past) && __builtin_cpu_supports("avx2"))
        return put_avx2(target, source, bytes, multipliers, past);
#endif
    memcpy(target, source, bytes);
    __asm__ volatile("" ::: "memory"); /* what is summed is read again, from where it ends */
    return multipliers ? sum_of(target, bytes, multipliers) : 0;
}

static uint8_t *row_of(const Route *route, uint64_t entry, int64_t page, uint64_t row) {
    uint64_t number = (uint64_t)page * route->page_rows + (uint64_t)route->pattern[row];
    return route->pools[entry] + number * route->row_bytes;
}

static void fetch(const Route *route, uint64_t entry, int64_t page, uint8_t *target) {
    for (uint64_t row = 0; row < route->rows; row++)
        memcpy(target + row * route->row_bytes, row_of(route, entry, page, row), route->row_bytes);
}

/* The sum of a page where it lies. */
static uint64_t sum_of_page(const Route *route, uint64_t entry, int64_t page,
                            const Digest *digest) {
    uint64_t bytes = route->row_bytes, sum = 0;
    if (route->rows > 1 && bytes % 8) {
        fetch(route, entry, page, digest->scratch);
        return sum_of(digest->scratch, route->rows * bytes, digest->multipliers);
    }
    for (uint64_t row = 0; row < route->rows; row++)
        sum += sum_of(row_of(route, entry, page, row), bytes,
                      digest->multipliers + row * (bytes / 4));
    return sum;
}

/* Pages are found faster than they arrive: ask for how one that comes soon begins. The processor
   itself goes on from there. */
static inline void prefetch(const Route *route, uint64_t entry, const int64_t *pages,
                            uint64_t left) {
    uint64_t ahead = route->row_bytes < SHORT ? AHEAD : 1;
    if (left <= ahead || route->rows > 1)
        return;
    uint64_t begins = route->row_bytes < BEGINS ? route->row_bytes : BEGINS;
    for (uint64_t i = 0; i < begins; i += LINE)
        __builtin_prefetch(row_of(route, entry, pages[ahead], 0) + i);
}

/* A page to its place in a chunk, or from there. Returns its sum, if digests are asked for. */
static inline uint64_t carry(const Route *route, uint64_t entry, int64_t page, uint8_t *chunk,
                             int into_pages, const Digest *digest, int past) {
    uint64_t bytes = route->row_bytes, sum = 0;
    int split = route->rows > 1 && bytes % 8; /* a word may lie in two rows */
    for (uint64_t row = 0; row < route->rows; row++) {
        uint8_t *of_page = row_of(route, entry, page, row), *of_chunk = chunk + row * bytes;
        uint8_t *target = into_pages ? of_page : of_chunk;
        sum += put(target, into_pages ? of_chunk : of_page, bytes,
                   digest->digests && !split ? digest->multipliers + row * (bytes / 4) : NULL, past);
    }
    if (!digest->digests || !split)
        return sum;
    __asm__ volatile("" ::: "memory");
    if (into_pages)
        return sum_of_page(route, entry, page, digest);
    return sum_of(chunk, route->rows * bytes, digest->multipliers);
}

/* The pages of an entry, one after the other. sums: where their digests go, or none. */
static inline __attribute__((always_inline)) void
carry_entry(const Route *route, uint64_t entry, const int64_t *pages, uint64_t count,
            uint8_t *chunk, int into_pages, const Digest *digest, uint64_t first, uint64_t *sums,
            int past) {
    for (uint64_t i = 0; i < count; i++, chunk += route->rows * route->row_bytes) {
        if (!(into_pages && past))
            prefetch(route, entry, pages + i, count - i);
        uint64_t whole = carry(route, entry, pages[i], chunk, into_pages, digest, past);
        if (sums)
            sums[i] = mixed(whole, key_at(digest, first + entry, i));
    }
}

#if defined(__x86_64__)
/* The same where each row is stored as whole lines. So no line waits for its other part on its way
   past the cache, and no row is cut in three. */
AVX2 static void carry_lines(const Route *route, uint64_t entry, const int64_t *pages,
                             uint64_t count, uint8_t *chunk, int into_pages, const Digest *digest,
                             uint64_t first, uint64_t *sums, int past) {
    uint64_t bytes = route->row_bytes;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t whole = 0;
        if (!(into_pages && past))
            prefetch(route, entry, pages + i, count - i);
        for (uint64_t row = 0; row < route->rows; row++, chunk += bytes) {
            uint8_t *of_page = row_of(route, entry, pages[i], row);
            uint8_t *target = into_pages ? of_page : chunk, *source = into_pages ? chunk : of_page;
            if (sums && past)
                whole += put_lines(target, source, bytes,
                                   digest->multipliers + row * (bytes / 4), 1);
            else if (sums)
                whole += put_lines(target, source, bytes,
                                   digest->multipliers + row * (bytes / 4), 0);
            else if (past)
                put_lines(target, source, bytes, NULL, 1);
            else
                put_lines(target, source, bytes, NULL, 0);
        }
        if (sums)
            sums[i] = mixed(whole, key_at(digest, first + entry, i));
    }
}

static int whole_lines(const Route *route, const uint8_t *target) {
    return ((uintptr_t)target | route->row_bytes) % LINE == 0 && __builtin_cpu_supports("avx2");
}
#endif

static inline void carry_all(const Route *routes, uint64_t parts, const int64_t *pages,
                             uint64_t count, uint8_t *chunk, int into_pages,
                             const Digest *digest) {
    uint64_t bytes = 0, first = 0, *sums = digest->digests;
    for (uint64_t part = 0; part < parts; part++)
        bytes += routes[part].entries * count * routes[part].rows * routes[part].row_bytes;
    for (uint64_t part = 0; part < parts; first += routes[part++].entries) {
        const Route *route = routes + part;
        /* Short rows arrive in the very buffers that lines wait in on their way past the cache, and
           the memory opens a row of its own for each line that leaves by them in two parts. */
        uint64_t length = into_pages ? LONG : LONG_IN_CHUNK;
        int large = bytes > CACHED_MAX;
        for (uint64_t entry = 0; entry < route->entries; entry++) {
#if defined(__x86_64__)
            if (whole_lines(route, into_pages ? route->pools[entry] : chunk))
                carry_lines(route, entry, pages, count, chunk, into_pages, digest, first, sums,
                            large && (into_pages || route->row_bytes >= LONG));
            else
#endif
                carry_entry(route, entry, pages, count, chunk, into_pages, digest, first, sums,
                            large && route->row_bytes >= length);
            chunk += count * route->rows * route->row_bytes;
            sums = sums ? sums + count : NULL;
        }
    }
#if defined(__x86_64__)
    if (bytes > CACHED_MAX)
        _mm_sfence(); /* what goes past the cache is there before what is written next */
#endif
}

/* Pages into a chunk: of each part in turn, [entry, page, row]. */
EXPORT void kv_gather_parts(const Route *routes, uint64_t parts, const int64_t *pages,
                            uint64_t count, uint8_t *chunk, const Digest *digest) {
    carry_all(routes, parts, pages, count, chunk, 0, digest);
}

/* A chunk into pages. */
EXPORT void kv_scatter_parts(const Route *routes, uint64_t parts, const int64_t *pages,
                             uint64_t count, const uint8_t *chunk, const Digest *digest) {
    carry_all(routes, parts, pages, count, (uint8_t *)chunk, 1, digest);
}

/* Pages where they lie. */
EXPORT void kv_digest_parts(const Route *routes, uint64_t parts, const int64_t *pages,
                            uint64_t count, const Digest *digest) {
    uint64_t first = 0, *sum = digest->digests;
    for (const Route *route = routes; route < routes + parts; first += route++->entries)
        for (uint64_t entry = 0; entry < route->entries; entry++)
            for (uint64_t i = 0; i < count; i++) {
                prefetch(route, entry, pages + i, count - i);
                uint64_t whole = sum_of_page(route, entry, pages[i], digest);
                *sum++ = mixed(whole, key_at(digest, first + entry, i));
            }
}

/* An importable module with nothing in it: Python finds its file, ctypes opens it. */
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_copy"};

PyMODINIT_FUNC PyInit__copy(void) { return PyModule_Create(&module); }
