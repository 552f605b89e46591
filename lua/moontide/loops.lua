-- SPDX-License-Identifier: Apache-2.0
--- The loops that call a function of the job once a row, generated anew for each function.
--
-- What a row function costs is decided here: the loop, the row's __index and the stores into
-- columns are one trace when the JIT has seen them. See rows.lua for why nothing is shared.
--
-- A loop runs over slices of a batch. When the JIT has given up on the function by the end of one,
-- the next goes through a loop in C with rows that are read in C: 150 ns a row instead of 700 and
-- more. It stays so for the life of the loop. Small batches go that way too: they would not be
-- compiled before they end, and attempts that end with the batch count as failures.
local columns = require "moontide.columns"
local core = require "moontide._core"
local crows = require "moontide._rows"
local escape = require "moontide.escape"
local jitwatch = require "moontide.jitwatch"
local keys = require "moontide.keys"
local rows = require "moontide.rows"
local suggest = require "moontide.suggest"
local value = require "moontide.value"

local M = {}

local SLICE = 16384 -- rows; the JIT gives up on a loop within 40,000

M.small_batch = 256 -- rows; fewer are not worth an attempt to compile

---@class mt.Loop
---@field schema mt.Schema of the rows
---@field run fun(batch: ffi.cdata*, fn: function, ...): any runs fn over a batch
---@field at fun(): integer the row it is at
---@field rest fun() after the loop, however it ended

---@class mt.Slices one kind of loop over one view
---@field slice fun(from: integer, to: integer, fn: function, state: any, ...: any): any the next state
---@field watched function? in whose bytecode the JIT marks that it gave up
---@field finish (fun(n: integer, state: any): any)? after the last slice

local function struct_names(fields, into)
  for _, field in ipairs(fields) do
    if field.type == "STRUCT" then into[field.name] = true end
    struct_names(field.children or {}, into)
  end
  return into
end

-- A loop over slices, each with the view that fits: with and without null checks, or in C. The
-- function is handed to it anew at every run: inside foreachBatch a function is another closure in
-- each batch, over the same code, and the loop that was compiled for that code goes on.
-- first: the state before the first slice. make(view): mt.Slices.
local function sliced(kind, schema, fn, first, make)
  local views = rows.views(schema, not escape.keeps(fn, struct_names(schema.fields, {})))
  local watch, loops, view, broken = jitwatch.new(kind, fn), {}, nil, false
  local function take_view(batch)
    local picked = views.pick(batch, watch.gave_up or tonumber(batch.array.length) < M.small_batch)
    if picked == view then return end
    if view then view.rest() end
    view = picked
    loops[view] = loops[view] or make(view)
    view.bind(batch)
    view.wake()
  end
  local self = { schema = schema }
  function self.run(batch, f, ...)
    local n, from, state = tonumber(batch.array.length), 0, first
    broken = true
    view = nil
    repeat
      take_view(batch)
      local loop, to = loops[view], math.min(n, from + SLICE)
      watch.enter(view.cursor)
      state = loop.slice(from, to, f, state, ...)
      watch.leave(loop.watched)
      from = to
    until from >= n
    if loops[view].finish then state = loops[view].finish(n, state) end
    broken = false
    return state
  end
  function self.at() return view and view.cursor.i or 0 end
  function self.rest()
    if not view then return end
    view.rest()
    if broken then
      watch.leave()
      view.kill()
      views.drop(view)
      loops[view] = nil
    end
  end
  return self
end

-- A template with the code of turns in it; before names of columns get into the text.
local function with_turns(template, view)
  return (template:gsub("TURN", view.turn):gsub("OVER", view.over))
end

-- Runs generated code, named so that whoever looks for the line of an error stops there.
local function generate(name, code, ...)
  return assert(loadstring(code, "=moontide " .. name))(...)
end

