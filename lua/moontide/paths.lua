-- SPDX-License-Identifier: Apache-2.0
--- Paths of a job, made absolute once, where they are declared.
local core = require "moontide._core"

local M = {}

-- "/a/b/../c/." without its dots; what stands before ".." does not exist, so no link is lost
local function tidy(path)
  local parts = {}
  for part in path:gmatch "[^/]+" do
    if part == ".." then
      table.remove(parts)
    elseif part ~= "." then
      parts[#parts + 1] = part
    end
  end
  return "/" .. table.concat(parts, "/")
end

--- The absolute path: the real path of the part that exists, then the rest. `file:` is taken
--- off; another scheme (s3://) is left as it is.
---@param path string
---@return string
function M.absolute(path)
  local scheme = path:match "^(%a[%w+.-]*):"
  if scheme == "file" then
    path = path:gsub("^file:/*", "/", 1)
  elseif scheme and path:find "^[^:]+://" then
    return path
  end
  if path:sub(1, 1) ~= "/" then path = core.getcwd() .. "/" .. path end
  local rest = ""
  while true do
    local real = core.realpath(path)
    if real then return tidy(real .. "/" .. rest) end
    local head, tail = path:match "^(.*)/([^/]*)$"
    path, rest = head == "" and "/" or head, tail .. "/" .. rest
  end
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
