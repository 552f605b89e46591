-- SPDX-License-Identifier: Apache-2.0
--- `moontide lua FILE`: a script that starts and drives its queries itself.
local core = require "moontide._core"
local fault = require "moontide.fault"
local handle = require "moontide.live.handle"
local job = require "moontide.declare.job"
local live = require "moontide.live"
local log = require "moontide.log"
local native = require "moontide._query"
local paths = require "moontide.paths"
local value = require "moontide.values"

local M = {}

-- Exit codes, by what Ctrl-C and SIGTERM raise; the others are the numbers of classes.
M.signals = { interrupted = 130, terminated = 143 }

local function code_of(class)
  return tonumber(core.C["MT_CLASS_" .. class])
end

local function exact_print(...)
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = value.str((select(i, ...))) end
  io.stdout:write(table.concat(parts, "\t"), "\n")
end

--- Gives the script the globals of a job, its print apart, and makes queries start.
---@param file string?
---@param text string? of the file
function M.begin(file, text)
  print, tostring, string.format = exact_print, value.text, value.format -- luacheck: ignore
  job.guard()
  live.begin(file, text)
  native.interruptible()
end

--- An error's words: with a traceback when they name no place.
---@param e any
---@return string
function M.words(e)
  local text = value.str(e)
  if fault.is_fault(e) or text:find "^[^\n:]+:%d+: " or M.signals[text] then return text end
  return debug.traceback(text, 2)
end

local function exit_code(e)
  if M.signals[e] then return M.signals[e] end
  return code_of(fault.is_fault(e) and e.class or "SCRIPT")
end

-- A query that never got a turn has done nothing, and nothing else says so.
local function tell_of_unmoved()
  for _, name in ipairs(handle.unmoved()) do
    log.warn(("the script ends, and %s, which it started, has read nothing: queries move on while the script "
      .. "waits, in awaitTermination, processAllAvailable or mt.awaitAny"):format(name))
  end
end

--- Runs a script.
---@param args { file: string, args: string[], fail: fun(code: integer, text: string): integer }
---@return integer exit code
function M.run(args)
  local folder = paths.folder(args.file)
  package.path = ("%s/?.lua;%s/?/init.lua;%s"):format(folder, folder, package.path)
  arg = { [0] = args.file, unpack(args.args) } -- luacheck: globals arg
  local text, missing = paths.read(args.file) -- once: it may be a pipe
  if not text then return args.fail(code_of "JOB", missing) end
  M.begin(args.file, text)
  local chunk, problem = loadstring(text:gsub("^#[^\n]*", ""), "@" .. args.file)
  if not chunk then return args.fail(code_of "JOB", problem) end
  local failed, words
  xpcall(function() chunk(unpack(args.args)) end, function(e)
    failed, words = exit_code(e), M.words(e)
  end)
  io.stdout:flush()
  if not failed then tell_of_unmoved() end
  return failed and args.fail(failed, words) or 0
end

return M
