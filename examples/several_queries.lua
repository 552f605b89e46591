-- Two queries in one file, each with its own table, checkpoint and thread.
--   moontide run examples/several_queries.lua --once --set brokers=localhost:9092
local mt = require "moontide"

local out = mt.conf("out", "out")

local orders = mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "order_id BIGINT, event STRING")

local function events(name)
  return orders:filter(function(row) return row.event == name end)
    .writeStream:format "parquet"
    :queryName(name)
    :option("path", out .. "/" .. name)
    :option("checkpointLocation", out .. "/" .. name .. ".checkpoint")
    :trigger { processingTime = "10 seconds" }
end

return { events "purchase", events "refund" }
