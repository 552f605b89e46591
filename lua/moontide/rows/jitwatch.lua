-- SPDX-License-Identifier: Apache-2.0
--- Tells when the JIT has given up on a row function, and why.
--
-- That it gave up on the loop around a function stands in the loop's own bytecode: FORL becomes
-- IFORL. A function that is compiled for some rows only is told by the JIT's events: a side exit
-- that failed to become a trace four times is left to the interpreter for good, and if that took
-- few rows, many rows go that way. The events also carry the reasons. There is one handler of
-- events a Lua state, so whoever attaches another one takes the reasons away, not the rest.
local bytecode = require "moontide.rows.bytecode"
local fault = require "moontide.fault"
local log = require "moontide.log"
local util = require "jit.util"
local vmdef = require "jit.vmdef"

local M = {}

-- Rows in which an exit fails four times: not more, when at least every eighth row takes it; not less,
-- unless it is in a loop of the function's own.
local NEAR, APART = 32, 3

---@class mt.JitWatch
---@field gave_up boolean
---@field enter fun(cursor: { i: integer }) a loop begins
---@field leave fun(loop: function?) and ended; looks whether the JIT gave up on it

local current ---@type table? the state of the watch whose loop runs
local starting = "" -- parent and exit of the trace that is being recorded; "": a root trace

-- ---- reasons

local BYTECODES = {
  FNEW = "it makes a function in every call; make it once, outside of it",
  ITERN = "it walks a table with pairs or next", ISNEXT = "it walks a table with pairs or next",
}

local function words_of(code, detail)
  local text = vmdef.traceerr[code] or tostring(code)
  if text:find "bytecode %%d" then
    local name = bytecode.name(detail)
    return BYTECODES[name] or ("LuaJIT does not compile the instruction " .. name)
  end
  if type(detail) == "function" then detail = "of C" end
  return "LuaJIT: " .. (text:find "%%" and text:format(detail) or text)
end

-- Failures for what is in the code. The others are for where a trace begins or ends and how it would
-- lie in registers, which the next attempt from elsewhere may get right.
local CAUSES = {}
for code, text in pairs(vmdef.traceerr) do
  for _, words in ipairs { "blacklisted", "bytecode", "disabled", "unsupported", "mixed sparse" } do
    if text:find(words, 1, true) then CAUSES[code] = true end
  end
end

-- True when the cause is in somebody's own file.
local function note(state, fn, pc, code, detail)
  local info = util.funcinfo(fn, pc)
  local placed = info.source and not fault.is_own(info.source)
  local text = words_of(code, detail)
  if placed then text = ("%s:%d: %s"):format(info.source:gsub("^[@=]", ""), info.currentline, text) end
  local reason = state.reasons[text] or { text = text, times = 0, placed = placed }
  state.reasons[text], reason.times = reason, reason.times + 1
  return placed
end

-- The most frequent reason, of those in somebody's own file if there is one.
local function main_reason(state)
  local best
  for _, reason in pairs(state.reasons) do
    if not best or reason.placed and not best.placed
      or reason.placed == best.placed and reason.times > best.times then best = reason end
  end
  return best and best.text or "LuaJIT gave no reason"
end

-- ---- events

-- A failed attempt at a side exit: the row at the first one of this run.
local function failed(state)
  if starting ~= "" and not state.exits[starting] then state.exits[starting] = state.cursor.i end
end

-- The exit that was just being recorded is left to the interpreter.
local function left(state)
  local first = state.exits[starting]
  local apart = first and state.cursor.i - first
  if apart and apart >= APART and apart <= NEAR then state.gave_up = true end
end

local function on_trace(what, trace, fn, pc, a, b)
  if what == "start" then starting = a and a .. "/" .. b or "" end
  if not current then return end
  if what == "abort" then
    local placed = note(current, fn, pc, a, b)
    if placed and CAUSES[a] then failed(current) end
  elseif what == "stop" and starting ~= "" and util.traceinfo(trace).linktype == "interpreter" then
    left(current)
  end
end

--- Takes the JIT's events, of which there is one handler a Lua state.
function M.attach()
  jit.attach(on_trace, "trace")
end

-- ---- one function

-- True when the JIT has marked the loop in a function as not to be compiled.
local function is_marked(fn)
  for pc = 1, util.funcinfo(fn).bytecodes - 1 do
    if bytecode.name(bit.band((util.funcbc(fn, pc)), 0xff)) == "IFORL" then return true end
  end
  return false
end

local function warn(kind, fn, state)
  local info = debug.getinfo(fn, "S")
  log.warn(("%s: the function at %s:%d is not compiled and takes ten times as long or more: %s"):format(kind,
    info.source:gsub("^[@=]", ""), info.linedefined, main_reason(state)))
end

--- Watches the loops around one function.
---@param kind string of step
---@param fn function
---@return mt.JitWatch
function M.new(kind, fn)
  local state = { reasons = {}, exits = {}, gave_up = false }
  local self, outer = { gave_up = false }, nil
  function self.enter(cursor)
    outer, current = current, state
    state.cursor, state.exits = cursor, {}
  end
  function self.leave(loop)
    current = outer
    if self.gave_up or not loop then return end
    if state.gave_up or is_marked(loop) then
      self.gave_up = true
      warn(kind, fn, state)
    end
  end
  return self
end

M.attach()

return M