-- The elements of several lists, as values.
local function all_of(...)
  local list = {}
  for _, one in ipairs { ... } do
    for _, v in ipairs(one) do list[#list + 1] = v end
  end
  return unpack(list)
end

-- ---- filter

local function refuse_answer(meaning)
  return function(answer)
    columns.refuse(("the function returned %s; %s"):format(columns.shown(answer), meaning))
  end
end

local FILTER = [[
local wrong, S, P, LIVE, RESTING, finish, setmetatable = ...
return function(from, n, f, kept, sel)
  for i = from, n - 1 do
    S.i = i
    TURN
    local answer = f(P)
    OVER
    if answer == true then
      sel[kept] = i
      kept = kept + 1
    elseif answer ~= false and answer ~= nil then
      wrong(answer)
    end
  end
  return kept
end]]

local FILTER_IN_C = [[
local wrong, view, filter, address = ...
return function(from, n, f, kept, sel)
  kept = filter(view.c, f, view.row, view.live, view.finish, from, n, wrong, kept, address(sel))
  return kept
end]]

--- run(batch, fn, sel) puts the rows for which fn is true into sel (int32_t *) and returns how many.
---@param schema mt.Schema
---@param fn function whose code is what run is given
---@param meaning string? of the answers, for who gave another
---@return mt.Loop
function M.filter(schema, fn, meaning)
  local wrong_answer = refuse_answer(meaning or "true keeps the row, false and nil drop it")
  return sliced("filter", schema, fn, 0, function(view)
    if view.c then
      return { slice = generate("filter", FILTER_IN_C, wrong_answer, view, crows.filter, core.address) }
    end
    local loop = generate("filter", with_turns(FILTER, view), wrong_answer, unpack(view.values))
    return { slice = loop, watched = loop }
  end)
end

-- ---- withColumn

local EACH_IN_C = [[
return function(from, n, f)
  each(view.c, f, view.row, view.live, view.finish, from, n, take)
end]]

local COLUMN = [[
local S, P, LIVE, RESTING, finish, setmetatable, %s = ...
return function(from, n, f)
  for i = from, n - 1 do
    S.i = i
    TURN
    local v = f(P)
    %s
    OVER
  end
end]]

local COLUMN_IN_C = [[
local view, each, %s = ...
local function take(v, i)
  %s
end
]] .. EACH_IN_C

--- run(batch, fn) builds one column of what fn returns; building.finish gives it.
---@param schema mt.Schema
---@param field mt.Field
---@param fn function whose code is what run is given
---@return mt.Loop, mt.Building
function M.column(schema, field, fn)
  local building = columns.building { field }
  return sliced("withColumn", schema, fn, nil, function(view)
    local function finish(n) building.verify(n, view.cursor) end
    local code = with_turns(view.c and COLUMN_IN_C or COLUMN, view):format(building.names, building.code(1))
    local loop = generate("withColumn", code, all_of(view.c and { view, crows.each } or view.values,
      building.values))
    return { slice = loop, watched = not view.c and loop or nil, finish = finish }
  end), building
end

-- put(t, i) stores the fields of table t (or of the row) as row i.
local function put_code(fields, building, checks)
  local parts = { "local function put(t, i)", "  if type(t) ~= \"table\" then no_table(t) end" }
  for n, field in ipairs(fields) do
    parts[#parts + 1] = ("  do local v = t[%q]\n%s end"):format(field.name, building.code(n))
  end
  if checks then parts[#parts + 1] = "  if t ~= P then check(t) end" end
  parts[#parts + 1] = "end"
  return table.concat(parts, "\n")
end

-- fill(to): the rows before `to` are put as they are.
local MAP_HEAD = [[
local S, P, LIVE, RESTING, finish, setmetatable, view, each, no_table, check, %s = ...
%s
local function fill(to)
  for i = 0, to - 1 do
    S.i = i
    put(P, i)
  end
end
]]

-- Either a function that only returns tables it has just made, or one that may return the row: as
-- long as it only does so nothing is built. At the first other row those before are filled in.
local MAP = [[
local function build(from, n, f)
  for i = from, n - 1 do
    S.i = i
    TURN
    put(f(P), i)
    OVER
  end
  return false
end
local function pass(from, n, f)
  for i = from, n - 1 do
    S.i = i
    TURN
    local t = f(P)
    if t ~= P then
      fill(i)
      S.i = i
      put(t, i)
      OVER
      return build(i + 1, n, f)
    end
    OVER
  end
  return true
end
return build, pass, fill]]

local MAP_IN_C = [[
local function build(from, n, f)
  each(view.c, f, view.row, view.live, view.finish, from, n, put)
  return false
end
local function pass(from, n, f)
  fill(from)
  return build(from, n, f)
end
return build, pass, fill]]

local function no_table(answer)
  columns.refuse(answer == nil
    and "map: the function returned nil; every row gives a table (drop rows with filter before)"
    or ("map: the function returned %s; it returns a table or the row"):format(columns.shown(answer)))
end

-- Refuses a key that is no column of the result.
local function key_checker(schema)
  local known, names = schema.by_name, schema:names()
  return function(t)
    for key in next, t do
      if not known[key] then
        columns.refuse(("map: the result has no column %q%s"):format(value.text(key),
          suggest.cure(key, names)), type(key) == "string" and key or nil)
      end
    end
  end
end

-- True when every column of `out` is a column of `schema` of the same type.
local function same_columns(schema, out)
  for _, field in ipairs(out.fields) do
    local from = schema.by_name[field.name]
    if not from or from.ddl ~= field.ddl or from.nullable and not field.nullable then return false end
  end
  return true
end

--- run(batch, fn) is true when fn returned the row itself for every row, and its columns can stand for
--- the result's; else the result's columns are built and building.finish gives them.
---@param schema mt.Schema
---@param out mt.Schema
---@param fn function whose code is what run is given
---@return mt.Loop, mt.Building
function M.map(schema, out, fn)
  local building = columns.building(out.fields)
  local proved, may_return_row = keys.proves(fn, out.by_name)
  local head = MAP_HEAD:format(building.names, put_code(out.fields, building, not proved))
  local same, check = same_columns(schema, out), key_checker(out)
  return sliced("map", schema, fn, may_return_row, function(view)
    local code = head .. with_turns(view.c and MAP_IN_C or MAP, view)
    local build, pass, fill = generate("map", code,
      all_of(view.values, { view, crows.each, no_table, check }, building.values))
    local function finish(n, passed)
      if passed and same then return true end
      if passed then fill(n) end
      building.verify(n, view.cursor)
      return false
    end
    local function slice(from, to, f, passing)
      if passing then return pass(from, to, f) end
      return build(from, to, f)
    end
    return { slice = slice, watched = not view.c and (may_return_row and pass or build) or nil, finish = finish }
  end), building
end

return M
