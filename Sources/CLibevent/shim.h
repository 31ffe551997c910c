// Makes libevent 2.1 callable from Swift. No logic lives in this file.
#ifndef ATTESTGATE_CLIBEVENT_SHIM_H
#define ATTESTGATE_CLIBEVENT_SHIM_H

// Before everything else, for the reason that CLinux gives.
#pragma clang module import SwiftGlibc

#include <event2/dns.h>
#include <event2/event.h>

#endif
