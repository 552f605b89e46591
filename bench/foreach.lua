-- SPDX-License-Identifier: Apache-2.0
-- What a batch costs through the whole program, by how it is written: an empty foreachBatch, and a
-- declared sink beside a save to the same sink in a foreachBatch, at 10, 1,000 and 100,000 rows.
-- The variants take turns batch by batch, so that what else the machine does meets all of them.
-- From the call that lets the query go on until it is idle again: plan, functions, sink, commit, and
-- one more look at the source. Writes a line of JSON for each variant and size.
--   build/release/moontide lua bench/foreach.lua DIR [N]    DIR must not be there; N: that many
--                                                          empty batches and nothing else
local ffi = require "ffi"
local mt = require "moontide"

ffi.cdef "struct bench_clock { long s, ns; }; int clock_gettime(int clock, struct bench_clock *now);"
local dir, only_empty = ...
local WALL, CPU = 1, 2 -- clocks of Linux: monotonic, this process's
local SIZES = { { rows = 10, batches = 400 }, { rows = 1000, batches = 200 }, { rows = 100000, batches = 12 } }
local WARM_UP = 3

local now = ffi.new "struct bench_clock"
local function clock(which)
  ffi.C.clock_gettime(which, now)
  return tonumber(now.s) * 1e3 + tonumber(now.ns) / 1e6
end

local VARIANTS = {
  { name = "foreachBatch, empty", declare = function(writer)
    return writer:foreachBatch(function() end)
  end },
  { name = "noop, declared", declare = function(writer) return writer:format "noop" end },
  { name = "noop, saved in foreachBatch", declare = function(writer)
    return writer:foreachBatch(function(batch) batch.write:format "noop":save() end)
  end },
  { name = "parquet, declared", declare = function(writer, path)
    return writer:format "parquet":option("path", path)
  end },
  { name = "parquet, saved in foreachBatch", declare = function(writer, path)
    return writer:foreachBatch(function(batch) batch.write:format "parquet":save(path) end)
  end },
}

local function start(variant, number, rows)
  local path = ("%s/%d-%d"):format(dir, number, rows)
  local stream = mt.memoryStream "order_id BIGINT, event STRING, amount DOUBLE"
  local writer = variant.declare(stream.writeStream, path)
  local query = writer:option("checkpointLocation", path .. ".checkpoint"):queryName("q" .. number .. "_" .. rows)
    :start()
  return { name = variant.name, stream = stream, query = query, wall = {}, cpu = {} }
end

local function orders(rows)
  local list = {}
  for i = 1, rows do list[i] = { order_id = i, event = i % 2 == 0 and "purchase" or "view", amount = i / 100 } end
  return list
end

local function at(sorted, share)
  return sorted[math.max(1, math.ceil(#sorted * share))]
end

local function report(run, rows)
  table.sort(run.wall)
  table.sort(run.cpu)
  io.write(mt.json.encode { name = run.name, rows = rows, batches = #run.wall, wall_ms_p50 = at(run.wall, 0.5),
    wall_ms_p99 = at(run.wall, 0.99), wall_ms_best = run.wall[1], cpu_ms_p50 = at(run.cpu, 0.5) }, "\n")
end

local function measure(size)
  local runs, list = {}, orders(size.rows)
  for number, variant in ipairs(VARIANTS) do runs[number] = start(variant, number, size.rows) end
  for turn = 1, size.batches + WARM_UP do
    for _, run in ipairs(runs) do
      run.stream:addData(list)
      local wall, cpu = clock(WALL), clock(CPU)
      run.query:processAllAvailable()
      if turn > WARM_UP then
        run.wall[#run.wall + 1], run.cpu[#run.cpu + 1] = clock(WALL) - wall, clock(CPU) - cpu
      end
    end
  end
  for _, run in ipairs(runs) do
    run.query:stop()
    report(run, size.rows)
  end
end

if only_empty then
  VARIANTS, SIZES = { VARIANTS[1] }, { { rows = 10, batches = tonumber(only_empty) } }
end
for _, size in ipairs(SIZES) do measure(size) end
