-- flatMap: an order with a list of items becomes a row for each item; one without becomes none.
--   moontide run examples/row_for_each_item.lua --once --set brokers=localhost:9092
local mt = require "moontide"

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "baskets"))
  :option("startingOffsets", "earliest")
  :load()
  :fromJson("value", "id BIGINT, items ARRAY<STRUCT<sku: STRING, price: DECIMAL(10,2)>>")
  :flatMap("id BIGINT, sku STRING, price DECIMAL(10,2)", function(row)
    local rows = {}
    for i, item in mt.items(row.items or mt.array(0)) do
      rows[i] = { id = row.id, sku = item and item.sku, price = item and item.price }
    end
    return rows
  end)
  .writeStream:format "console"
  :queryName "items"
