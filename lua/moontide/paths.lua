-- SPDX-License-Identifier: Apache-2.0
--- Paths of a job, made absolute once, where they are declared.
local core = require "moontide._core"
local fault = require "moontide.fault"

local M = {}

--- The absolute path, by which one folder has one name. A place of another kind (s3://) is left
--- as it is.
---@param path string
---@return string
function M.absolute(path)
  local scheme = path:match "^(%a[%w+.-]+)://"
  if scheme and scheme:lower() ~= "file" then return path end
  local out = core.new "char *[1]"
  if core.C.mt_path_absolute(path, out, core.err) ~= 0 then fault.raise((core.failure())) end
  return core.take(out[0])
end

--- The folder of a file, without its slash.
---@param file string
---@return string
function M.folder(file)
  local folder = file:match "^(.*)/[^/]*$"
  return folder == nil and "." or folder == "" and "/" or folder
end

--- The whole text of a file, or nil and why not.
---@param path string
---@return string?, string?
function M.read(path)
  local file, problem = io.open(path, "rb")
  if not file then return nil, problem end
  local text, cause = file:read "*a"
  file:close()
  return text, cause and path .. ": " .. cause
end

return M
