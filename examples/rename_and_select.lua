-- Columns chosen, named anew and left out.
--   moontide run examples/rename_and_select.lua --once --set brokers=localhost:9092
local mt = require "moontide"

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "order_id BIGINT, user_id STRING, ts TIMESTAMP",
    { as = "order", keep = { "partition", "offset", "timestamp" } })
  :select("partition", "offset", "timestamp", "order.*") -- the fields of `order`, each a column
  :withColumnRenamed("timestamp", "arrived")
  :withColumnRenamed("ts", "ordered")
  :drop("user_id")
  .writeStream:format "parquet"
  :option("path", mt.conf("out", "out/renamed"))
  :option("checkpointLocation", mt.conf("out", "out/renamed") .. ".checkpoint")
  :trigger { availableNow = true }
