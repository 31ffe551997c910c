// Linux calls that Swift's own Glibc module lacks: those that glibc declares only under _GNU_SOURCE, which that module is
// compiled without, and those whose header it leaves out.
//
// This and every other C module of ours imports Swift's Glibc module before it includes a header. Without that, the module
// that a compiler process imports first owns the declarations of glibc that its headers include, and files that import
// Glibc alone do not find SOCK_STREAM, sockaddr, timespec and the like. Which module is first varies between builds.
#ifndef ATTESTGATE_CLINUX_SHIM_H
#define ATTESTGATE_CLINUX_SHIM_H

#pragma clang module import SwiftGlibc

#include <sys/eventfd.h>

// address: a struct sockaddr; length: a socklen_t.
extern int ag_accept4(int socket, void *address, unsigned int *length, int flags) __asm__("accept4");
// thread: a pthread_t.
extern int ag_pthread_setname(unsigned long thread, const char *name) __asm__("pthread_setname_np");
// setting, previous: a struct itimerspec.
extern int ag_timerfd_create(int clock, int flags) __asm__("timerfd_create");
extern int ag_timerfd_settime(int timer, int flags, const void *setting, void *previous) __asm__("timerfd_settime");
enum { ag_timerfd_absolute = 1 };
// mask: a sigset_t; flags: those of open. What is read is a struct signalfd_siginfo each: 128 octets, first the signal's number.
extern int ag_signalfd(int descriptor, const void *mask, int flags) __asm__("signalfd");
enum { ag_signalfd_size = 128 };
// actions: a posix_spawn_file_actions_t.
extern int ag_spawn_closefrom(void *actions, int first) __asm__("posix_spawn_file_actions_addclosefrom_np");
// pad: a size_t.
extern int ag_malloc_trim(unsigned long pad) __asm__("malloc_trim");
extern unsigned long ag_malloc_usable_size(void *memory) __asm__("malloc_usable_size");

#endif
