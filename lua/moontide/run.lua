-- SPDX-License-Identifier: Apache-2.0
--- A frame made ready to run: which columns its source reads, and all its steps over one batch.
local core = require "moontide._core"
local log = require "moontide.log"
local now = require "moontide.now"
local ops = require "moontide.ops"
local schemas = require "moontide.schema"
local C = core.C

local M = {}

--- The columns of the source that the steps need, in its order.
---@param frame mt.DataFrame
---@return string[]
function M.wanted(frame)
  local before = { frame._source.schema }
  for i, step in ipairs(frame._steps) do before[i + 1] = step:derive(before[i]) end
  local wanted = {}
  for _, name in ipairs(before[#before]:names()) do wanted[name] = true end
  for i = #frame._steps, 1, -1 do
    local step = frame._steps[i]
    wanted = step:needs(before[i], wanted)
  end
  local names = {}
  for _, name in ipairs(frame._source.schema:names()) do
    if wanted[name] then names[#names + 1] = name end
  end
  return names
end

--- Tells an open source which columns will be read.
---@param source ffi.cdata* struct mt_source *
---@param schema mt.Schema of all its columns
---@param names string[]
---@return mt.Schema of what it reads
function M.project(source, schema, names)
  local wanted = core.new("int32_t[?]", math.max(1, #names))
  for i, name in ipairs(names) do wanted[i - 1] = schema.by_name[name].index end
  C.mt_source_project(source, wanted, #names)
  return schemas.copy(C.mt_source_schema(source))
end

--- The steps bound to what the source reads.
---@param steps mt.Step[]
---@param schema mt.Schema
---@return { step: mt.Step, op: mt.Op, name: ffi.cdata*, out: mt.Schema }[] stages
---@return mt.Schema of the result
function M.bind(steps, schema)
  local stages = {}
  for i, step in ipairs(steps) do
    local out = step:derive(schema)
    stages[i] = { step = step, op = ops.of(step, schema, out), name = core.cstring(step.kind), out = out }
    schema = out
  end
  return stages, schema
end

local function note(run, i, came, went, count)
  local slot = run.steps[i]
  slot["in"], slot.out = came, went
  slot.filtered, slot.malformed, slot.nulled, slot.made = count.filtered, count.malformed, count.nulled,
    count.made or 0
end

local function all_stages(run, stages, batch)
  for i, stage in ipairs(stages) do
    local count = { filtered = 0, malformed = 0, nulled = 0 }
    run.steps[i - 1].name, run.n_steps = stage.name, i -- for who asks where it hangs
    local ok, out = pcall(stage.op, batch, run, count)
    local came = batch.array.length
    C.mt_batch_release(batch)
    if not ok then error(out, 0) end
    note(run, i - 1, came, out.array.length, count)
    batch = out
  end
  return batch
end

--- The function of a plan: takes the address of a struct mt_run, fills its steps and its output, or
--- hands the result to the function of a foreachBatch.
---@param stages table what bind made
---@param schema mt.Schema of the source's rows
---@param call fun(run: ffi.cdata*, batch: ffi.cdata*)? the function of a foreachBatch; takes the batch
---@return fun(address: integer)
function M.runner(stages, schema, call)
  local all = ops.all(schema)
  local function whole(run)
    local batch = all_stages(run, stages, ops.select(run.inputs, all, schema))
    run.n_steps = #stages
    if call then return call(run, batch) end
    run.output = batch
    core.gc(batch, nil) -- moved
  end
  return function(address)
    local run = core.at("struct mt_run *", address)
    math.randomseed(tonumber(run.seed))
    log.batch_begins()
    now.batch_begins(tonumber(run.time_us))
    local ok, problem = pcall(whole, run)
    now.batch_ends()
    log.batch_ends()
    if not ok then error(problem, 0) end
  end
end

return M
