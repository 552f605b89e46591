-- Amounts as decimals, not as binary fractions: 19.90 stays 19.90, and is compared as such.
--   moontide run examples/exact_money.lua --once --set brokers=localhost:9092
local mt = require "moontide"

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "order_id BIGINT, amount DECIMAL(12,2), ts TIMESTAMP")
  :filter(function(row) return row.amount ~= nil and row.amount >= "10.00" end)
  .writeStream:format "parquet"
  :option("path", mt.conf("out", "out/money"))
  :option("checkpointLocation", mt.conf("out", "out/money") .. ".checkpoint")
  :trigger { availableNow = true }
