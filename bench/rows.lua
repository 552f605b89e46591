-- SPDX-License-Identifier: Apache-2.0
-- What a function of the job costs a row: CPU ns/row of one thread, columns warm, ten batches of
-- 100,000 rows. user_id has 200,000 distinct values, event has four.
--   MOONTIDE=build/release/moontide scripts/spec bench/rows.lua
local core = require "moontide._core"
local loops = require "moontide.loops"
local memory = require "moontide.memory"
local mt = require "moontide"
local schemas = require "moontide.schema"
local value = require "moontide.value"
local C = core.C
local floor = math.floor -- busted gives files an environment of their own, where globals are slow

local ROWS, BATCHES, ROUNDS = 100000, 10, 5
local EVENTS = { "purchase", "refund", "view", "click" }

local schema = assert(schemas.parse [[order_id BIGINT, user_id STRING, event STRING, amount DOUBLE,
  ts TIMESTAMP]])

-- A batch of orders; null_share of the values of event and amount are null.
local function make_batch(number, null_share)
  local rows = {}
  for i = 1, ROWS do
    local id = (number * ROWS + i) * 7919 % 200000
    local row = { order_id = i, user_id = ("u%06d"):format(id), event = EVENTS[math.random(4)],
      amount = math.random(-20, 80) + 0.5, ts = 1760000000000000 + i * 1000000 }
    if math.random() < null_share then row.amount = nil end
    if math.random() < null_share then row.event = nil end
    rows[i] = row
  end
  local batch = core.gc(core.new "struct mt_batch", C.mt_batch_release)
  batch.schema, batch.array = schema.c, memory.array_of(schema, rows)
  return batch
end

local function make_batches(null_share)
  local batches = {}
  for number = 1, BATCHES do batches[number] = make_batch(number, null_share) end
  return batches
end

local function measure(name, batches, once)
  local best = math.huge
  collectgarbage() -- what made the batches is no part of a job
  collectgarbage()
  for _ = 1, ROUNDS do
    local started = os.clock()
    for _, batch in ipairs(batches) do once(batch) end
    best = math.min(best, (os.clock() - started) * 1e9 / (ROWS * BATCHES))
  end
  io.write(("%-58s %7.1f ns/row\n"):format(name, best))
end

local sel = core.new("int32_t[?]", ROWS)

local function filter(name, batches, fn)
  local loop = loops.filter(schema, fn)
  measure(name, batches, function(batch) loop.run(batch, fn, sel) end)
end

local function map(name, batches, ddl, fn)
  local loop, building = loops.map(schema, assert(schemas.parse(ddl)), fn)
  measure(name, batches, function(batch)
    building.begin(ROWS)
    loop.run(batch, fn)
    building.discard()
  end)
end

local function column(name, batches, type_, fn)
  local loop, building = loops.column(schema, assert(schemas.parse_type(type_, "x")).fields[1], fn)
  measure(name, batches, function(batch)
    building.begin(ROWS)
    loop.run(batch, fn)
    building.discard()
  end)
end

math.randomseed(1)
local full, holes = make_batches(0), make_batches(0.05)

filter("filter: event and amount", full, function(row)
  return row.event == "purchase" and row.amount > 0
end)
filter("filter: event and amount, 5 % nulls", holes, function(row)
  return row.event == "purchase" and (row.amount or 0) > 0
end)
filter("filter: amount alone", full, function(row) return row.amount > 0 end)
filter("filter: ts against a number", full, function(row) return row.ts > 1760000000000000 end)
filter("filter: user_id, 200,000 distinct", full, function(row) return #row.user_id > 0 end)
filter("filter: a closure a row (the JIT gives up)", full, function(row)
  local f = function() return row.amount end
  return f() > 0
end)
filter("filter: event and amount, after that", full, function(row)
  return row.event == "purchase" and row.amount > 0
end)
map("map: event and cents", full, "event STRING, cents DOUBLE", function(row)
  return { event = row.event, cents = row.amount * 100 }
end)
map("map: user_id and cents", full, "user STRING, cents DOUBLE", function(row)
  return { user = row.user_id, cents = row.amount * 100 }
end)
map("map: the same, 5 % nulls", holes, "user STRING, cents DOUBLE", function(row)
  return { user = row.user_id, cents = (row.amount or 0) * 100 }
end)
map("map: five fields", full, "id BIGINT, user STRING, event STRING, cents BIGINT, day DATE", function(row)
  return { id = row.order_id, user = row.user_id, event = row.event, cents = floor(row.amount * 100),
    day = value.date(row.ts) }
end)
local function by_hand(row)
  return { event = row.event, cents = row.amount * 100 }
end
map("map: a table that somebody else made (keys are looked at)", full, "event STRING, cents DOUBLE",
  function(row) return by_hand(row) end)
column("withColumn: DATE of ts", full, "DATE", function(row) return value.date(row.ts) end)
column("withColumn: DOUBLE", full, "DOUBLE", function(row) return row.amount * 1.2 end)
column("withColumn: DECIMAL of text", full, "DECIMAL(10,2)", function(row)
  return row.amount > 0 and "1.50" or 2
end)

-- ---- changed rows and nested values

map("map: mt.with, one of five columns", full, schema:ddl(), function(row)
  return mt.with(row, { amount = row.amount * 2 })
end)
map("map: the same as a table", full, schema:ddl(), function(row)
  return { order_id = row.order_id, user_id = row.user_id, event = row.event, amount = row.amount * 2, ts = row.ts }
end)
map("map: a STRUCT of two", full, "d STRUCT<event: STRING, cents: DOUBLE>", function(row)
  return { d = { event = row.event, cents = row.amount * 100 } }
end)
map("map: an ARRAY of two", full, "a ARRAY<DOUBLE>", function(row) return { a = { row.amount, 1 } } end)
map("map: an ARRAY of two STRUCTs", full, "a ARRAY<STRUCT<x: DOUBLE, y: INT>>", function(row)
  return { a = { { x = row.amount, y = 1 }, { x = 2, y = 2 } } }
end)
map("map: a MAP of two", full, "m MAP<STRING, DOUBLE>", function(row)
  return { m = { amount = row.amount, one = 1 } }
end)
