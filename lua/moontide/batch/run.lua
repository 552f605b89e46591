-- SPDX-License-Identifier: Apache-2.0
--- A frame made ready to run: which columns its sources read, and all its steps over one batch.
local core = require "moontide._core"
local log = require "moontide.log"
local now = require "moontide.now"
local ops = require "moontide.batch.ops"
local schemas = require "moontide.schema"
local tree = require "moontide.declare.tree"
local C = core.C

local M = {}

-- What each node of a frame must give: names of columns.
local function wanted_of(order)
  local wanted = {}
  for _, node in ipairs(order) do wanted[node] = {} end
  for _, name in ipairs(order[#order].schema:names()) do wanted[order[#order]][name] = true end
  for i = #order, 1, -1 do
    local one, other = unpack(order[i].inputs)
    local needed = one and { order[i].step:needs(one.schema, wanted[order[i]], other and other.schema) }
    for k, input in ipairs(order[i].inputs) do
      for name in pairs(needed[k]) do wanted[input][name] = true end
    end
  end
  return wanted
end

--- The columns of each source that the steps need, in its order.
---@param frame mt.DataFrame
---@return string[][]
function M.wanted(frame)
  local order, lists = tree.order(frame._tree), {}
  local wanted = wanted_of(order)
  for _, node in ipairs(order) do
    local names = {}
    for _, name in ipairs(node.schema:names()) do
      if wanted[node][name] then names[#names + 1] = name end
    end
    if node.source then lists[#lists + 1] = names end
  end
  return lists
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

---@class mt.Stage
---@field step mt.Step
---@field op mt.Op
---@field name ffi.cdata*
---@field out mt.Schema
---@field from integer[] one or two places: of a stage, or -1 for the first source, -2 for the second, …

local function stage_of(node, one, other)
  local out = node.step:derive(one, other)
  return { step = node.step, op = ops.of(node.step, one, out, other), name = core.cstring(node.step.kind),
    out = out, from = {} }
end

--- The steps bound to what the sources read, each behind those whose rows it takes.
---@param frame mt.DataFrame
---@param reads mt.Schema[] of each source
---@return mt.Stage[]
---@return mt.Schema of the result
function M.bind(frame, reads)
  local stages, place, given, n_sources = {}, {}, {}, 0
  for _, node in ipairs(tree.order(frame._tree)) do
    if node.source then
      n_sources = n_sources + 1
      place[node], given[node] = -n_sources, reads[n_sources]
    else
      local one, other = unpack(node.inputs)
      local stage = stage_of(node, given[one], other and given[other])
      for k, input in ipairs(node.inputs) do stage.from[k] = place[input] end
      stages[#stages + 1] = stage
      place[node], given[node] = #stages, stage.out
    end
  end
  return stages, given[frame._tree]
end

local function note(slot, came, went, count, from)
  slot["in"], slot.out = came, went
  slot.filtered, slot.malformed, slot.nulled, slot.made = count.filtered, count.malformed, count.nulled,
    count.made or 0
  slot.from[0], slot.from[1] = from[1], from[2] or 0
end

local function n_rows(batch)
  return batch and batch.array.length or 0
end

-- A stage over rows that are there.
local function run_stage(run, i, stage, rows)
  local one, other = rows[stage.from[1]], rows[stage.from[2]]
  local count, slot = { filtered = 0, malformed = 0, nulled = 0 }, run.steps[i - 1]
  slot.name, run.n_steps = stage.name, i -- for who asks where it hangs
  local out = stage.op(one, run, count, other)
  note(slot, n_rows(one) + n_rows(other), n_rows(out), count, stage.from)
  return out
end

-- How often the rows of each place are taken.
local function takes_of(stages)
  local takes = {}
  for _, stage in ipairs(stages) do
    for _, from in ipairs(stage.from) do takes[from] = (takes[from] or 0) + 1 end
  end
  return takes
end

-- rows: batches by place, of the sources here; each goes when it was taken for the last time.
local function all_stages(run, stages, takes, rows)
  local left = setmetatable({}, { __index = takes })
  for i, stage in ipairs(stages) do
    rows[i] = run_stage(run, i, stage, rows)
    for _, from in ipairs(stage.from) do
      left[from] = left[from] - 1
      if left[from] == 0 then
        C.mt_batch_release(rows[from])
        rows[from] = nil
      end
    end
  end
end

--- All stages over one batch of each source.
---@param run ffi.cdata* struct mt_run, with room for their counts
---@param stages mt.Stage[]
---@param takes table<integer, integer> of M.takes
---@param rows table<integer, ffi.cdata*> batches by place: -1 of the first source, …; taken
---@return ffi.cdata* batch of the result
function M.over(run, stages, takes, rows)
  local ok, problem = pcall(all_stages, run, stages, takes, rows)
  if not ok then
    for _, batch in pairs(rows) do C.mt_batch_release(batch) end
    error(problem, 0)
  end
  run.n_steps = #stages
  return rows[#stages] or rows[-1]
end
M.takes = takes_of

--- The function of a plan: takes the address of a struct mt_run, fills its steps and its output, or
--- hands the result to the function of a foreachBatch.
---@param stages mt.Stage[]
---@param reads mt.Schema[] of each source's rows
---@param call fun(run: ffi.cdata*, batch: ffi.cdata*)? the function of a foreachBatch; takes the batch
---@return fun(address: integer)
function M.runner(stages, reads, call)
  local takes, all = takes_of(stages), {}
  for i, schema in ipairs(reads) do all[i] = ops.all(schema) end
  local function whole(run)
    local rows = {}
    for i, schema in ipairs(reads) do rows[-i] = ops.select(run.inputs + (i - 1), all[i], schema) end
    local batch = M.over(run, stages, takes, rows)
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
