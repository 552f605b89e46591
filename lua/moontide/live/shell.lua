-- SPDX-License-Identifier: Apache-2.0
--- `moontide shell`: a prompt.
--
-- Declarations are chains over several lines, and a line such as `orders = mt.readStream` is whole by
-- itself. So a line that begins with ":" or "." goes on with what was entered before: that is run
-- again with it, which is harmless where its value was a builder, and refused where it was not.
local dataframe = require "moontide.declare.dataframe"
local handle = require "moontide.live.handle"
local host = require "moontide._host"
local memtable = require "moontide.live.memtable"
local mt = require "moontide"
local object = require "moontide.object"
local reader = require "moontide.declare.reader"
local script = require "moontide.live.script"
local suggest = require "moontide.suggest"
local value = require "moontide.values"
local writer = require "moontide.declare.writer"

local M = {}

local SCRIPT = 4 -- exit code
local FIRST, MORE = "> ", ">> "
local DEPTH, ITEMS = 4, 100 -- of a table that is shown

-- ---- values

local show -- below

local function quoted(text)
  return (("%q"):format(text):gsub("\\\n", "\\n"):gsub("\r", "\\r"):gsub("%z", "\\0"))
end

local function by_kind(a, b)
  local ta, tb = type(a), type(b)
  if ta ~= tb then return ta == "number" or tb ~= "number" and ta < tb end
  if ta == "number" or ta == "string" then return a < b end
  return value.text(a) < value.text(b)
end

local function key_text(key)
  if type(key) == "string" and key:find "^[%a_][%w_]*$" then return key end
  return "[" .. show(key, DEPTH) .. "]"
end

