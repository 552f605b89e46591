-- SPDX-License-Identifier: Apache-2.0
--- mt.log and the print of a job: standard error, with query and batch, secrets masked.
--
-- Standard output belongs to results and progress. A row function that prints would print a
-- million lines, so after 100 lines of one batch they are only counted.
local config = require "moontide.config"
local core = require "moontide._core"
local value = require "moontide.values"
local C = core.C

local M = {}

local LIMIT = 100
local lines ---@type integer? of the batch that runs; nil: none does

local function write(level, ...)
  if lines then
    lines = lines + 1
    if lines > LIMIT then return end
  end
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = value.text((select(i, ...))) end
  local text = config.mask(table.concat(parts, "\t")):gsub("%z", "\\0")
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do C.mt_log_text(level, line) end
end

--- A batch begins.
function M.batch_begins()
  lines = 0
end

--- A batch ends, one way or the other: says what was only counted.
function M.batch_ends()
  local over = lines - LIMIT
  lines = nil
  if over > 0 then write(C.MT_WARN, ("%d more lines of the job were not printed"):format(over)) end
end

---@param ... any values, as print takes them
function M.debug(...) write(C.MT_DEBUG, ...) end

---@param ... any
function M.info(...) write(C.MT_INFO, ...) end

---@param ... any
function M.warn(...) write(C.MT_WARN, ...) end

---@param ... any
function M.error(...) write(C.MT_ERROR, ...) end

return M
