-- State: how many orders each user has made so far, in this batch and all before it.
--   moontide run examples/count_per_user.lua --once --set brokers=localhost:9092
local mt = require "moontide"

local orders = mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "user_id STRING")
  :filter(function(row) return row.user_id ~= nil end)

return orders.writeStream
  :foreachBatch(function(batch, _, state)
    local counted = batch:withColumn("orders", "BIGINT", function(row)
      local n = (state:get(row.user_id) or 0) + 1
      state:put(row.user_id, n)
      return n
    end)
    counted.write:format "console":save()
  end)
  :option("checkpointLocation", mt.conf("out", "out/count_per_user") .. ".checkpoint")
