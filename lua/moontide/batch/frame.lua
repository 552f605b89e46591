-- SPDX-License-Identifier: Apache-2.0
--- The batch that foreachBatch hands to its function: a frame whose steps run when they are called.
--
-- The function is run once a batch, and each time its steps are declared anew, with functions that are
-- new closures over the same code. Making a step costs more than running it over a small batch: text of
-- a loop, a compiler, machine code. So steps are kept by what they were asked for (text, names, the
-- code of functions) in a tree that begins at the batch's schema, and a node of it serves every batch.
local batchviews = require "moontide.batch.views"
local batchwriter = require "moontide.batch.writer"
local blame = require "moontide.rows.blame"
local core = require "moontide._core"
local dataframe = require "moontide.declare.dataframe"
local fault = require "moontide.fault"
local json_parse = require "moontide.values.json_parse"
local object = require "moontide.object"
local ops = require "moontide.batch.ops"
local rows = require "moontide.rows.row"
local scopes = require "moontide.batch.scope"
local states = require "moontide.batch.state"
local steps = require "moontide.declare.steps"
local value = require "moontide.values"
local C = core.C

local M = {}

---@class mt.Batch: mt.DataFrame
---@field id integer of the batch
---@field time number microseconds since 1970 UTC; a replay sees the same
---@field write mt.DataFrameWriter a fresh writer at each access
---@field package _scope mt.Scope
---@field package _node mt.FrameNode
---@field package _batch ffi.cdata* struct mt_batch
local Batch = {}

---@class mt.FrameNode one schema inside the function, with what its steps and loops were made of
---@field schema mt.Schema
---@field made table<function, table<string, mt.Made>> by the step's maker, then by its arguments
---@field n_made integer
---@field unions table<string, mt.FrameNode> by the other's DDL
---@field splits table<integer, function[]> that nobody uses now, by the code of their function
---@field views table<string, table[]> that nobody uses now, by column; "": of whole rows

---@class mt.Made
---@field step mt.Step
---@field op mt.Op
---@field node mt.FrameNode of the result
---@field busy boolean

---@class mt.ColumnView read-only values of one column, 1 to #column; nil is null

local MOST_MADE = 1000 -- of one node: a job that makes code anew for each batch must not fill the memory

local function new_node(schema)
  return { schema = schema, made = {}, n_made = 0, unions = {}, splits = {}, views = {} }
end

local apply -- below

-- The same rows, with other state.
local function copy(frame, changes)
  return scopes.handle(frame._scope, "a frame", object.with(frame, changes))
end

