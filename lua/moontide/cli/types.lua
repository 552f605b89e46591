-- SPDX-License-Identifier: Apache-2.0
--- `moontide types`: what an editor's language server should know of the job API.
--
-- Written out of the annotated sources that this very program runs: a function's words are the
-- comment above the line where LuaJIT says that it stands. What is public follows from there: `mt`,
-- and every class that something public names.
local host = require "moontide._host"
local job = require "moontide.declare.job"
local live = require "moontide.live"
local suggest = require "moontide.suggest"

local M = {}

local USAGE = 2
local OWN = "@<moontide>/"

local SETTINGS = [[
{
  "runtime.version": "LuaJIT",
  "workspace.checkThirdParty": false
}
]]

local HEAD = [[
---@meta moontide
--- What a job may call. Written by `moontide types`, which writes over it: do not edit.

]]

-- ---- the sources as lines

local files -- name -> lines

local function lines_of(text)
  local lines = {}
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  return lines
end

-- The comment that ends above line n, as a list; the file's own first lines are none.
local function comment_above(lines, n)
  local first = n
  while lines[first - 1] and lines[first - 1]:find "^%-%-%-" do first = first - 1 end
  local list = {}
  for i = first, n - 1 do list[#list + 1] = lines[i] end
  return list
end

-- ---- classes

---@class mt.ClassSource
---@field head string[] its annotations, private fields left out
---@field methods { name: string, parameters: string, words: string[] }[]

local PRIVATE = { package = true, private = true, protected = true }

local function class_head(lines, n)
  local head = {}
  while lines[n] and lines[n]:find "^%-%-%-" do
    if not PRIVATE[lines[n]:match "^%-%-%-@field (%w+) "] then head[#head + 1] = lines[n] end
    n = n + 1
  end
  return head, lines[n] and lines[n]:match "^local (%w+) = {"
end

local function methods_of(lines, variable)
  local methods = {}
  for n, line in ipairs(lines) do
    local name, parameters = line:match("^function " .. variable .. "[:.](%w+)(%b())")
    if name then methods[#methods + 1] = { name = name, parameters = parameters, words = comment_above(lines, n) } end
  end
  return methods
end

-- Name -> class, or alias, of all of Moontide's files.
local function find_classes()
  local classes = {}
  for _, lines in pairs(files) do
    for n, line in ipairs(lines) do
      local name = line:match "^%-%-%-@class ([%w.]+)" or line:match "^%-%-%-@alias ([%w.]+)"
      if name and name ~= "mt" then
        local head, variable = class_head(lines, n)
        classes[name] = { head = head, methods = variable and methods_of(lines, variable) or {} }
      end
    end
  end
  return classes
end

-- ---- writing

local function write_function(out, owner, name, parameters, words)
  for _, line in ipairs(words) do out[#out + 1] = line end
  out[#out + 1] = ("function %s%s%s end\n"):format(owner, name, parameters)
end

local function write_class(out, class)
  for _, line in ipairs(class.head) do out[#out + 1] = line end
  if #class.methods == 0 then
    out[#out + 1] = ""
    return
  end
  out[#out + 1] = "local class = {}\n"
  for _, method in ipairs(class.methods) do
    write_function(out, "class:", method.name, method.parameters, method.words)
  end
end

-- Where a function of `mt` stands, and the parameters it has there.
local function source_of(fn)
  local info = debug.getinfo(fn, "S")
  local lines = files[info.source:sub(#OWN + 1)]
  return lines[info.linedefined]:match "%b()", comment_above(lines, info.linedefined)
end

-- The class `mt`: fields that its annotations name, and its functions.
local function write_mt(out)
  require("moontide.live").begin() -- what scripts have and jobs have not
  local mt, lines = require "moontide", files["moontide/init.lua"]
  rawset(mt, "file", job.file) -- as a job has it
  for n, line in ipairs(lines) do
    if line == "---@class mt" then
      for _, annotation in ipairs((class_head(lines, n))) do out[#out + 1] = annotation end
    end
  end
  out[#out + 1] = "local mt = {}\n"
  for _, name in ipairs(suggest.keys(mt)) do
    if type(mt[name]) == "function" then
      local parameters, words = source_of(mt[name])
      write_function(out, "mt.", name, parameters, words)
    end
  end
end

-- Classes that the lines from `from` on name and that were not written yet.
local function named_since(out, from, classes, written)
  local names = {}
  for i = from, #out do
    for name in out[i]:gmatch "mt%.%u%w*" do
      if classes[name] and not written[name] then
        written[name] = true
        names[#names + 1] = name
      end
    end
  end
  return names
end

--- The text of moontide.d.lua.
---@return string
function M.text()
  files = {}
  live.begin() -- what scripts and specs have beyond a job
  for name, text in pairs(host.sources()) do files[name] = lines_of(text) end
  local classes, written, out, seen = find_classes(), {}, {}, 0
  write_mt(out)
  while seen < #out do
    local names = named_since(out, seen + 1, classes, written)
    seen = #out
    for _, name in ipairs(names) do
      out[#out + 1] = "do"
      write_class(out, classes[name])
      out[#out + 1] = "end\n"
    end
  end
  return HEAD .. table.concat(out, "\n") .. "\nreturn mt\n"
end

-- ---- files

local function write_over(path, text)
  local file, problem = io.open(path, "w")
  if not file then return nil, problem end
  local ok, cause = file:write(text)
  return file:close() and ok, cause
end

--- Writes the types into a folder, and how to read them unless that is said there already.
---@param args { dir: string, fail: fun(code: integer, text: string): integer }
---@return integer exit code
function M.run(args)
  local path, settings = args.dir .. "/moontide.d.lua", args.dir .. "/.luarc.json"
  local ok, problem = write_over(path, M.text())
  if not ok then return args.fail(USAGE, ("%s; DIR is a folder that is there"):format(problem or path)) end
  print(path .. " is written")
  if host.create(settings, SETTINGS) then
    print(settings .. " is written")
  else
    print(settings .. ' is left as it is; it should say "runtime.version": "LuaJIT"')
  end
  return 0
end

return M
