// Makes libevent 2.1 callable from Swift. No logic lives in this file.
#ifndef ATTESTGATE_CLIBEVENT_SHIM_H
#define ATTESTGATE_CLIBEVENT_SHIM_H

// First, because event-config.h defines _GNU_SOURCE: glibc's types must have the shape they have in Swift's Glibc.
#include <sys/types.h>

#include <event2/dns.h>
#include <event2/event.h>

#endif
