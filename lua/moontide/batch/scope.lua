-- SPDX-License-Identifier: Apache-2.0
--- What lives as long as one call of a foreachBatch function: its frames, views and state.
--
-- Rows of a batch are megabytes outside of Lua, and the collector sees some bytes of cdata: it would
-- come too late. So what a batch made is released when its function has returned. A handle that was
-- kept for longer must then be an error and not a look into freed memory.
local core = require "moontide._core"
local fault = require "moontide.fault"
local C = core.C

local M = {}

---@class mt.Scope
---@field run ffi.cdata* struct mt_run *
---@field id integer of the batch
---@field time number microseconds since 1970
---@field over boolean
---@field handles table[] to be ended
---@field batches ffi.cdata*[] to be released
---@field ends fun()[] what else is to be done
---@field saving any[]? what the last save pointed into
---@field doom mt.Fault? after which the batch can only fail: a save's, or lost
---@field lost mt.Fault? of the state, which could not be read or kept
---@field late string? an error of the script's that was found when the function had returned
---@field walks mt.Walk[] loops over rows that began, the last one last

--- Begins one.
---@param run ffi.cdata* struct mt_run *
---@return mt.Scope
function M.open(run)
  return { run = run, id = tonumber(run.batch_id), time = tonumber(run.time_us), over = false,
    handles = {}, batches = {}, ends = {}, walks = {} }
end

--- Refuses the use of something that is over.
---@param id integer of the batch
---@param what string "a frame", "the state"
---@param name any what was asked of it
function M.gone(id, what, name)
  fault.raise(("batch %d is over, and %s of it was asked for %s: what foreachBatch hands out lives until the "
    .. "function returns; keep a copy instead (batch:collect(), state:get(key))"):format(id, what,
    tostring(name)))
end

--- Refuses a frame whose batch is over.
---@param scope mt.Scope
---@param what string
---@param name string
function M.expect_alive(scope, what, name)
  if scope.over then M.gone(scope.id, what, name) end
end

-- The metatable of a handle that is over.
local function ended(scope, what)
  local function gone(_, name) M.gone(scope.id, what, name) end
  return { __index = gone, __newindex = gone, __tostring = function()
    return ("%s of batch %d, which is over"):format(what, scope.id)
  end }
end

--- Adds a handle: a table that is an error to use when the scope is over.
---@generic T: table
---@param scope mt.Scope
---@param what string "a frame"
---@param handle T
---@return T
function M.handle(scope, what, handle)
  scope.handles[#scope.handles + 1] = { what = what, handle = handle }
  return handle
end

--- Ends all that was made in it and releases its batches.
---@param scope mt.Scope
function M.close(scope)
  scope.over = true
  local metas = {}
  for _, one in ipairs(scope.handles) do
    metas[one.what] = metas[one.what] or ended(scope, one.what)
    setmetatable(one.handle, metas[one.what])
  end
  for _, done in ipairs(scope.ends) do done() end
  for _, batch in ipairs(scope.batches) do C.mt_batch_release(batch) end
end

return M
