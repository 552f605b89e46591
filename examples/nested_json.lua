-- Objects and lists inside a record: a field of an object, the length of a list, an object moved on whole.
--   moontide run examples/nested_json.lua --once --set brokers=localhost:9092
local mt = require "moontide"

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "baskets"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", [[id BIGINT, user STRUCT<name: STRING, tags: ARRAY<STRING>>, shipping MAP<STRING, STRING>,
    items ARRAY<STRUCT<sku: STRING, price: DECIMAL(10,2)>>]])
  :filter(function(row) return row.user ~= nil and row.items ~= nil end)
  :withColumn("n_items", "INT", function(row) return mt.len(row.items) end)
  :withColumn("city", "STRING", function(row) return row.shipping and row.shipping.city end)
  :select("id", "user.name", "user.tags", "city", "n_items", "items")
  .writeStream:format "parquet"
  :option("path", mt.conf("out", "out/baskets"))
  :option("checkpointLocation", mt.conf("out", "out/baskets") .. ".checkpoint")
  :trigger { processingTime = "1 minute" }
