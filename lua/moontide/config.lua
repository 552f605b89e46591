-- SPDX-License-Identifier: Apache-2.0
--- Values a job takes from outside: mt.conf and mt.secret.
--
-- What mt.conf gave belongs to the job's text: it is kept with it, so that a batch can be known by
-- all that made it. A secret is kept nowhere; its value is masked wherever a job prints.
local core = require "moontide._core"
local fault = require "moontide.fault"
local paths = require "moontide.paths"
local suggest = require "moontide.suggest"
local value = require "moontide.values"
local C = core.C

local M = {}

---@class mt.Config what one job was given; several may be loaded in one state
---@field set table<string, string> from --set
---@field pinned table<string, string>? values of a batch's bundle, in place of set and environment
---@field read table<string, string> name -> value that conf gave
---@field asked table<string, boolean> names that were looked for
---@field given table<string, string> values that mt.secret gave -> its name
---@field closed boolean the job is loaded: what it consists of is settled

local function fresh(values, pinned)
  return { set = values, pinned = pinned, read = {}, asked = {}, given = {}, closed = false }
end

local now = fresh {} ---@type mt.Config of the job whose code runs

--- Begins a job: values of --set; nothing was read yet.
---@param values table<string, string>
---@param pinned table<string, string>? what conf gave to the job that is loaded again
function M.begin(values, pinned)
  now = fresh(values, pinned)
end

--- The job is loaded: conf gives what it gave before, and nothing new.
function M.close()
  now.closed = true
end

--- Makes another job's the one that conf reads. Gives the one before.
---@param config mt.Config
---@return mt.Config
function M.use(config)
  local before = now
  now = config
  return before
end

---@return mt.Config
function M.current()
  return now
end

--- What conf gave so far, as text.
---@return table<string, string>
function M.given()
  local copy = {}
  for name, v in pairs(now.read) do copy[name] = v end
  return copy
end

local function find(name)
  now.asked[name] = true
  if now.set[name] ~= nil then return now.set[name], "--set " .. name end
  local variable = "MOONTIDE_" .. name:upper():gsub("%W", "_")
  return os.getenv(variable), variable
end

-- Where conf looks: a batch that is run again sees what it saw.
local function find_conf(name)
  if not now.pinned then return find(name) end
  now.asked[name] = true
  return now.pinned[name], "the batch's " .. name
end

--- What is to be said about values of --set that the job never looked for.
---@return string[]
function M.unread()
  local names, words = suggest.keys(now.asked), {}
  for _, name in ipairs(suggest.keys(now.set)) do
    if not now.asked[name] then
      local near = suggest.nearest(name, names)
      words[#words + 1] = ("--set %s: the job does not read it%s"):format(name,
        near and ("; did you mean %q?"):format(near) or "")
    end
  end
  return words
end

--- The text given for a name, without a trace; nil: none.
---@param name string
---@return string?
function M.peek(name)
  return (find(name))
end

--- Makes the session's time zone the one that is given: --set timeZone=… or MOONTIDE_TIMEZONE.
function M.use_time_zone()
  local zone = M.peek "timeZone" or "UTC"
  if value.use_zone(zone) then return end
  error(fault.new("JOB", "FATAL", ("timeZone %q is no time zone; it takes a region such as Europe/Paris, "
    .. "UTC, or an offset such as +02:00"):format(zone)), 0)
end

local WORDS = { ["true"] = true, yes = true, on = true, ["1"] = true,
  ["false"] = false, no = false, off = false, ["0"] = false }

-- The text with the type of the default.
local function typed(text, default, from)
  local kind = type(default)
  if kind == "number" then
    return tonumber(text) or fault.raise(("%s is %q; a number is wanted"):format(from, text))
  elseif kind == "boolean" then
    local word = WORDS[text:lower()]
    if word == nil then fault.raise(("%s is %q; true or false is wanted"):format(from, text)) end
    return word
  end
  return text
end

--- mt.conf; see init.lua.
---@param name string
---@param default string|number|boolean|nil
---@return string|number|boolean
function M.conf(name, default)
  fault.expect("mt.conf: the name", name, "string")
  if default ~= nil then fault.expect("mt.conf: the default", default, "string or number or boolean") end
  if now.closed and now.read[name] == nil then
    fault.raise(("mt.conf %q is first read while rows run, and would not be kept with the job; "
      .. "read it at the top of the file"):format(name))
  end
  local text, from = find_conf(name)
  local v = default
  if text ~= nil then v = typed(text, default, from) end
  if v == nil then
    fault.raise(("mt.conf %q is not set; run with --set %s=… or set %s"):format(name, name, from))
  end
  now.read[name] = value.text(v)
  return v
end

-- The secret of a name, or nil and why there is none.
local function look_up(name)
  local text, from = find(name)
  if text == nil then
    return nil, ("mt.secret %q is not set; set %s, or run with --set %s=file:PATH"):format(name, from, name)
  end
  local path = text:match "^file:(.*)"
  if path then
    local content, problem = paths.read(path)
    if not content then return nil, ("mt.secret %q: %s"):format(name, problem) end
    text = content:gsub("\r?\n$", "")
  end
  C.mt_mask_add(text, #text)
  now.given[text] = name
  return text
end

--- mt.secret; see init.lua.
---@param name string
---@return string
function M.secret(name)
  fault.expect("mt.secret: the name", name, "string")
  local text, problem = look_up(name)
  return text or fault.raise(problem)
end

--- The same for the host, which has found the name in a record.
---@param name string
---@return string
function M.recall(name)
  local text, problem = look_up(name)
  if not text then error(fault.new("JOB", "FATAL", problem), 0) end
  return text
end

--- What stands for a secret that could not be given, under `check`.
---@param name string
---@return string
function M.stand_in_secret(name)
  local text = "<" .. tostring(name) .. ">"
  now.given[text] = name
  return text
end

--- Whether mt.secret gave this value.
---@param text string
---@return boolean
function M.is_secret(text)
  return now.given[text] ~= nil
end

-- The first secret in a text from a place on, and of those the longest. One that is shorter than what
-- is masked is in every other text, by chance.
local function next_secret(text, at)
  local from, to, name
  for secret, its_name in pairs(now.given) do
    local a, b = nil, nil
    if #secret >= 4 then a, b = text:find(secret, at, true) end
    if a and (not from or a < from or a == from and b > to) then from, to, name = a, b, its_name end
  end
  return from, to, name
end

--- What a text consists of that has secrets in it: texts, and { secret = NAME } in place of each.
--- nil: it has none.
---@param text string
---@return (string|{ secret: string })[]?
function M.parts(text)
  if now.given[text] then return { { secret = now.given[text] } } end
  local parts, at = {}, 1
  local from, to, name = next_secret(text, 1)
  while from do
    if from > at then parts[#parts + 1] = text:sub(at, from - 1) end
    parts[#parts + 1], at = { secret = name }, to + 1
    from, to, name = next_secret(text, at)
  end
  if #parts == 0 then return nil end
  if at <= #text then parts[#parts + 1] = text:sub(at) end
  return parts
end

--- The text without the secrets in it.
---@param text string
---@return string
function M.mask(text)
  local bytes = core.cstring(text)
  return core.string(bytes, tonumber(C.mt_mask(bytes, #text)))
end

return M
