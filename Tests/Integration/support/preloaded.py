"""Libraries between a program and those that it calls, for LD_PRELOAD: a digest that fails, and a clock that a test moves."""

import shutil
import struct
import subprocess

from support.paths import PATIENCE

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

CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long *ahead;

__attribute__((constructor)) static void begin(void) {
    ahead = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, open(PLACE, O_RDONLY), 0);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*get)(clockid_t, struct timespec *);
    if (!get) get = dlsym(RTLD_NEXT, "clock_gettime");
    int result = get(clock, now);
    if (clock == CLOCK_REALTIME && ahead && ahead != MAP_FAILED) now->tv_sec += *ahead;
    return result;
}

// OpenSSL 3.5's clock.
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return result;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
"""


def compiled(path, source, *options):
    """- Returns: the path of a library of this source in C."""
    compiler = shutil.which("cc") or shutil.which("clang")
    subprocess.run(
        [compiler, "-shared", "-fPIC", *options, "-x", "c", "-o", path, "-"], input=source, text=True, timeout=PATIENCE, check=True)
    return path


def failing_digests(directory):
    """- Returns: the path of OpenSSL's digest that fails for what contains the marker."""
    return compiled(directory / "faults.so", FAULTS, f'-DMARKER="{MARKER}"')


class MovingClock:
    """A wall clock for programs that run on while a test moves it."""

    def __init__(self, directory):
        self._place = directory / "clock"
        self.move(0)
        library = compiled(directory / "clock.so", CLOCK, f'-DPLACE="{self._place}"')
        self.environment = {"LD_PRELOAD": str(library)}

    def move(self, seconds):
        """- Parameter seconds: how far the clock is ahead of the machine's."""
        with open(self._place, "r+b" if self._place.exists() else "wb") as file:
            file.write(struct.pack("q", seconds))
