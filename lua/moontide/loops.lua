-- SPDX-License-Identifier: Apache-2.0
--- The loops that call a function of the job once a row, generated anew for each function.
--
-- What a row function costs is decided here: the loop, the row's __index and the stores into
-- columns are one trace when the JIT has seen them. See rows.lua for why nothing is shared.
local columns = require "moontide.columns"
local keys = require "moontide.keys"
local rows = require "moontide.rows"
local suggest = require "moontide.suggest"
local value = require "moontide.value"

local M = {}

---@class mt.Loop
---@field schema mt.Schema of the rows
---@field run fun(batch: ffi.cdata*, fn: function, ...): any runs fn over a batch
---@field at fun(): integer the row it is at
---@field rest fun() after the loop, however it ended

-- One loop in two variants, over rows with and without null checks. The function is handed to it anew
-- at every run: inside foreachBatch a function is another closure in each batch, over the same code,
-- and the loop that was compiled for that code goes on.
local function variants(schema, make)
  local views, loops, view = rows.views(schema), {}, nil
  return {
    schema = schema,
    run = function(batch, fn, ...)
      local checked
      view, checked = views.pick(batch)
      loops[checked] = loops[checked] or make(view)
      view.bind(batch)
      view.wake()
      return loops[checked](tonumber(batch.array.length), fn, ...)
    end,
    at = function() return view and view.cursor.i or 0 end,
    rest = function() if view then view.rest() end end,
  }
end

local function wrong_answer(answer)
  columns.refuse(("filter: the function returned %s; true keeps the row, false and nil drop it")
    :format(columns.shown(answer)))
end

local FILTER = [[
local S, P, wrong = ...
return function(n, f, sel)
  local kept = 0
  for i = 0, n - 1 do
    S.i = i
    local answer = f(P)
    if answer == true then
      sel[kept] = i
      kept = kept + 1
    elseif answer ~= false and answer ~= nil then
      wrong(answer)
    end
  end
  return kept
end]]

--- run(batch, fn, sel) puts the rows for which fn is true into sel (int32_t *) and returns how many.
---@param schema mt.Schema
---@return mt.Loop
function M.filter(schema)
  return variants(schema, function(view)
    return assert(loadstring(FILTER, "=moontide filter"))(view.cursor, view.row, wrong_answer)
  end)
end

local COLUMN = [[
local S, P, %s = ...
return function(n, f)
  for i = 0, n - 1 do
    S.i = i
    local v = f(P)
    %s
  end
  verify(n, S)
end]]

--- run(batch, fn) builds one column of what fn returns; building.finish gives it.
---@param schema mt.Schema
---@param field mt.Field
---@return mt.Loop, mt.Building
function M.column(schema, field)
  local building = columns.building { field }
  return variants(schema, function(view)
    local code = COLUMN:format(building.names, building.code(1))
    local chunk = assert(loadstring(code, "=moontide withColumn"))
    return chunk(view.cursor, view.row, unpack(building.values))
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

-- A function that only returns tables it has just made.
local BUILD = [[
return function(n, f)
  for i = 0, n - 1 do
    S.i = i
    put(f(P), i)
  end
  verify(n, S)
  return false
end]]

-- A function that may return the row: as long as it only does so nothing is built, and when it did
-- so for every row the columns themselves go on. Else the rows so far are filled in.
local BUILD_OR_PASS = [[
return function(n, f)
  local i, t = 0, P
  while i < n do
    S.i = i
    t = f(P)
    if t ~= P then break end
    i = i + 1
  end
  if i == n and same then return true end
  local made = i
  for j = 0, made - 1 do
    S.i = j
    put(P, j)
  end
  if made < n then
    S.i = made
    put(t, made)
  end
  for j = made + 1, n - 1 do
    S.i = j
    put(f(P), j)
  end
  verify(n, S)
  return false
end]]

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
  local head = ("local S, P, same, no_table, check, %s = ...\n"):format(building.names)
  local code = head .. put_code(out.fields, building, not proved) .. "\n"
    .. (may_return_row and BUILD_OR_PASS or BUILD)
  local same, check = same_columns(schema, out), key_checker(out)
  return variants(schema, function(view)
    return assert(loadstring(code, "=moontide map"))(view.cursor, view.row, same, no_table, check,
      unpack(building.values))
  end), building
end

return M
