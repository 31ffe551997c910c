// Linux calls that glibc declares only under _GNU_SOURCE, which Swift's own Glibc module is compiled without.
// Defining it here would give the C types of the two modules different shapes, so the calls are declared by hand.
#ifndef ATTESTGATE_CLINUX_SHIM_H
#define ATTESTGATE_CLINUX_SHIM_H

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

extern int accept4(int socket, struct sockaddr *address, socklen_t *length, int flags);
extern int pthread_setname_np(pthread_t thread, const char *name);

#endif
