/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_mock.h - a Kafka inside this process, for demos and tests: librdkafka's mock
 * cluster with one topic, and a producer of orders. It keeps what it is given in memory
 * and knows no retention and few transactions. */
#ifndef MT_KAFKA_MOCK_H
#define MT_KAFKA_MOCK_H

#include "base/base.h"

struct mt_mock;

/* A cluster of one broker with a topic of 1 to 3 partitions (each keeps about 5 MB).
 * NULL: err says why. */
struct mt_mock *mt_mock_new(const char *topic, int32_t partitions, struct mt_error *err);
const char *mt_mock_brokers(const struct mt_mock *mock); /* host:port */
/* Starts a thread that produces `rows` orders, spread evenly over `seconds` (0: at once).
 * The same seed gives the same orders but for ts, which is the clock's. A value is
 *   {"order_id":1,"user_id":"u017","event":"purchase","amount":12.5,"ts":"2026-…Z"}
 * with event one of purchase, refund, view, click, and amount null in one of 16. */
void mt_mock_produce(struct mt_mock *mock, int64_t rows, double seconds, uint64_t seed);
/* Rows that the broker has taken. Any thread. */
int64_t mt_mock_produced(const struct mt_mock *mock);
/* Ends the producer, waits for it and for what it has sent. Fine when there is none. */
void mt_mock_stop(struct mt_mock *mock);
void mt_mock_free(struct mt_mock *mock); /* NULL is fine */

#endif
