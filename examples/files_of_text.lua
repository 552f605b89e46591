-- The same rows twice: a table of JSON for programs, a table of CSV for spreadsheets.
--   moontide run examples/files_of_text.lua --once --set brokers=localhost:9092
local mt = require "moontide"
local out = mt.conf("out", "out/text")

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "order_id BIGINT, event STRING, amount DOUBLE, ts TIMESTAMP")
  .writeStream:foreachBatch(function(batch)
    batch.write:format "json":option("compression", "gzip"):save(out .. "/json")
    batch.write:format "csv":option("header", true):option("maxRecordsPerFile", 100000):save(out .. "/csv")
  end)
  :option("checkpointLocation", out .. "/checkpoint")
