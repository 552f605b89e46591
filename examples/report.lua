-- A script for `moontide lua`: reads what a topic holds now, and prints how many records of each event.
--   moontide lua examples/report.lua localhost:9092 orders
local mt = require "moontide"

local brokers, topic = ...

local query = mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", brokers)
  :option("subscribe", topic)
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "event STRING")
  .writeStream:format "memory"
  :queryName "events"
  :trigger { availableNow = true }
  :start()
query:awaitTermination()

local counts, names = {}, {}
for _, row in ipairs(mt.table("events"):collect()) do
  local name = row.event or "(none)"
  if not counts[name] then names[#names + 1] = name end
  counts[name] = (counts[name] or 0) + 1
end
table.sort(names)
for _, name in ipairs(names) do print(counts[name], name) end
