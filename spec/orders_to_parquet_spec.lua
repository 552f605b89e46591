-- SPDX-License-Identifier: Apache-2.0
local mt = require "moontide"

describe("orders_to_parquet", function()
  it("keeps purchases that were paid, by day", function()
    local orders = mt.memoryStream "value STRING, partition INT, offset BIGINT"
    local paid = mt.job("jobs/orders_to_parquet.lua", { sources = { orders = orders }, sink = "memory" }):start()
    orders:addData { { value = '{"order_id":1,"event":"purchase","amount":9.5,"ts":"2026-11-30T23:59:59Z"}' },
      { value = '{"order_id":2,"event":"purchase","amount":0}' }, { value = '{"order_id":3,"event":"view"}' } }
    paid:processAllAvailable()
    local rows = mt.table("paid"):collect()
    assert.same({ 1, 1, "2026-11-30" }, { #rows, rows[1].order_id, rows[1].date })
  end)
end)
