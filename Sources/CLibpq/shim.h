// Makes libpq callable from Swift. No logic lives in this file.
#ifndef ATTESTGATE_CLIBPQ_SHIM_H
#define ATTESTGATE_CLIBPQ_SHIM_H

// Before everything else, for the reason that CLinux gives.
#pragma clang module import SwiftGlibc

#include <libpq-fe.h>

#endif
