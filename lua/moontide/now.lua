-- SPDX-License-Identifier: Apache-2.0
--- mt.now: inside a batch its own time, which a replay sees again; else the clock's.
local core = require "moontide._core"
local C = core.C

local M = {}

local batch_time ---@type number? of the batch that runs

--- A batch begins.
---@param micros number its time
function M.batch_begins(micros)
  batch_time = micros
end

--- A batch ends, one way or the other.
function M.batch_ends()
  batch_time = nil
end

--- Microseconds since 1970 UTC.
---@return number
function M.now()
  local micros = batch_time
  if not micros then micros = tonumber(C.mt_clock_ms()) * 1000 end
  return micros
end

return M
