-- Rows chosen by their text: events of one kind, users whose name begins with "u1".
--   moontide run examples/filter_by_text.lua --once --set brokers=localhost:9092
local mt = require "moontide"

local wanted = mt.conf("event", "view")

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "user_id STRING, event STRING")
  :filter(function(row) return row.event == wanted end)
  :filter(function(row) return row.user_id ~= nil and row.user_id:sub(1, 2) == "u1" end)
  .writeStream:format "console"
  :option("truncate", false)
