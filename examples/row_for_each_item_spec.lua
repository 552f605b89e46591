-- A spec of a job: rows written here go through the job's own file, with no Kafka.
--   scripts/spec examples/row_for_each_item_spec.lua
local mt = require "moontide"

describe("row_for_each_item", function()
  it("gives a row for each item, and none for an empty basket", function()
    local baskets = mt.memoryStream "value STRING"
    local items = mt.job("examples/row_for_each_item.lua", { sources = { baskets = baskets }, sink = "memory" }):start()
    baskets:addData {
      { value = '{"id": 1, "items": [{"sku": "a", "price": 9.5}, {"sku": "b"}]}' },
      { value = '{"id": 2, "items": []}' },
    }
    items:processAllAvailable()
    local rows = mt.table("items"):collect()
    assert.same({ 2, "a", "b" }, { #rows, rows[1].sku, rows[2].sku })
    assert.is_true(rows[1].price == "9.50")
  end)
end)
