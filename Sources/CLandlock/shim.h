// Linux's Landlock (landlock(7)), for which glibc has no functions.
#ifndef ATTESTGATE_CLANDLOCK_SHIM_H
#define ATTESTGATE_CLANDLOCK_SHIM_H

// Before everything else, for the reason that CLinux gives.
#pragma clang module import SwiftGlibc

#include <linux/landlock.h>

// syscall(2) takes any arguments, which Swift cannot call; the numbers are the same on every architecture, since Linux 5.13.
extern long ag_syscall(long number, ...) __asm__("syscall");

static inline long ag_landlock_create_ruleset(
    const struct landlock_ruleset_attr *attributes, unsigned long size, unsigned int flags)
{
    return ag_syscall(444, attributes, size, flags);
}

static inline long ag_landlock_add_rule(
    int ruleset, int type, const struct landlock_path_beneath_attr *rule, unsigned int flags)
{
    return ag_syscall(445, ruleset, type, rule, flags);
}

static inline long ag_landlock_restrict_self(int ruleset, unsigned int flags)
{
    return ag_syscall(446, ruleset, flags);
}

// prctl(2).
extern int ag_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) __asm__("prctl");
enum { ag_no_new_privileges = 38 };

#endif
