-- What arrives on a topic, as text, on the screen.
--   moontide run examples/console.lua --set brokers=localhost:9092
local mt = require "moontide"

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :map("offset BIGINT, key STRING, value STRING", function(row)
    return { offset = row.offset, key = row.key, value = row.value }
  end)
  .writeStream:format "console"
  :option("truncate", false)
