-- Records that cannot be read are kept as text beside those that can.
--   moontide run examples/keep_corrupt.lua --once --set brokers=localhost:9092
local mt = require "moontide"

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "order_id BIGINT, amount DOUBLE, _corrupt_record STRING",
    { keep = { "partition", "offset" }, columnNameOfCorruptRecord = "_corrupt_record" })
  .writeStream:format "parquet"
  :option("path", mt.conf("out", "out/all_orders"))
  :option("checkpointLocation", mt.conf("out", "out/all_orders") .. ".checkpoint")
  :trigger { availableNow = true }
