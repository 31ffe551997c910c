// Counts what is allocated, for measuring alone: whatever links this takes its memory through it.
#ifndef ATTESTGATE_CALLOCATIONS_H
#define ATTESTGATE_CALLOCATIONS_H

#include <stddef.h>
#include <stdint.h>

struct allocation_counts {
    // Calls of malloc and the like, and the octets asked for; a realloc counts as one.
    uint64_t calls, bytes;
    // Those of OpenSSL, once it has been given the three functions below; not in the others.
    uint64_t library_calls, library_bytes;
};

// Of the calling thread so far.
struct allocation_counts allocations_of_thread(void);
// Of all threads so far.
struct allocation_counts allocations_of_process(void);

// For CRYPTO_set_mem_functions(3).
void *allocations_library_malloc(size_t size, const char *file, int line);
void *allocations_library_realloc(void *block, size_t size, const char *file, int line);
void allocations_library_free(void *block, const char *file, int line);

// Does nothing. A profiler writes down its counts whenever this is called (callgrind's --dump-before).
void allocations_mark(void);

#endif
