-- The steps of a job tried on rows written here: no Kafka, the result on the screen.
--   moontide run examples/try_steps.lua --once
local mt = require "moontide"
local paid = require "steps.paid" -- a job would call it on the stream that it reads from Kafka

local orders = mt.memoryStream "value STRING"
orders:addData {
  { value = [[{"order_id": 1, "event": "purchase", "amount": "19.90"}]] },
  { value = [[{"order_id": 2, "event": "view"}]] },
  { value = [[{"order_id": 3, "event": "purchase", "amount": null}]] },
  { value = [[{"order_id": 4, "event": "purchase", "amount": 1e3}]] },
  { value = "not JSON" },
}

return paid(orders)
  .writeStream:format "console"
