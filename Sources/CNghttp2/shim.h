// Makes libnghttp2 1.52 callable from Swift. No logic lives in this file.
#ifndef ATTESTGATE_CNGHTTP2_SHIM_H
#define ATTESTGATE_CNGHTTP2_SHIM_H

// Before everything else, for the reason that CLinux gives.
#pragma clang module import SwiftGlibc

#include <nghttp2/nghttp2.h>

#endif
