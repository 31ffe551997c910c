// The functions of malloc(3), in front of glibc's own. A program's definitions come before those of the libraries it uses
// ("Replacing malloc" in glibc's manual), so Swift's runtime and every C library allocate through these.
#include "CAllocations.h"

#include <errno.h>
#include <stdatomic.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static _Thread_local struct allocation_counts of_thread;
static _Thread_local int in_library;
static _Atomic uint64_t all_calls, all_bytes, all_library_calls, all_library_bytes;

static void count(size_t size) {
    if (in_library) {
        of_thread.library_calls += 1;
        of_thread.library_bytes += size;
        atomic_fetch_add_explicit(&all_library_calls, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&all_library_bytes, size, memory_order_relaxed);
    } else {
        of_thread.calls += 1;
        of_thread.bytes += size;
        atomic_fetch_add_explicit(&all_calls, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&all_bytes, size, memory_order_relaxed);
    }
}

void *malloc(size_t size) {
    count(size);
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    count(number * size);
    return __libc_calloc(number, size);
}

void *realloc(void *block, size_t size) {
    count(size);
    return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
    count(size);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **place, size_t alignment, size_t size) {
    void *block = memalign(alignment, size);
    if (block == NULL) return ENOMEM;
    *place = block;
    return 0;
}

void free(void *block) { __libc_free(block); }

struct allocation_counts allocations_of_thread(void) { return of_thread; }

struct allocation_counts allocations_of_process(void) {
    struct allocation_counts counts = {all_calls, all_bytes, all_library_calls, all_library_bytes};
    return counts;
}

void *allocations_library_malloc(size_t size, const char *file, int line) {
    (void)file, (void)line;
    in_library += 1;
    void *block = malloc(size);
    in_library -= 1;
    return block;
}

void *allocations_library_realloc(void *block, size_t size, const char *file, int line) {
    (void)file, (void)line;
    in_library += 1;
    void *moved = realloc(block, size);
    in_library -= 1;
    return moved;
}

void allocations_library_free(void *block, const char *file, int line) {
    (void)file, (void)line;
    free(block);
}

__attribute__((noinline)) void allocations_mark(void) { __asm__ volatile("" ::: "memory"); }
