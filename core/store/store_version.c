/* SPDX-License-Identifier: Apache-2.0
 *
 * store_version.c - which LMDB is inside, for `moontide --version`. */
#include <lmdb.h>
#include <stdio.h>

#include "store/store.h"

const char *mt_lmdb_version(void)
{
    static char text[32];
    int major, minor, patch;
    mdb_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    return text;
}
