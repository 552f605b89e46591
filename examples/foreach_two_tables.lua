-- One batch into two tables, each row once in one of them.
--   moontide run examples/foreach_two_tables.lua --once --set brokers=localhost:9092
local mt = require "moontide"

local out = mt.conf("out", "out/two_tables")
local orders = mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "order_id BIGINT, user_id STRING, amount DECIMAL(9,2)", { keep = { "partition", "offset" } })

return orders.writeStream
  :foreachBatch(function(batch)
    local paid, rest = batch:split(function(row) return row.amount ~= nil end)
    paid:select("order_id", "user_id", "amount").write:save(out .. "/paid")
    rest:select("partition", "offset").write:save(out .. "/rest")
  end)
  :option("checkpointLocation", out .. ".checkpoint")
  :trigger { processingTime = "1 minute" }
