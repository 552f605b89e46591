-- Topic to topic, each paid order once: a transaction a batch. Readers set isolation.level=read_committed.
--   moontide run examples/kafka_to_kafka.lua --once --set brokers=localhost:9092
local mt = require "moontide"

local brokers = mt.conf("brokers", "localhost:9092")

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", brokers)
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "amount DOUBLE", { keep = { "key", "value" } })
  :filter(function(row) return row.amount and row.amount > 0 end)
  :select("key", "value")
  .writeStream:format "kafka"
  :option("kafka.bootstrap.servers", brokers)
  :option("topic", mt.conf("to", "paid"))
  :option("kafka.compression.type", "lz4")
  :option("checkpointLocation", mt.conf("out", "out/kafka_to_kafka") .. ".checkpoint")
