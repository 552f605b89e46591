-- The rows of two topics in one table. Each topic may be on brokers of its own.
--   moontide run examples/two_topics.lua --once --set brokers=localhost:9092 --set returns.brokers=localhost:9093
local mt = require "moontide"

local brokers, out = mt.conf("brokers", "localhost:9092"), mt.conf("out", "out")

local function read(topic, servers)
  return mt.readStream:format "kafka"
    :option("kafka.bootstrap.servers", servers)
    :option("subscribe", topic)
    :option("startingOffsets", "earliest")
    :load()
    :fromJson("value", "order_id BIGINT, event STRING", { keep = { "topic", "offset" } })
end

local orders = read(mt.conf("topic", "orders"), brokers)
local returns = read(mt.conf("returns", "returns"), mt.conf("returns.brokers", brokers))

return orders:filter(function(row) return row.event == "purchase" end)
  :union(returns)
  .writeStream:format "parquet"
  :queryName "two_topics"
  :option("path", out)
  :option("checkpointLocation", out .. ".checkpoint")
  :trigger { processingTime = "10 seconds" }
