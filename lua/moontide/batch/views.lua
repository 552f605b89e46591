-- SPDX-License-Identifier: Apache-2.0
--- Looks into a batch from a loop of the job's own: row by row, or one column.
--
-- Both read through a view of rows/row.lua, which knows types and nulls. A view has one position, so each
-- loop has a view of its own; when a loop or a batch is over, its view serves the next one, with the
-- machine code that was made for it. Nobody can tell what the body of a loop does with its row, so each
-- turn has a row of its own, which is an error to read when the turn is over, and what it gave out of
-- ARRAYs and MAPs is looked at then: it may have been changed.
local core = require "moontide._core"
local fault = require "moontide.fault"
local loops = require "moontide.rows.loops"
local rows = require "moontide.rows.row"
local scopes = require "moontide.batch.scope"
local writes = require "moontide.rows.writes"

local M = {}

---@class mt.Walk a loop over rows that began
---@field over boolean
---@field schema mt.Schema
---@field batch ffi.cdata*
---@field view mt.View
---@field row mt.Row? of the turn that is on
---@field back fun() gives the view back

-- Views for one kind of look at one schema; `free` are those that nobody uses.
local function take(pool, schema, own, scope, batch)
  local views = table.remove(pool)
    or rows.views(schema, own, own and writes.nested_names(schema.fields).any and {} or nil)
  local view = views.pick(batch, tonumber(batch.array.length) < loops.small_batch)
  local taken = true
  local function back()
    if not taken then return end
    taken = false
    view.rest()
    pool[#pool + 1] = views
  end
  view.bind(batch)
  view.wake()
  scope.ends[#scope.ends + 1] = back
  return view, back
end

local function pool_of(node, name)
  node.views[name] = node.views[name] or {}
  return node.views[name]
end

-- ---- rows

local WALK = [[
local stop, S, P, LIVE, RESTING, finish, setmetatable = ...
return function(walk)
  if not walk then stop() end
  local P = walk.row
  if P then OVER end
  local i = S.i + 1
  if walk.over or i >= S.n then
    stop(walk)
    return nil
  end
  S.i = i
  TURN
  walk.row = P
  return P
end]]

local function end_turn(walk)
  local row, finish = walk.row, walk.view.finish
  if not row then return end
  walk.row = nil
  if type(finish) == "function" then finish(row) else setmetatable(row, finish) end
end

local function stop(walk)
  if not walk then
    fault.raise "batch:rows() is for a loop: for row in batch:rows() do … end; batch:collect() gives rows to keep"
  end
  if walk.over then
    scopes.expect_alive(walk.scope, "a loop over rows", "the next row")
    fault.raise "this loop over rows is at its end; batch:rows() begins another"
  end
  walk.over, walk.row = true, nil
  walk.back()
end

local function walk_of(view)
  local code = WALK:gsub("TURN", view.turn):gsub("OVER", view.over)
  return assert(loadstring(code, "=moontide rows"))(stop, unpack(view.values))
end

--- What `for row in batch:rows() do` walks with.
---@param scope mt.Scope
---@param node mt.FrameNode
---@param batch ffi.cdata*
---@return fun(walk: mt.Walk): mt.Row?, mt.Walk
function M.rows(scope, node, batch)
  local view, back = take(pool_of(node, ""), node.schema, true, scope, batch)
  view.walk = view.walk or walk_of(view)
  view.cursor.i, view.cursor.n = -1, batch.array.length
  local walk = { over = false, scope = scope, schema = node.schema, batch = batch, view = view, back = back }
  scope.ends[#scope.ends + 1] = function()
    local ok, problem = pcall(end_turn, walk) -- of a loop that was left
    if not ok then scope.late = scope.late or problem end
    walk.over = true
  end
  scope.walks[#scope.walks + 1] = walk
  return view.walk, walk
end

--- The row that an unfinished loop is at: the last one that began.
---@param scope mt.Scope
---@return mt.Walk?, integer row
function M.at(scope)
  for i = #scope.walks, 1, -1 do
    local walk = scope.walks[i]
    if not walk.over and walk.view.cursor.i >= 0 then return walk, walk.view.cursor.i end
  end
  return nil, 0
end

-- ---- one column

local COLUMN = [[
local S, P, outside, plain = ...
return function(handle, i)
  if type(i) ~= "number" or i < 1 or i > S.n or handle._turn ~= S.turn then outside(handle, i) end
  S.i = i - 1
  if S.i ~= i - 1 then outside(handle, i) end
  local v = %s
  return v
end]]

-- A view of a column is cdata, since only there LuaJIT asks a metatable for `#`. Its type is made for
-- one cursor, so that the cursor is a constant to the JIT; its turn says whether it is still the one
-- that the cursor serves.
local function new_column(view, field)
  local S = view.cursor
  local function outside(handle, i)
    if handle._turn ~= S.turn then scopes.gone(handle._batch, "a column", "value " .. tostring(i)) end
    fault.raise(("column %q has rows 1 to %d, and no %s"):format(field.name, S.n, tostring(i)))
  end
  local code = COLUMN:format(((field.type == "STRUCT" and "plain(P[%q])" or "P[%q]"):format(field.name)))
  local type_ = core.typeof "struct { const int32_t _turn; const double _batch; }"
  core.metatype(type_, {
    __index = assert(loadstring(code, "=moontide column"))(S, view.row, outside, rows.plain),
    __len = function(handle)
      if handle._turn ~= S.turn then scopes.gone(handle._batch, "a column", "its length") end
      return S.n
    end,
    __newindex = function()
      fault.raise(("column %q is read-only; withColumn makes another"):format(field.name))
    end,
    __tostring = function() return ("column %s %s"):format(field.name, field.ddl) end,
  })
  return type_
end

--- The values of one column, 1 to #column; nil is null.
---@param scope mt.Scope
---@param node mt.FrameNode
---@param batch ffi.cdata*
---@param field mt.Field
---@return mt.ColumnView
function M.column(scope, node, batch, field)
  local view = take(pool_of(node, field.name), { fields = { field } }, false, scope, batch)
  view.column = view.column or new_column(view, field)
  local cursor = view.cursor
  cursor.n = batch.array.length
  scope.ends[#scope.ends + 1] = function() cursor.turn = cursor.turn + 1 end
  return view.column(cursor.turn, scope.id)
end

return M
