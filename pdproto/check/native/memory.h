/* Memory for large arrays that grow. Include it in files that define _GNU_SOURCE. */
#ifndef MEMORY_H
#define MEMORY_H
#include <stdlib.h>
#include <sys/mman.h>
#include "search.h"

enum {
    ROOM = 128,                        /* an array that grows starts with so many elements */
    CACHE_LINE = 64,
    HUGE_PAGE = 1 << 21,
};

INLINE u64 whole_pages(u64 bytes) {
    return (bytes + HUGE_PAGE - 1) & ~(u64)(HUGE_PAGE - 1);
}

/* Zeroed memory. A large block uses huge pages, because most accesses are random. */
static inline void *allocate(u64 bytes) {
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

static inline void release(void *memory, u64 bytes) {
    if (bytes < HUGE_PAGE)
        free(memory);
    else if (memory)
        munmap(memory, whole_pages(bytes));
}

/* A longer copy of the memory, which is given back; NULL, and no change, if there is none. Large
   memory is not copied where the system can move its pages. */
static inline void *lengthen(void *memory, u64 bytes, u64 more) {
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

/* Room for so many elements of the width; it is doubled, but untouched memory costs nothing. */
static inline void *make_room(void *array, u64 *room, u64 count, u64 width) {
    u64 longer = *room ? *room : ROOM;
    while (longer < count)
        longer *= 2;
    if (longer == *room)
        return array;
    array = lengthen(array, *room * width, longer * width);
    *room = array ? longer : *room;
    return array;
}

#endif
