-- SPDX-License-Identifier: Apache-2.0
--- The steps of a frame as work on batches. Columns that a step does not change are shared.
local blame = require "moontide.rows.blame"
local core = require "moontide._core"
local fault = require "moontide.fault"
local loops = require "moontide.rows.loops"
local schemas = require "moontide.schema"
local steps = require "moontide.declare.steps"
local C = core.C

local M = {}

---@class mt.Count rows through a step, by cause
---@field filtered integer
---@field malformed integer dropped
---@field nulled integer malformed and kept
---@field made integer? more rows than came

---@alias mt.Op fun(batch: ffi.cdata*, run: ffi.cdata*, count: mt.Count, other: ffi.cdata*?): ffi.cdata*

--- An empty batch, released when it is collected if not before.
---@return ffi.cdata* struct mt_batch
function M.batch()
  return core.gc(core.new "struct mt_batch", C.mt_batch_release)
end

local function rows_of(batch)
  return tonumber(batch.array.length)
end

-- at: where the job declares the step whose rows these are
local function expect(status, at)
  if status == 0 then return end
  local text, class = core.failure()
  error(fault.new(class, status == C.MT_REJECT and "REJECT" or "FATAL", (at and fault.place(at) or "") .. text), 0)
end

-- Columns of batch by number, under another schema.
local function select(batch, picks, schema)
  local out = M.batch()
  C.mt_batch_select(batch, picks, #schema.fields, schema.c, out)
  return out
end
M.select = select

local function picks_of(list)
  local picks = core.new("int32_t[?]", math.max(1, #list))
  for i, index in ipairs(list) do picks[i - 1] = index end
  return picks
end

--- All columns, as they are.
---@param schema mt.Schema
function M.all(schema)
  local list = {}
  for i in ipairs(schema.fields) do list[i] = i - 1 end
  return picks_of(list)
end

-- A batch with the rows of `like` over columns, which move in.
local function with_columns(like, arrays, schema)
  local out = M.batch()
  C.mt_batch_like(like, arrays, #schema.fields, schema.c, out)
  return out
end

local function move(from, to)
  to[0] = from
  from.release = nil
end

-- Runs a loop of the job's function over a batch; what it raises becomes the row's fault.
local function call(step, loop, batch, ...)
  local ok, result = xpcall(loop.run, blame.catch, batch, step.fn, ...)
  loop.rest()
  if ok then return result end
  error(blame.fault(step, loop.schema, batch, loop.at(), result), 0)
end

-- The same, for a loop that builds columns.
local function build(step, loop, building, batch)
  building.begin(rows_of(batch))
  if rows_of(batch) == 0 then return false end
  local ok, result = pcall(call, step, loop, batch)
  if ok and result ~= true then return result end
  building.discard()
  if not ok then error(result, 0) end
  return true
end

local function gathered(batch, sel, n)
  local out = M.batch()
  expect(C.mt_batch_gather(batch, sel, n, out, core.err))
  return out
end

-- ---- one function a kind: (step, schema it is given, schema it makes, that of a second input) -> op

local make = {}

function make.filter(step, schema)
  local loop = loops.filter(schema, step.fn)
  local sel, room, all = nil, 0, M.all(schema)
  return function(batch, _, count)
    local n = rows_of(batch)
    if n > room then
      room = math.max(n, 2 * room)
      sel = core.new("int32_t[?]", room)
    end
    local kept = n > 0 and call(step, loop, batch, sel) or 0
    count.filtered = n - kept
    if kept == n then return select(batch, all, schema) end
    return gathered(batch, sel, kept)
  end
end

function make.map(step, schema, out)
  local loop, building = loops.map(schema, out, step.fn)
  local picks = {}
  for i, field in ipairs(out.fields) do
    picks[i] = schema.by_name[field.name] and schema.by_name[field.name].index or 0
  end
  picks = picks_of(picks)
  return function(batch)
    local built = build(step, loop, building, batch)
    if built == true then return select(batch, picks, out) end
    local arrays = building.finish(rows_of(batch))
    for i, field in ipairs(built and out.fields or {}) do
      if not built[field.name] then
        arrays[i - 1].release(arrays + (i - 1))
        C.mt_array_share(batch.array.children[picks[i - 1]], arrays + (i - 1))
      end
    end
    return with_columns(batch, arrays, out)
  end
end

function make.flatMap(step, schema, out)
  local loop, building, begin = loops.flat_map(schema, out, step.fn)
  local none, no_columns = core.new "int32_t[1]", schemas.of {}
  return function(batch, _, count)
    local rows = rows_of(batch)
    local origins = begin(math.max(1, rows))
    local ok, made = true, 0
    if rows > 0 then ok, made = pcall(call, step, loop, batch) end
    if not ok then
      building.discard()
      error(made, 0)
    end
    count.made, count.filtered = math.max(0, made - rows), math.max(0, rows - made)
    local bare, like = select(batch, none, no_columns), M.batch()
    expect(C.mt_batch_gather(bare, origins.row, made, like, core.err))
    local out_batch = with_columns(like, building.finish(made), out)
    C.mt_batch_release(bare)
    C.mt_batch_release(like)
    return out_batch
  end
end

function make.withColumn(step, schema, out)
  local loop, building = loops.column(schema, step.one.fields[1], step.fn)
  local name = step.one.fields[1].name
  return function(batch)
    build(step, loop, building, batch)
    local made = building.finish(rows_of(batch))
    local arrays = core.new("struct ArrowArray[?]", #out.fields)
    for i, field in ipairs(out.fields) do
      if field.name == name then
        move(made[0], arrays + (i - 1))
      else
        C.mt_array_share(batch.array.children[schema.by_name[field.name].index], arrays + (i - 1))
      end
    end
    return with_columns(batch, arrays, out)
  end
end

function make.select(step, schema, out)
  local paths, lengths = {}, {}
  for i, path in ipairs(step:paths(schema)) do
    local numbers = {}
    for k, field in ipairs(path) do numbers[k] = field.index end
    paths[i], lengths[i] = picks_of(numbers), #path
  end
  return function(batch)
    local arrays = core.new("struct ArrowArray[?]", #paths)
    for i, path in ipairs(paths) do C.mt_batch_field(batch, path, lengths[i], arrays + (i - 1)) end
    return with_columns(batch, arrays, out)
  end
end

function make.drop(_, schema, out)
  local picks = {}
  for i, field in ipairs(out.fields) do picks[i] = schema.by_name[field.name].index end
  picks = picks_of(picks)
  return function(batch) return select(batch, picks, out) end
end

function make.withColumnRenamed(_, schema, out)
  local picks = M.all(schema)
  return function(batch) return select(batch, picks, out) end
end

-- The rows of both batches, under one schema.
local function union(one, other, schema, at)
  local out = M.batch()
  expect(C.mt_batch_union(one, other, schema.c, out, core.err), at)
  return out
end

function make.union(step, schema, out, other_schema)
  local picks, others = {}, {}
  for field, with in step.each(schema, other_schema) do
    picks[#picks + 1], others[#others + 1] = field.index, with.index
  end
  picks, others = picks_of(picks), picks_of(others)
  return function(batch, _, _, other)
    local one, two = select(batch, picks, out), select(other, others, out)
    local ok, both = pcall(union, one, two, out, step.at)
    C.mt_batch_release(one)
    C.mt_batch_release(two)
    return ok and both or error(both, 0)
  end
end

function make.limit(step, schema)
  local left, all = step.n, M.all(schema)
  return function(batch, _, count)
    local n = math.min(left, rows_of(batch))
    left, count.filtered = left - n, rows_of(batch) - n
    if n == rows_of(batch) then return select(batch, all, schema) end
    return M.first(batch, n)
  end
end

-- The kept columns of a batch, only for the rows that the reader kept.
local function kept_columns(batch, keep, schema, result)
  local base = select(batch, keep, schema)
  if result.kept == nil then return base end
  local out = M.batch()
  local status = C.mt_batch_gather(base, result.kept, result.rows.length, out, core.err)
  C.mt_batch_release(base)
  expect(status)
  return out
end

function make.fromJson(step, schema, out)
  local reader = assert(steps.json_reader(step))
  local column = schema.by_name[step.column].index
  local keep_schema, keep = steps.kept(step, schema)
  keep = picks_of(keep)
  local n_json = #out.fields - #step.keep
  return function(batch, run, count)
    local result = core.gc(core.new "struct mt_json_result", C.mt_json_result_clear)
    expect(C.mt_json_read(reader, batch, column, run.time_us, result, core.err), step.at)
    local base = kept_columns(batch, keep, keep_schema, result)
    local arrays = core.new("struct ArrowArray[?]", #out.fields)
    if step.as then
      move(result.rows, arrays)
    else
      for i = 0, n_json - 1 do C.mt_array_share(result.rows.children[i], arrays + i) end
    end
    for i = n_json, #out.fields - 1 do C.mt_array_share(base.array.children[i - n_json], arrays + i) end
    local made = with_columns(base, arrays, out)
    count.malformed = rows_of(batch) - rows_of(made)
    count.nulled = tonumber(result.malformed) - count.malformed
    C.mt_batch_release(base)
    C.mt_json_result_clear(result)
    return made
  end
end

-- ---- steps of a batch that is there

-- The numbers below n that the first `kept` of sel, in order, are not.
local function others(sel, kept, n)
  local rest, at, found = core.new("int32_t[?]", math.max(1, n - kept)), 0, 0
  for i = 0, n - 1 do
    if at < kept and sel[at] == i then
      at = at + 1
    else
      rest[found] = i
      found = found + 1
    end
  end
  return rest
end

--- What splits batches: the rows for which the step's function is true, and the others.
---@param schema mt.Schema
---@param fn function whose code is what each step has
---@return fun(step: mt.Step, batch: ffi.cdata*): ffi.cdata*, ffi.cdata*
function M.split(schema, fn)
  local loop = loops.filter(schema, fn, "true puts the row left, false and nil right")
  return function(step, batch)
    local n = rows_of(batch)
    local sel = core.new("int32_t[?]", math.max(1, n))
    local kept = n > 0 and call(step, loop, batch, sel) or 0
    return gathered(batch, sel, kept), gathered(batch, others(sel, kept, n), n - kept)
  end
end

--- The first n rows of a batch, which has as many.
---@param batch ffi.cdata*
---@param n integer
---@return ffi.cdata*
function M.first(batch, n)
  local sel = core.new("int32_t[?]", math.max(1, n))
  for i = 0, n - 1 do sel[i] = i end
  return gathered(batch, sel, n)
end

M.union = union

--- The work of a step between two schemas.
---@param step mt.Step
---@param schema mt.Schema
---@param out mt.Schema
---@param other mt.Schema? of the second input
---@return mt.Op
function M.of(step, schema, out, other)
  return make[step.kind](step, schema, out, other)
end

return M
