-- Computing with money: decimals are exact, and rounded only where it is said.
--   moontide run examples/decimals.lua --once --set brokers=localhost:9092
local mt = require "moontide"

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "order_id BIGINT, amount DECIMAL(12,2)")
  :filter(function(row) return row.amount ~= nil end)
  :map("order_id BIGINT, net DECIMAL(12,2), tax DECIMAL(12,2)", function(row)
    local net = (row.amount / "1.19"):round(2) -- text, since 1.19 as a number is a binary fraction
    return { order_id = row.order_id, net = net, tax = row.amount - net }
  end)
  .writeStream:format "console"
