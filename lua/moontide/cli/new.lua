-- SPDX-License-Identifier: Apache-2.0
--- `moontide new`: a small job to begin with, which `check` and `demo` take as it is.
local host = require "moontide._host"

local M = {}

-- %NAME% is the query's, %FILE% the file's; the columns are those of the demo's orders.
local JOB = [[
-- Orders from Kafka, those with an amount kept, as a Parquet table.
--   moontide check %FILE%      what it will do, and its mistakes; no server touched
--   moontide demo %FILE%       on a Kafka of its own
--   moontide run %FILE% --set brokers=localhost:9092 --set topic=orders
local mt = require "moontide"

local orders = mt.readStream
  :format "kafka"
  :option("kafka.bootstrap.servers", mt.conf("brokers", "localhost:9092"))
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()

-- `moontide peek BROKER TOPIC` prints such a line for the records of a topic.
return orders
  :fromJson("value", "order_id BIGINT, user_id STRING, event STRING, amount DOUBLE, ts TIMESTAMP")
  :filter(function(row) return (row.amount or 0) > 0 end)
  .writeStream
  :format "parquet"
  :option("path", "out/%NAME%")
  :option("checkpointLocation", "out/%NAME%.checkpoint")
  :trigger { processingTime = "10 seconds" }
  :queryName "%NAME%"
]]

local NEXT = [[
%FILE% is written. Next:
   moontide check %FILE%
   moontide demo %FILE%]]

local USAGE = 2

local function quoted(file)
  return file:find "[^%w_./%-]" and "'" .. file .. "'" or file
end

--- Writes the job NAME.lua; an existing file is left as it is.
---@param args { name: string, fail: fun(code: integer, text: string): integer }
---@return integer exit code
function M.run(args)
  local stem = args.name:gsub("%.lua$", "")
  local name, file = stem:match "[^/]*$", stem .. ".lua"
  if not name:find "^[%a_][%w_-]*$" then
    return args.fail(USAGE, ("%q is no name for a job: letters, digits, _ and -, as in \"clicks\""):format(args.name))
  end
  local words = { NAME = name, FILE = quoted(file) }
  local written, problem, class = host.create(file, (JOB:gsub("%%(%u+)%%", words)))
  if not written then
    return args.fail(class, (problem:gsub(": File exists$", " is there already: choose another name")))
  end
  print((NEXT:gsub("%%(%u+)%%", words)))
  return 0
end

return M
