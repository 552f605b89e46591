-- SPDX-License-Identifier: Apache-2.0
--- For specs: runs this very program on job files in a folder of its own.
local M = {}

local own_pid = io.open("/proc/self/stat"):read "*n"
local PROGRAM = assert(io.popen(("readlink /proc/%d/exe"):format(own_pid))):read "*l"

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "*a"
  file:close()
  return text
end

---@class Folder a temporary folder, and what runs in it
local Folder = {}
Folder.__index = Folder

--- A folder for the examples of a block, made before each of them and removed behind it.
---@param before_each fun(fn: function) of busted, which only spec files know
---@param after_each fun(fn: function)
---@return Folder
function M.folder(before_each, after_each)
  local folder = setmetatable({}, Folder)
  before_each(function()
    folder.dir = assert(io.popen "mktemp -d"):read "*l"
  end)
  after_each(function()
    os.execute(("rm -rf '%s'"):format(folder.dir))
  end)
  return folder
end

function Folder:path(name)
  return self.dir .. "/" .. name
end

function Folder:write(name, text)
  local file = assert(io.open(self:path(name), "w"))
  file:write(text)
  file:close()
end

function Folder:read(name)
  return read(self:path(name))
end

--- Runs shell commands in the folder, in which `moontide` is the program. At most a minute.
---@return { code: integer, out: string, err: string }
function Folder:shell(commands)
  self:write("run.sh", ("moontide() { '%s' \"$@\"; }\nPROGRAM='%s'\ncd '%s'\n"):format(PROGRAM,
    PROGRAM, self.dir) .. commands)
  local status = os.execute(("timeout 60 bash '%s' >'%s' 2>'%s'"):format(self:path "run.sh",
    self:path "stdout", self:path "stderr"))
  return { code = math.floor(status / 256), out = self:read "stdout", err = self:read "stderr" }
end

--- Runs `moontide ARGUMENTS`.
function Folder:moontide(arguments)
  return self:shell("moontide " .. arguments .. "\n")
end

return M
