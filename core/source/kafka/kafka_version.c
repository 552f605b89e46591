/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_version.c - which librdkafka is inside, for `moontide --version`. */
#include <librdkafka/rdkafka.h>

#include "source/source.h"

const char *mt_rdkafka_version(void)
{
    return rd_kafka_version_str();
}
