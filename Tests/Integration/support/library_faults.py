"""A library between a program and OpenSSL, whose calls fail for some bytes."""

from support import preloaded

# Whatever contains it cannot be digested.
MARKER = "no-digest-of-this"

FAULTS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

int EVP_DigestUpdate(void *context, const void *bytes, size_t count) {
    static int (*update)(void *, const void *, size_t);
    if (bytes && memmem(bytes, count, MARKER, strlen(MARKER))) return 0;
    if (!update) update = dlsym(RTLD_NEXT, "EVP_DigestUpdate");
    return update(context, bytes, count);
}
"""


def build(directory):
    """- Returns: its path, for LD_PRELOAD."""
    return preloaded.build(directory / "faults.so", FAULTS, f'-DMARKER="{MARKER}"')
