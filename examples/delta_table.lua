-- Orders into a Delta Lake table, a folder a day, to be read by Spark, DuckDB or deltalake.
--   moontide run examples/delta_table.lua --once --set brokers=localhost:9092
local mt = require "moontide"

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "order_id BIGINT, event STRING, amount DOUBLE, ts TIMESTAMP")
  :withColumn("day", "DATE", function(row) return mt.date(row.ts) end)
  .writeStream:format "delta"
  :option("path", mt.conf("out", "out/orders"))
  :option("checkpointLocation", mt.conf("out", "out/orders") .. ".checkpoint")
  :partitionBy "day"
  :trigger { processingTime = "1 minute" }
