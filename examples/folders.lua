-- A table in folders by two columns: date=2026-11-29/event=view/part-….parquet.
--   moontide run examples/folders.lua --once --set brokers=localhost:9092
local mt = require "moontide"

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "order_id BIGINT, event STRING, ts TIMESTAMP")
  :withColumn("date", "DATE", function(row) return mt.date(row.ts) end)
  .writeStream:format "parquet"
  :option("path", mt.conf("out", "out/by_day"))
  :option("checkpointLocation", mt.conf("out", "out/by_day") .. ".checkpoint")
  :partitionBy("date", "event")
  :trigger { processingTime = "1 minute" }
