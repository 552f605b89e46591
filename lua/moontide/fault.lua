-- SPDX-License-Identifier: Apache-2.0
--- Errors that stand at the job's line.
--
-- A mistake in a declaration is told where the job makes it, not where Moontide finds it:
-- the nearest frame of a job file. `return a:b():c()` is a tail call and loses its frame, so
-- while a job file loads and none of its frames is left, the line is that of the chunk's last
-- instruction, which is that call. While `check` runs, faults are noted and the chain goes on.
local M = {}

---@class mt.At
---@field file string
---@field line integer

---@class mt.Fault
---@field class string whose trouble: "JOB", "SCRIPT", "DATA", …
---@field status string "FATAL" or "REJECT"
---@field text string with the place in front
---@field at mt.At? of a fault in a declaration
---@field words string? the text without the place
local Fault = {}
Fault.__index = Fault
Fault.__tostring = function(self) return self.text end
Fault.__concat = function(a, b) return tostring(a) .. tostring(b) end

local own = debug.getinfo(1, "S").source:match "^(.*)fault%.lua$" or "=moontide"

---@class mt.LoadedJob
---@field file string as people named it
---@field files table<string, boolean> sources (chunk names) it consists of
---@field chunk function? while it runs: its main function, or one of a foreachBatch

local job ---@type mt.LoadedJob?

---@type mt.Fault[]? faults under `check`; nil: raise them
M.noted = nil

--- True for the source of Moontide's own Lua and of generated code.
---@param source string
function M.is_own(source)
  return source:sub(1, #own) == own or source:sub(1, 9) == "=moontide"
end

--- Names the job of this state; nil: there is none. Gives the one before.
---@param loaded mt.LoadedJob?
---@return mt.LoadedJob?
function M.job(loaded)
  local before = job
  job = loaded
  return before
end

local function end_of(fn)
  local util = require "jit.util"
  local info = util.funcinfo(fn)
  if not info.bytecodes then return { file = "[C]", line = 0 } end
  return { file = info.source:gsub("^[@=]", ""), line = util.funcinfo(fn, info.bytecodes - 1).currentline }
end

--- A function of the job begins: where a tail call leaves no frame of it, its last line stands for
--- the call. Gives what ran before, to be named again at its end.
---@param fn function?
---@return function?
function M.running(fn)
  if not job then return nil end
  local before = job.chunk
  job.chunk = fn
  return before
end

-- The nearest frame that is not ours; `files`: and stands in one of these; `within`: and was called
-- by generated code.
local function find_frame(files, within)
  for level = 3, 200 do
    local info = debug.getinfo(level, "Sl")
    if not info or within and info.source:find "^=moontide " then return nil end
    if info.what ~= "C" and not M.is_own(info.source) and (not files or files[info.source]) then
      return { file = info.source:gsub("^[@=]", ""), line = info.currentline }
    end
  end
end

--- The nearest place in a job file on the stack.
---@return mt.At
function M.here()
  local at = job and find_frame(job.files)
  if at then return at end
  if job and job.chunk then return end_of(job.chunk) end
  at = find_frame(nil)
  return at or { file = "?", line = 0 }
end

--- The nearest place in a function that generated code calls; nil when a tail call left no frame.
---@return mt.At?
function M.within()
  local files = job and job.files
  return files and find_frame(files, true) or find_frame(nil, true)
end

--- "job.lua:12: "
---@param at mt.At
---@return string
function M.place(at)
  return ("%s:%d: "):format(at.file, at.line)
end

--- A fault with its class and what the engine may do.
---@param class string
---@param status string
---@param text string
---@return mt.Fault
function M.new(class, status, text)
  return setmetatable({ class = class, status = status, text = text }, Fault)
end

--- True for a fault: an error of ours, with its class.
---@param e any
---@return boolean
function M.is_fault(e)
  return getmetatable(e) == Fault
end

--- A fault of the job file at a place in it.
---@param words string
---@param at mt.At
---@return mt.Fault
function M.at(words, at)
  local made = M.new("JOB", "FATAL", M.place(at) .. words)
  made.at, made.words = at, words
  return made
end

--- Raises a fault of a declaration at the job's line (or at `at`).
---@param words string
---@param at mt.At?
function M.raise(words, at)
  error(M.at(words, at or M.here()), 0)
end

--- Calls fn. Under `check` a fault is noted and `otherwise()` returned instead.
---@param otherwise fun(): any
---@param fn function
function M.guard(otherwise, fn, ...)
  if not M.noted then return fn(...) end
  local ok, result = pcall(fn, ...)
  if ok then return result end
  if not M.is_fault(result) then error(result, 0) end
  table.insert(M.noted, result)
  return otherwise()
end

--- Refuses a value that is not of one of the types (`type()` names).
---@param what string whose value, for the message
---@param value any
---@param expected string a type, or several with " or " between
function M.expect(what, value, expected)
  local is = type(value)
  for name in expected:gmatch "%a+" do
    if name == is then return end
  end
  M.raise(("%s takes a %s, not %s"):format(what, expected, value == nil and "nil" or "a " .. is))
end

return M
