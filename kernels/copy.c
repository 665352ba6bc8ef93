/* Pages to a chunk and back, with their digests on the way, while a page is in the cache.

   Rule 1: the caller has checked every number; nothing here looks at a bound.
   Rule 2: what is digested are the bytes where they end: of the chunk, or of the pages. A writer
   that is late may change a chunk between a check and a copy, but not the pages.
   The digest is that of digest.py, which has the definition; host.py has the same copies in numpy.
   */
#include <Python.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { AHEAD = 8 }; /* pages */

#define EXPORT __attribute__((visibility("default")))

/* Row r of page p of an entry is row p * page_rows + pattern[r] of its pool. */
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
    uint64_t key;
    uint8_t *scratch; /* a page, where a word may lie in two rows */
    uint64_t *digests; /* [entry, page]; or none are asked for */
} Digest;

static uint64_t word_at(const uint8_t *data, uint64_t bytes) {
    uint64_t word = 0;
    for (uint64_t i = 0; i < bytes; i++)
        word |= (uint64_t)data[i] << (8 * i);
    return word;
}

static uint64_t product(uint64_t word, const uint32_t *multipliers) {
    uint32_t low = (uint32_t)word + multipliers[0];
    uint32_t high = (uint32_t)(word >> 32) + multipliers[1];
    return (uint64_t)low * high;
}

static uint64_t sum_of_words(const uint8_t *data, uint64_t words, const uint32_t *multipliers) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, data + 8 * i, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        sum += product(word, multipliers + 2 * i);
    }
    return sum;
}

#if defined(__x86_64__)
/* The same in fours. Two sums, for a multiplication takes five cycles and one starts in each. */
__attribute__((target("avx2"))) static uint64_t
sum_of_words_avx2(const uint8_t *data, uint64_t words, const uint32_t *multipliers) {
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    uint64_t i = 0;
    for (; i + 8 <= words; i += 8)
        for (int half = 0; half < 2; half++) {
            uint64_t first = i + 4 * half;
            __m256i word = _mm256_loadu_si256((const void *)(data + 8 * first));
            __m256i multiplier = _mm256_loadu_si256((const void *)(multipliers + 2 * first));
            __m256i mixed = _mm256_add_epi32(word, multiplier);
            __m256i factor = _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32));
            sums[half] = _mm256_add_epi64(sums[half], factor);
        }
    uint64_t four[4];
    _mm256_storeu_si256((void *)four, _mm256_add_epi64(sums[0], sums[1]));
    return four[0] + four[1] + four[2] + four[3] +
           sum_of_words(data + 8 * i, words - i, multipliers + 2 * i);
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
        sum += product(word_at(data + 8 * words, bytes % 8), multipliers + 2 * words);
    return sum;
}

static uint8_t *row_of(const Route *route, uint64_t entry, int64_t page, uint64_t row) {
    uint64_t number = (uint64_t)page * route->page_rows + (uint64_t)route->pattern[row];
    return route->pools[entry] + number * route->row_bytes;
}

static void fetch(const Route *route, uint64_t entry, int64_t page, uint8_t *target) {
    for (uint64_t row = 0; row < route->rows; row++)
        memcpy(target + row * route->row_bytes, row_of(route, entry, page, row), route->row_bytes);
}

/* The digest of a page where it lies. */
static uint64_t digest_of(const Route *route, uint64_t entry, int64_t page, const Digest *digest) {
    uint64_t bytes = route->row_bytes, sum = digest->key;
    if (route->rows > 1 && bytes % 8) {
        fetch(route, entry, page, digest->scratch);
        return sum + sum_of(digest->scratch, route->rows * bytes, digest->multipliers);
    }
    for (uint64_t row = 0; row < route->rows; row++)
        sum += sum_of(row_of(route, entry, page, row), bytes,
                      digest->multipliers + row * (bytes / 4));
    return sum;
}

/* Short rows are found faster than they arrive: ask for those that come soon. */
static void prefetch(const Route *route, uint64_t entry, const int64_t *pages, uint64_t left) {
    if (left > AHEAD && route->rows == 1)
        __builtin_prefetch(row_of(route, entry, pages[AHEAD], 0));
}

/* Pages into a chunk [entry, page, row]. */
EXPORT void kv_gather(const Route *route, const int64_t *pages, uint64_t count, uint8_t *chunk,
                      const Digest *digest) {
    uint64_t page_bytes = route->rows * route->row_bytes, *sum = digest->digests;
    for (uint64_t entry = 0; entry < route->entries; entry++)
        for (uint64_t i = 0; i < count; i++, chunk += page_bytes) {
            prefetch(route, entry, pages + i, count - i);
            fetch(route, entry, pages[i], chunk);
            if (sum)
                *sum++ = digest->key + sum_of(chunk, page_bytes, digest->multipliers);
        }
}

/* A chunk into pages. */
EXPORT void kv_scatter(const Route *route, const int64_t *pages, uint64_t count,
                       const uint8_t *chunk, const Digest *digest) {
    uint64_t *sum = digest->digests;
    for (uint64_t entry = 0; entry < route->entries; entry++)
        for (uint64_t i = 0; i < count; i++) {
            prefetch(route, entry, pages + i, count - i);
            for (uint64_t row = 0; row < route->rows; row++, chunk += route->row_bytes)
                memcpy(row_of(route, entry, pages[i], row), chunk, route->row_bytes);
            __asm__ volatile("" ::: "memory"); /* what is digested is read again, from the page */
            if (sum)
                *sum++ = digest_of(route, entry, pages[i], digest);
        }
}

/* Pages where they lie. */
EXPORT void kv_digest(const Route *route, const int64_t *pages, uint64_t count,
                      const Digest *digest) {
    uint64_t *sum = digest->digests;
    for (uint64_t entry = 0; entry < route->entries; entry++)
        for (uint64_t i = 0; i < count; i++) {
            prefetch(route, entry, pages + i, count - i);
            *sum++ = digest_of(route, entry, pages[i], digest);
        }
}

/* An importable module with nothing in it: Python finds its file, ctypes opens it. */
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_copy"};

PyMODINIT_FUNC PyInit__copy(void) { return PyModule_Create(&module); }
