-- Orders from Kafka, the paid ones kept, as a Parquet table by day.
--   moontide run jobs/orders_to_parquet.lua --set brokers=localhost:9092
--   moontide demo jobs/orders_to_parquet.lua        (a Kafka of its own, nothing to install)
local mt = require "moontide"

local orders = mt.readStream
  :format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()

return orders
  :fromJson("value", "order_id BIGINT, user_id STRING, event STRING, amount DOUBLE, ts TIMESTAMP",
    { keep = { "partition", "offset" } })
  :filter(function(row) return row.event == "purchase" and (row.amount or 0) > 0 end)
  :withColumn("date", "DATE", function(row) return mt.date(row.ts) end)
  .writeStream
  :format "parquet"
  :option("path", mt.conf("out", "out/paid"))
  :option("checkpointLocation", mt.conf("out", "out/paid") .. ".checkpoint")
  :partitionBy "date"
  :trigger { processingTime = mt.conf("every", "10 seconds") }
  :queryName "paid"
