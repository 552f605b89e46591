-- SPDX-License-Identifier: Apache-2.0
--- The handle of a query that the script drives: what :start() gives under `moontide lua`, in the
--- shell and in specs.
--
-- Spark's queries run on threads of their own. Here a Lua state has one thread, the caller's: queries
-- move on while it waits for them, in awaitTermination, processAllAvailable and mt.awaitAny, and
-- stand still while it does something else.
local core = require "moontide._core"
local fault = require "moontide.fault"
local json_parse = require "moontide.values.json_parse"
local native = require "moontide._query"
local object = require "moontide.object"
local query = require "moontide.declare.query"
local value = require "moontide.values"

local M = {}

---@class mt.StreamingQuery
---@field id string of its checkpoint
---@field runId string of this start
---@field name string?
---@field isActive boolean
---@field status { message: string }
---@field lastProgress table? Spark's StreamingQueryProgress
---@field recentProgress table[] the last hundred, the newest last
---@field package _state table
local Query = {}

local RECENT = 100

local active = {} ---@type mt.StreamingQuery[] in the order of their start; kept until they end

-- Progress without nulls: what is null is not there.
local function without_nulls(v)
  if type(v) ~= "table" then return v end
  for key, one in pairs(v) do
    if one == value.NULL then v[key] = nil else without_nulls(one) end
  end
  return v
end

local function take_progress(state)
  for line in state.native:progress():gmatch "[^\n]+" do
    local recent = state.recent
    recent[#recent + 1] = without_nulls(json_parse.decode(line))
    if #recent > RECENT then table.remove(recent, 1) end
  end
end

local function finish(handle, problem)
  local state = handle._state
  take_progress(state)
  state.problem = problem
  local _, _, status = state.native:about()
  state.status = status
  state.native:close()
  for i, one in ipairs(active) do
    if one == handle then table.remove(active, i) end
  end
  state.native = nil
end

-- One step. Gives when the next is due: 0 at once; nil: the query has ended.
local function step(handle)
  local state = handle._state
  state.moved = true
  local turn, at, class = state.native:step()
  if not turn then
    finish(handle, fault.new(core.class_of(class), "FATAL", at))
  elseif turn == "ended" then
    finish(handle)
  else
    take_progress(state)
    return turn == "wait" and at or 0
  end
end

-- One step of each. Gives when the next is due, and whom a source could wake before.
local function step_all(handles)
  local due, waiting = math.huge, {}
  for _, handle in ipairs(handles) do
    local at = handle.isActive and step(handle)
    if at then
      due = math.min(due, at)
      waiting[#waiting + 1] = handle._state.native
    end
  end
  return due, waiting
end

-- Moves queries on until done(), or for some seconds. Gives done().
local function drive(handles, done, seconds)
  local till = seconds and native.now() + seconds * 1000
  while not done() do
    local due, waiting = step_all(handles)
    if till and native.now() >= till then return done() end
    if due > 0 and #waiting > 0 and not done() then native.wait(math.min(due, till or due), waiting) end
  end
  return true
end

local function expect_seconds(what, seconds)
  if seconds == nil then return end
  fault.expect(what, seconds, "number")
  if seconds < 0 or seconds ~= seconds then fault.raise(what .. " takes seconds, 0 or more") end
end

local function raise_problem(handle)
  local problem = handle._state.problem
  if problem then error(problem, 0) end
end

local function all_active()
  local list = {}
  for i, one in ipairs(active) do list[i] = one end
  return list
end

--- Queries that were started and had no turn yet, as a message names them.
---@return string[]
function M.unmoved()
  local names = {}
  for _, one in ipairs(active) do
    if not one._state.moved then names[#names + 1] = one.name and ("query %q"):format(one.name) or "a query" end
  end
  return names
end

--- Starts a query.
---@param writer mt.DataStreamWriter
---@param bundle string JSON of the script it comes from
---@return mt.StreamingQuery
function M.start(writer, bundle)
  for _, one in ipairs(active) do
    if writer._query_name and one.name == writer._query_name then
      fault.raise(("a query with the name %q is active already"):format(one.name))
    end
  end
  local opened, words, class = native.open(query.plan(writer), bundle)
  if not opened then error(fault.new(core.class_of(class), "FATAL", words), 0) end
  local id, run_id = opened:about()
  local handle = object.new(Query, { _state = {
    native = opened, id = id, run_id = run_id, name = writer._query_name, frame = writer._frame, recent = {},
  } })
  active[#active + 1] = handle
  return handle
end

--- Waits for the end of the query, or for some seconds. Raises what it failed of.
---@param seconds number?
---@return boolean ended
function Query:awaitTermination(seconds)
  expect_seconds("awaitTermination", seconds)
  local ended = drive(all_active(), function() return not self.isActive end, seconds)
  raise_problem(self)
  return ended
end

--- Moves the query on until it has read and written all that its sources have now. For specs.
function Query:processAllAvailable()
  local state = self._state
  if state.native then state.native:drain() end
  drive({ self }, function() return not state.native or state.native:drained() end)
  raise_problem(self)
end

--- Finishes the batch under way, if one is, and ends the query.
function Query:stop()
  local state = self._state
  if not state.native then return end
  state.native:stop()
  drive({ self }, function() return not state.native end)
end

--- What the query failed of, or nil.
---@return string?
function Query:exception()
  local problem = self._state.problem
  return problem and problem.text
end

--- Prints the source and the steps.
function Query:explain()
  self._state.frame:explain()
end

--- Waits until one of the active queries has ended, or for some seconds. Raises what it failed of.
---@param seconds number?
---@return boolean ended
function M.await_any(seconds)
  expect_seconds("mt.awaitAny", seconds)
  local list = all_active()
  local function first_ended()
    for _, one in ipairs(list) do
      if not one.isActive then return one end
    end
  end
  local ended = #list == 0 or drive(list, function() return first_ended() ~= nil end, seconds)
  if first_ended() then raise_problem(first_ended()) end
  return ended
end

local function status_of(self)
  local state = self._state
  local message = state.status
  if state.native then
    local _, _, now = state.native:about()
    message = now
  end
  return { message = message }
end

object.seal(Query, {
  name = "StreamingQuery",
  getters = {
    id = function(self) return self._state.id end,
    runId = function(self) return self._state.run_id end,
    name = function(self) return self._state.name end,
    isActive = function(self) return self._state.native ~= nil end,
    status = status_of,
    recentProgress = function(self) return { unpack(self._state.recent) } end,
    lastProgress = function(self) return self._state.recent[#self._state.recent] end,
  },
  newindex = "; a query is changed by its methods",
})
M.class = Query

return M
