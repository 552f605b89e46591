-- SPDX-License-Identifier: Apache-2.0
--- Runs bounded frames: their sources are read some rows at a time, and all steps done over these, by the
--- work of a query's batch (run.lua). So a table of any size goes through the memory of some rows.
--
-- Sources are read one after the other; the others have no rows meanwhile. A union then gives the rows of
-- its first frame before those of its second.
local core = require "moontide._core"
local memory = require "moontide.declare.memory"
local ops = require "moontide.batch.ops"
local run = require "moontide.batch.run"
local schemas = require "moontide.schema"
local tree = require "moontide.declare.tree"
local C = core.C

local M = {}

---@class mt.BoundedSource: mt.Source
---@field begin fun(wanted: mt.Schema, batch_rows: integer): fun(): ffi.cdata*? gives batches, the caller's

M.ROWS = 65536 -- at a time

--- A source of rows that are there.
---@param schema mt.Schema
---@param array ffi.cdata* struct ArrowArray, taken
---@return fun(wanted: mt.Schema): fun(): ffi.cdata*?
function M.of_rows(schema, array)
  local all = ops.batch()
  all.schema, all.array = schema.c, array
  return function(wanted)
    local picks, given = core.new("int32_t[?]", math.max(1, #wanted.fields)), false
    for i, field in ipairs(wanted.fields) do picks[i - 1] = schema.by_name[field.name].index end
    return function()
      if given then return nil end
      given = true
      return ops.select(all, picks, wanted)
    end
  end
end

local function empty(schema)
  local batch = ops.batch()
  batch.schema, batch.array = schema.c, memory.array_of(schema, {})
  return batch
end

local function reads_of(sources, wanted)
  local reads = {}
  for i, source in ipairs(sources) do
    local list = {}
    for k, name in ipairs(wanted[i]) do list[k] = source.schema.by_name[name] end
    reads[i] = schemas.of(list)
  end
  return reads
end

-- A run of no query, for the stages.
local function new_run(n_stages)
  local one = core.new "struct mt_run"
  local steps = core.new("struct mt_step_count[?]", math.max(1, n_stages))
  one.steps, one.max_steps, one.time_us = steps, n_stages, C.mt_clock_ms() * 1000
  return one, steps
end

--- The rows of a frame: a function that gives one batch after the other, the caller's to release, then nil.
---@param frame mt.BoundedFrame
---@param batch_rows integer? that are read at a time
---@return fun(): ffi.cdata*?
---@return mt.Schema of the batches
function M.batches(frame, batch_rows)
  local sources = tree.sources(frame._tree)
  local reads = reads_of(sources, run.wanted(frame))
  local stages, schema = run.bind(frame, reads)
  local takes, one, steps = run.takes(stages), new_run(#stages)
  local last = stages[#stages]
  local left = last and last.step.kind == "limit" and last.step.n or math.huge
  local at, next_batch = 0, function() return nil end
  local function next_rows()
    while left > 0 do
      local batch = next_batch()
      if batch then return batch end
      at = at + 1
      if not sources[at] then return nil end
      next_batch = sources[at].begin(reads[at], batch_rows or M.ROWS)
    end
  end
  return function()
    local batch = next_rows()
    if not batch then return nil end
    local rows = {}
    for i, read in ipairs(reads) do rows[-i] = i == at and batch or empty(read) end
    local out = run.over(one, stages, takes, rows)
    left = left - tonumber(out.array.length)
    return out, steps
  end, schema
end

return M
