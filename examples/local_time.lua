-- Times by the clocks of a place: the day, the hour, and how mt.fmt writes it.
--   moontide run examples/local_time.lua --once --set brokers=localhost:9092 --set timeZone=Europe/Paris
local mt = require "moontide"

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "order_id BIGINT, ts TIMESTAMP")
  :filter(function(row) return row.ts ~= nil end)
  :map("order_id BIGINT, day DATE, hour INT, text STRING", function(row)
    return {
      order_id = row.order_id,
      day = mt.date(row.ts),
      hour = tonumber(mt.fmt(row.ts, "H")),
      text = mt.fmt(row.ts, "EEE d MMM yyyy HH:mm:ss XXX"),
    }
  end)
  .writeStream:format "console"
  :option("truncate", false)
