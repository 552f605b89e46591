-- A small table beside a stream: each event gets the name that people know it by.
--   moontide run examples/names_from_a_frame.lua --set brokers=localhost:9092
local mt = require "moontide"

-- mt.read:format "parquet":load "events" gives the same of a table on disk
local known = mt.createDataFrame({
  { event = "purchase", name = "bought" },
  { event = "refund", name = "gave back" },
}, "event STRING, name STRING")

local names = {}
for row in known:rows() do names[row.event] = row.name end

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "user_id STRING, event STRING")
  :withColumn("name", "STRING", function(row) return row.event and names[row.event] end)
  .writeStream:format "console"
  :trigger { availableNow = true }
