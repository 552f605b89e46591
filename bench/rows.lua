-- SPDX-License-Identifier: Apache-2.0
-- What a function of the job costs a row: CPU ns/row of one thread, columns warm, three batches of
-- 100,000 rows, the best of five rounds. user_id has 200,000 distinct values, event has four.
-- Writes a line of JSON for each.
--   build/release/moontide lua bench/rows.lua
local core = require "moontide._core"
local loops = require "moontide.rows.loops"
local memory = require "moontide.declare.memory"
local mt = require "moontide"
local schemas = require "moontide.schema"
local value = require "moontide.values"
local C = core.C
local floor = math.floor

local ROWS, BATCHES, ROUNDS = 100000, 3, 5
local EVENTS = { "purchase", "refund", "view", "click" }

local orders = assert(schemas.parse [[order_id BIGINT, user_id STRING, event STRING, amount DOUBLE,
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
  batch.schema, batch.array = orders.c, memory.array_of(orders, rows)
  return batch
end

-- Orders with what is in them, in two items each; null_share of the structs, lists and prices are null.
local deep = assert(schemas.parse [[d STRUCT<event: STRING, amount: DOUBLE>,
  items ARRAY<STRUCT<sku: STRING, price: DOUBLE>>]])

local function price(null_share)
  if math.random() >= null_share then return math.random(100) / 4 end
end

local function make_deep(_, null_share)
  local rows = {}
  for i = 1, ROWS do
    local row = { d = { event = EVENTS[math.random(4)], amount = price(null_share) },
      items = { { sku = "a", price = price(null_share) }, { sku = "b", price = price(null_share) } } }
    if math.random() < null_share then row.d = nil end
    if math.random() < null_share then row.items = nil end
    rows[i] = row
  end
  local batch = core.gc(core.new "struct mt_batch", C.mt_batch_release)
  batch.schema, batch.array = deep.c, memory.array_of(deep, rows)
  return batch
end

local function make_batches(make, null_share)
  local batches = {}
  for number = 1, BATCHES do batches[number] = make(number, null_share) end
  return batches
end

-- target: ns/row that the design asks for
local function measure(name, target, batches, once)
  local best = math.huge
  collectgarbage() -- what made the batches is no part of a job
  collectgarbage()
  for _ = 1, ROUNDS do
    local started = os.clock()
    for _, batch in ipairs(batches) do once(batch) end
    best = math.min(best, (os.clock() - started) * 1e9 / (ROWS * BATCHES))
  end
  io.write(mt.json.encode { name = name, ns = tonumber(("%.1f"):format(best)), target = target }, "\n")
end

local sel = core.new("int32_t[?]", ROWS)

local function filter(name, target, schema, batches, fn)
  local loop = loops.filter(schema, fn)
  measure(name, target, batches, function(batch) loop.run(batch, fn, sel) end)
end

local function built(name, target, batches, loop, building, fn)
  measure(name, target, batches, function(batch)
    building.begin(ROWS)
    loop.run(batch, fn)
    building.discard()
  end)
end

local function map(name, target, schema, batches, ddl, fn)
  local loop, building = loops.map(schema, assert(schemas.parse(ddl)), fn)
  built(name, target, batches, loop, building, fn)
end

local function column(name, batches, type_, fn)
  local loop, building = loops.column(orders, assert(schemas.parse_type(type_, "x")).fields[1], fn)
  built(name, nil, batches, loop, building, fn)
end

-- The same function over batches without and with nulls, compiled and through C. A function of its own
-- for each, as a job has: what the JIT makes of one does not hang on the others.
local function each_way(kind, name, targets, schema, full, holes, make, ddl)
  local small = loops.small_batch
  for n, way in ipairs { "", ", 5 % nulls", ", in C", ", 5 % nulls, in C" } do
    loops.small_batch = n > 2 and math.huge or small -- batches below it are read in C
    local batches = n % 2 == 1 and full or holes
    if kind == "filter" then
      filter("filter: " .. name .. way, targets[n], schema, batches, make())
    else
      map("map: " .. name .. way, targets[n], schema, batches, ddl, make())
    end
  end
  loops.small_batch = small
end

math.randomseed(1)
local full, holes = make_batches(make_batch, 0), make_batches(make_batch, 0.05)

each_way("filter", "event and amount", { 45, 60, 200, 200 }, orders, full, holes, function()
  return function(row) return row.event == "purchase" and (row.amount or 0) > 0 end
end)
each_way("map", "event and cents", { 120, 120, 200, 200 }, orders, full, holes, function()
  return function(row) return { event = row.event, cents = (row.amount or 0) * 100 } end
end, "event STRING, cents DOUBLE")
each_way("map", "a STRUCT of two", {}, orders, full, holes, function()
  return function(row) return { d = { event = row.event, cents = (row.amount or 0) * 100 } } end
end, "d STRUCT<event: STRING, cents: DOUBLE>")
each_way("map", "an ARRAY of two STRUCTs", {}, orders, full, holes, function()
  return function(row) return { a = { { x = row.amount, y = 1 }, { x = 2, y = 2 } } } end
end, "a ARRAY<STRUCT<x: DOUBLE, y: INT>>")
each_way("map", "user_id (all different) and cents", {}, orders, full, holes, function()
  return function(row) return { user = row.user_id, cents = (row.amount or 0) * 100 } end
end, "user STRING, cents DOUBLE")

filter("filter: amount alone", nil, orders, full, function(row) return row.amount > 0 end)
filter("filter: ts against a number", nil, orders, full, function(row) return row.ts > 1760000000000000 end)
filter("filter: user_id (all different)", nil, orders, full, function(row) return #row.user_id > 0 end)
filter("filter: a closure a row (the JIT gives up, the row is its own)", nil, orders, full, function(row)
  local f = function() return row.amount end
  return f() > 0
end)
filter("filter: event and amount, after that", 45, orders, full, function(row)
  return row.event == "purchase" and row.amount > 0
end)
map("map: five fields", nil, orders, full, "id BIGINT, user STRING, event STRING, cents BIGINT, day DATE",
  function(row)
    return { id = row.order_id, user = row.user_id, event = row.event, cents = floor(row.amount * 100),
      day = value.date(row.ts) }
  end)
local function by_hand(row)
  return { event = row.event, cents = row.amount * 100 }
end
map("map: a table that another function made of the row", nil, orders, full, "event STRING, cents DOUBLE",
  function(row) return by_hand(row) end)
map("map: mt.with, one of five columns", nil, orders, full, orders:ddl(), function(row)
  return mt.with(row, { amount = row.amount * 2 })
end)
map("map: the same as a table", nil, orders, full, orders:ddl(), function(row)
  return { order_id = row.order_id, user_id = row.user_id, event = row.event, amount = row.amount * 2, ts = row.ts }
end)
map("map: an ARRAY of two", nil, orders, full, "a ARRAY<DOUBLE>", function(row) return { a = { row.amount, 1 } } end)
map("map: a MAP of two", nil, orders, full, "m MAP<STRING, DOUBLE>", function(row)
  return { m = { amount = row.amount, one = 1 } }
end)
column("withColumn: DATE of ts", full, "DATE", function(row) return value.date(row.ts) end)
column("withColumn: DOUBLE", full, "DOUBLE", function(row) return row.amount * 1.2 end)
column("withColumn: DECIMAL of text", full, "DECIMAL(10,2)", function(row)
  return row.amount > 0 and "1.50" or 2
end)

full, holes = make_batches(make_deep, 0), make_batches(make_deep, 0.05)
each_way("filter", "of a STRUCT", {}, deep, full, holes, function()
  return function(row)
    local d = row.d
    return d ~= nil and d.event == "purchase" and (d.amount or 0) > 0
  end
end)
each_way("map", "the sum over an ARRAY of two STRUCTs", {}, deep, full, holes, function()
  return function(row)
    local sum, items = 0, row.items
    for i = 1, items and #items or 0 do sum = sum + (items[i].price or 0) end
    return { sum = sum }
  end
end, "sum DOUBLE")
