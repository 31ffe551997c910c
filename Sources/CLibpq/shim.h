// Makes libpq 15 callable from Swift. No logic lives in this file.
#ifndef ATTESTGATE_CLIBPQ_SHIM_H
#define ATTESTGATE_CLIBPQ_SHIM_H

#include <libpq-fe.h>

#endif
