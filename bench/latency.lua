-- SPDX-License-Identifier: Apache-2.0
-- The latency benchmark's job: records read as JSON and filtered, into noop as they come, or into
-- Parquet once a second.
local mt = require "moontide"

local sink = mt.conf("sink", "noop")
local paid = mt.readStream
  :format "kafka"
  :option("kafka.bootstrap.servers", mt.conf "brokers")
  :option("subscribe", mt.conf "topic")
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "user_id STRING, event STRING, amount DOUBLE, ts TIMESTAMP")
  :filter(function(row) return row.event == "purchase" and row.amount > 0 end)

local writer = paid.writeStream:option("checkpointLocation", mt.conf "out" .. ".checkpoint"):queryName "latency"
if sink == "noop" then return writer:format "noop" end
return writer:format "parquet":option("path", mt.conf "out"):trigger { processingTime = "1 second" }