local function items_of(t, depth)
  local parts, keys, n = {}, {}, #t
  for i = 1, math.min(n, ITEMS) do parts[i] = show(t[i], depth + 1) end
  for key in pairs(t) do
    if type(key) ~= "number" or key < 1 or key > n or key ~= math.floor(key) then keys[#keys + 1] = key end
  end
  table.sort(keys, by_kind)
  for i = 1, math.min(#keys, ITEMS) do
    parts[#parts + 1] = ("%s = %s"):format(key_text(keys[i]), show(t[keys[i]], depth + 1))
  end
  local more = math.max(0, n - ITEMS) + math.max(0, #keys - ITEMS)
  if more > 0 then parts[#parts + 1] = ("… %d more"):format(more) end
  return parts
end

-- On one line where it is short.
local function show_table(t, depth)
  if next(t) == nil then return "{}" end
  if depth >= DEPTH then return "{…}" end
  local parts = items_of(t, depth)
  local line = "{ " .. table.concat(parts, ", ") .. " }"
  if #line <= 90 and not line:find "\n" then return line end
  local indent = ("  "):rep(depth + 1)
  return "{\n" .. indent .. table.concat(parts, ",\n" .. indent) .. "\n" .. ("  "):rep(depth) .. "}"
end

function show(v, depth)
  if type(v) == "string" then return quoted(v) end
  if type(v) == "table" and getmetatable(v) == nil then return show_table(v, depth) end
  return value.str(v)
end

local function show_query(query)
  local problem = query:exception()
  return ("StreamingQuery %s: %s"):format(query.name or query.id, problem and "failed: " .. problem
    or query.isActive and query.status.message or "ended")
end

-- What a line may go on with.
local function is_builder(v)
  return v == mt or object.is_a(v, dataframe.class) or object.is_a(v, reader.class)
    or object.is_a(v, writer.class)
end

--- A value as the prompt prints it.
---@param v any
---@return string
function M.show(v)
  if object.is_a(v, dataframe.class) then
    return value.text(v) .. "\n" .. (v._schema:tree():gsub("\n$", ""))
  elseif object.is_a(v, memtable.class) then
    return (v:text():gsub("\n$", ""))
  elseif object.is_a(v, handle.class) then
    return show_query(v)
  elseif v == mt then
    return "Moontide"
  elseif is_builder(v) then
    return value.text(v)
  end
  return show(v, 0)
end

-- ---- entries

-- What was entered as a chunk: an expression's value is returned. nil, words, true: more is to come.
local function compile(text)
  local chunk = loadstring("return " .. text, "=shell")
  -- A call there would be a tail call, and an error in it stand in a file of ours.
  local ended = chunk and loadstring("local function all(...) return ... end return all(" .. text .. "\n)", "=shell")
  if chunk then return ended or chunk end
  local problem
  chunk, problem = loadstring(text, "=shell")
  return chunk, problem, problem and problem:find "near '<eof>'$" ~= nil
end

-- A local would be gone with its line.
local function without_local(text)
  text = text:gsub("^(%s*)local%s+(function%s)", "%1%2")
  return (text:gsub("^(%s*)local%s+([%a_][%w_%s,]*=[^=])", "%1%2"))
end

-- Calls a chunk: what went wrong, or nil, its values, and these as text. Not compiled, so that Ctrl-C
-- ends its loops. Its values may have a __tostring of their own, which may fail as the chunk may.
local function call(chunk)
  jit.off(chunk, true)
  local failed, values
  local shown = {}
  local ok = xpcall(function()
    local function keep(...) values = { n = select("#", ...), ... } end
    keep(chunk())
    for i = 1, values.n do shown[i] = M.show(values[i]) end
  end, function(e)
    -- The handler of an error in a handler is sometimes the same one, sometimes none.
    local told, words = pcall(script.words, e)
    failed = told and words:gsub("\nstack traceback:\n.*$", "") or "an error that cannot be printed"
  end)
  return not ok and failed or nil, values, shown
end

---@class mt.Session
---@field unfinished string? lines that want more
---@field last string? the entry that a line may go on with
---@field failed boolean an entry was at fault
---@field code integer? of the process: it was asked to end
---@field write fun(text: string)
---@field complain fun(text: string)
local Session = {}
Session.__index = Session

--- A prompt's lines, one after the other.
---@param write fun(text: string) for values
---@param complain fun(text: string) for errors
---@return mt.Session
function M.session(write, complain)
  return setmetatable({ write = write, complain = complain, failed = false }, Session)
end

--- Tells an error.
---@param words string
---@param text string the input it comes from
function Session:fail(words, text)
  self.failed = true
  if words == "terminated" then self.code = script.signals[words] end
  if not text:find "\n" then words = words:gsub("^shell:%d+: ", "") end
  self.complain(words)
end

--- Calls what a text was compiled to and tells its values, or its error.
---@param chunk function
---@param text string
function Session:call(chunk, text)
  local failed, values, shown = call(chunk)
  if failed then return self:fail(failed, text) end
  for _, line in ipairs(shown) do self.write(line) end
  local name = values.n == 0 and text:match "^%s*([%a_][%w_]*)%s*=[^=]"
  local made = values[1] or name and rawget(_G, name)
  if is_builder(made) then self.last = text end
end

--- Takes a line. Gives what to ask the next one with.
---@param line string
---@return string prompt
function Session:feed(line)
  local text = self.unfinished and self.unfinished .. "\n" .. line
    or line:find "^%s*[:.]" and self.last and self.last .. "\n" .. line or line
  self.unfinished = nil
  if not text:find "%S" then return FIRST end
  text = without_local(text)
  local chunk, problem, more = compile(text)
  if more then
    self.unfinished = text
    return MORE
  end
  self.last = nil
  if chunk then self:call(chunk, text) else self:fail(problem, text) end
  return FIRST
end

--- No line will come any more.
function Session:finish()
  if self.unfinished then self:fail("the last entry is not finished", "") end
end

-- ---- completion

-- The value of names with dots between. What objects of Moontide give for a name changes nothing.
local function value_of(path)
  local at = _G
  for name in path:gmatch "[^.]+" do
    local safe = at == mt or object.names(at)
    local ok, v = pcall(safe and function(key) return at[key] end or function(key) return rawget(at, key) end, name)
    if not ok or v == nil then return nil end
    at = v
  end
  return at
end

local function names_of(v)
  if type(v) == "string" then return suggest.keys(string) end
  local names = object.names(v)
  if names or type(v) ~= "table" then return names or {} end
  names = v == mt and { "readStream" } or {}
  for key in pairs(v) do
    if type(key) == "string" and key:find "^[%a_][%w_]*$" then names[#names + 1] = key end
  end
  table.sort(names)
  return names
end

--- What a word may become.
---@param word string "mt.re", "orders:fi"
---@return string[]
function M.complete(word)
  local head, tail = word:match "^(.*[.:])([%w_]*)$"
  local v = _G
  if head then v = value_of(head:sub(1, -2)) end
  local words = {}
  for _, name in ipairs(names_of(v)) do
    if name:sub(1, #(tail or word)) == (tail or word) then words[#words + 1] = (head or "") .. name end
  end
  return words
end

-- ---- the prompt

local function at_terminal(session)
  local home = os.getenv "HOME"
  local history = home and home .. "/.moontide_history"
  if history then host.history(history) end
  io.stdout:write("Moontide ", host.versions().moontide, ", ", jit.version,
    ". Moontide is `mt`. TAB completes, Ctrl-D ends.\n")
  local prompt = FIRST
  repeat
    local line, signal = host.prompt(prompt, M.complete)
    if line then
      prompt = session:feed(line)
    elseif signal == "interrupted" then -- the entry is thrown away
      session.unfinished, prompt = nil, FIRST
    else
      session.code = session.code or script.signals[signal] or 0
    end
    io.stdout:flush()
  until session.code
  if history then host.history(history, true) end
  io.stdout:write "\n"
  return session.code
end

local function from_input(session)
  for line in function() return io.stdin:read "*l" end do -- io.lines would raise what a signal ends
    session:feed(line)
    if session.code then break end
  end
  if not session.code then session:finish() end
  io.stdout:flush()
  return session.code or session.failed and SCRIPT or 0
end

--- Runs the shell on standard input. Gives the exit code.
---@return integer
function M.run()
  script.begin(nil)
  rawset(_G, "mt", mt)
  local session = M.session(function(text) io.stdout:write(text, "\n") end, function(text)
    io.stdout:flush()
    io.stderr:write(text, "\n")
  end)
  local ok, code = pcall(host.isatty(0) and host.isatty(1) and at_terminal or from_input, session)
  if ok then return code end
  io.stdout:flush()
  return script.signals[code] or error(code, 0)
end

return M
