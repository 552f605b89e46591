-- SPDX-License-Identifier: Apache-2.0
-- The benchmark's job: orders from Kafka, bought or returned ones kept, with their date, as Parquet.
local mt = require "moontide"

return mt.readStream
  :format "kafka"
  :option("kafka.bootstrap.servers", mt.conf "brokers")
  :option("subscribe", mt.conf "topic")
  :option("startingOffsets", "earliest")
  :option("maxOffsetsPerTrigger", mt.conf("rows", 100000))
  :option("maxBatchBytes", "1g")
  :load()
  :fromJson("value", "user_id STRING, event STRING, amount DOUBLE, ts TIMESTAMP")
  :filter(function(row)
    return (row.event == "purchase" or row.event == "refund") and row.amount > 0
  end)
  :withColumn("date", "DATE", function(row) return mt.date(row.ts) end)
  .writeStream
  :format "parquet"
  :option("path", mt.conf "out")
  :option("checkpointLocation", mt.conf "out" .. ".checkpoint")
  :trigger { availableNow = true }
  :queryName "bench"