-- spread: of the frame that the rows come from
local function frame_of(scope, node, batch, spread)
  scope.batches[#scope.batches + 1] = batch
  return scopes.handle(scope, "a frame", object.new(Batch, {
    _scope = scope, _node = node, _batch = batch, _schema = node.schema, _apply = apply, _copy = copy,
    _spread = spread,
  }))
end

local function n_rows(frame)
  return tonumber(frame._batch.array.length)
end

-- ---- steps

local has_util, util = pcall(require, "jit.util")
local numbers, n_numbers = setmetatable({}, { __mode = "k" }), 0 -- code of functions -> number

-- What two closures over the same code have in common.
local function code_of(fn)
  local code = has_util and util.funcinfo(fn).proto or fn
  if not numbers[code] then
    n_numbers = n_numbers + 1
    numbers[code] = n_numbers
  end
  return numbers[code]
end

-- Equal for arguments that make the same step.
local function key_of(v)
  if type(v) == "string" then return #v .. ":" .. v end
  if type(v) == "function" then return "f" .. code_of(v) end
  if type(v) ~= "table" then return value.text(v) end
  local parts = {}
  for key, inner in pairs(v) do parts[#parts + 1] = key_of(key) .. "=" .. key_of(inner) end
  table.sort(parts)
  return "{" .. table.concat(parts, ",") .. "}"
end

local function key_of_all(schema, ...)
  local parts = {}
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    parts[i] = v == schema and "" or key_of(v)
  end
  return table.concat(parts, ",")
end

local function function_among(...)
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    if type(v) == "function" then return v end
  end
end

-- The step that `make` makes of these arguments, made once.
local function made_of(node, make, ...)
  local key = key_of_all(node.schema, ...)
  local made = node.made[make] and node.made[make][key]
  if made and not made.busy then return made end
  local step = make(...)
  local out = step:derive(node.schema)
  local fresh = { step = step, op = ops.of(step, node.schema, out), node = new_node(out), busy = false }
  if made then return fresh end -- a row function that calls the step it is in
  if node.n_made >= MOST_MADE then node.made, node.n_made = {}, 0 end
  node.made[make] = node.made[make] or {}
  node.made[make][key], node.n_made = fresh, node.n_made + 1
  return fresh
end

-- Runs a step over the frame's rows; what dataframe.lua calls instead of writing it down.
function apply(frame, make, ...)
  local made = made_of(frame._node, make, ...)
  made.step.at, made.step.fn = fault.here(), function_among(...)
  made.busy = true
  local ok, out = pcall(made.op, frame._batch, frame._scope.run, { filtered = 0, malformed = 0, nulled = 0 })
  made.busy = false
  if not ok then error(out, 0) end
  return frame_of(frame._scope, made.node, out, frame._spread)
end

--- Two frames: the rows for which fn returns true, and the others (false, nil). It is called once a row.
---@param fn fun(row: mt.Row): boolean?
---@return mt.Batch, mt.Batch
function Batch:split(fn)
  if type(fn) ~= "function" then fault.raise(("split takes a function of the row, not %s"):format(type(fn))) end
  local node, code = self._node, code_of(fn)
  local free = node.splits[code] or {}
  node.splits[code] = free
  local split = table.remove(free) or ops.split(node.schema, fn)
  local left, right = split({ kind = "split", fn = fn, at = fault.here() }, self._batch)
  free[#free + 1] = split
  return frame_of(self._scope, node, left, self._spread), frame_of(self._scope, node, right, self._spread)
end

--- The first n rows.
---@param n integer
---@return mt.Batch
function Batch:limit(n)
  if type(n) ~= "number" or n ~= math.floor(n) or n < 0 then
    fault.raise(("limit takes a whole number of rows, not %s"):format(value.text(n)))
  end
  return frame_of(self._scope, self._node, ops.first(self._batch, math.min(n, n_rows(self))))
end

--- The rows of both, in this order; columns go by their place.
---@param other mt.Batch
---@return mt.Batch
function Batch:union(other)
  if type(other) == "table" and rawget(other, "_scope") then
    scopes.expect_alive(rawget(other, "_scope"), "a frame", "union")
  end
  if not object.is_a(other, Batch) then fault.raise "union takes another frame of this batch" end
  local unions, key = self._node.unions, other._schema:ddl()
  if not unions[key] then
    unions[key] = new_node(steps.union(self._schema, other._schema):derive(self._schema, other._schema))
  end
  return frame_of(self._scope, unions[key], ops.union(self._batch, other._batch, unions[key].schema),
    dataframe.spread_of_union(self, other))
end

-- ---- what is known of the rows

--- How many rows there are.
---@return integer
function Batch:count()
  return n_rows(self)
end

--- All rows as plain tables, which outlive the batch.
---@return table<string, any>[]
function Batch:collect()
  return rows.tables(self._schema, self._batch.array)
end

--- Walks the rows: `for row in batch:rows() do`. The row is a view that moves on.
---@return fun(walk: table): mt.Row?
---@return table
function Batch:rows()
  return batchviews.rows(self._scope, self._node, self._batch)
end

--- The values of one column, by number from 1 on: `for i = 1, #amounts do sum = sum + amounts[i] end`.
---@param name string
---@return mt.ColumnView
function Batch:column(name)
  fault.expect("column", name, "string")
  local field, cure = self._schema:find(name)
  if not field then fault.raise(("column: there is no column %q%s"):format(name, cure)) end
  return batchviews.column(self._scope, self._node, self._batch, field)
end

--- Prints the first rows as a table, to where print writes.
---@param n integer? 20
---@param truncate boolean|integer? true: 20 characters a cell; false: all; or how many
function Batch:show(n, truncate)
  local shown = self:limit(n or 20)
  local cut = truncate == false and 0 or tonumber(truncate) or 20
  print((core.take(C.mt_table_text(shown._schema.c, shown._batch.array, cut)):gsub("\n$", "")))
  if n_rows(shown) < n_rows(self) then
    print(("only showing top %d row%s"):format(n_rows(shown), n_rows(shown) == 1 and "" or "s"))
  end
end

--- Prints what the frame holds.
function Batch:explain()
  print(("%d rows of batch %d, made already (%s)"):format(n_rows(self), self._scope.id, self._schema:ddl()))
end

-- Offsets of one source by partition, or one number.
local function add_ranges(list, source, from, to)
  if type(to) ~= "table" then
    list[#list + 1] = { topic = source, fromOffset = from, untilOffset = to }
    return
  end
  for topic, partitions in pairs(to) do
    for partition, until_ in pairs(partitions) do
      local begins = type(from) == "table" and from[topic] and from[topic][partition]
      list[#list + 1] = { topic = topic, partition = tonumber(partition), fromOffset = begins or 0,
        untilOffset = until_ }
    end
  end
end

--- What the batch read, in the order of topic and partition: of each from fromOffset on, up to and
--- without untilOffset.
---@return { topic: string, partition: integer?, fromOffset: number, untilOffset: number }[]
function Batch:offsetRanges()
  local list = {}
  for _, one in ipairs(json_parse.decode(core.string(self._scope.run.offsets))) do
    add_ranges(list, one.source, one.start, one["end"])
  end
  table.sort(list, function(a, b)
    if a.topic ~= b.topic then return a.topic < b.topic end
    return (a.partition or 0) < (b.partition or 0)
  end)
  return list
end

-- ---- the function

-- What the function raised as a fault of the job, told while its rows are there.
local function as_fault(scope, fn, e)
  local words = ("foreachBatch, batch %d"):format(scope.id)
  if type(e) ~= "table" then e = { text = tostring(e) } end -- no memory, or none to say where
  if fault.is_fault(e) then
    if e.class ~= "JOB" or not e.at then return e end
    return fault.new("SCRIPT", "FATAL", ("%s%s: %s"):format(fault.place(e.at), words, e.words))
  end
  if not e.at then
    local info = debug.getinfo(fn, "S")
    e.at = { file = info.source:gsub("^[@=]", ""), line = info.linedefined }
  end
  local walk, i = batchviews.at(scope)
  local explained = walk and blame.explain(e.at, e.text, walk.schema, walk.batch, i)
  if explained then words, e.text = ("%s at %s"):format(words, blame.where(walk.batch, i)), explained end
  return fault.new("SCRIPT", "FATAL", ("%s%s: %s"):format(fault.place(e.at), words, e.text))
end

local function catch(e)
  return fault.is_fault(e) and e or blame.catch(e)
end

--- What runs the function of a foreachBatch over one batch after the other.
---@param fn fun(batch: mt.Batch, id: integer, state: mt.State)
---@param schema mt.Schema of the batches
---@param spread { n: integer, columns: string[] }? files that the frame says
---@return fun(run: ffi.cdata*, batch: ffi.cdata*) takes the batch
function M.caller(fn, schema, spread)
  local root = new_node(schema)
  return function(run, batch)
    local scope = scopes.open(run)
    local frame = frame_of(scope, root, batch, spread)
    local state = scopes.handle(scope, "the state", states.of(states.native(run.state, function(problem)
      scope.doom = scope.doom or problem
      scope.lost = scope.lost or problem
    end)))
    local before = fault.running(fn)
    local ok, e = xpcall(fn, catch, frame, scope.id, state)
    fault.running(before)
    local problem = scope.lost or not ok and as_fault(scope, fn, e)
    scopes.close(scope)
    if not problem and scope.late then problem = as_fault(scope, fn, { text = scope.late }) end
    if problem then error(problem, 0) end
  end
end

local function later(name)
  return function() fault.raise(object.known_in_spark(name)) end
end

local getters = {
  id = function(self) return self._scope.id end,
  time = function(self) return self._scope.time end,
  isStreaming = function() return false end,
  write = function(self) return batchwriter.of(self, self._scope) end,
  writeStream = function()
    fault.raise "'writeStream' can be called only on streaming Dataset/DataFrame; write batch.write…:save()"
  end,
}
for _, name in ipairs(dataframe.ACTIONS) do
  if not Batch[name] then getters[name] = later(name) end
end

object.seal(Batch, {
  name = "DataFrame",
  parent = dataframe.class,
  getters = getters,
  hidden = { "writeStream" },
  newindex = "; a frame is changed by its methods, which give a new one",
})
M.class = Batch

return M
