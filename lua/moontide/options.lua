-- SPDX-License-Identifier: Apache-2.0
--- Options as a job sets them: in order, as text, each with the line that set it.
--
-- Whether an option exists and what it may be is decided in one place, the tables of the core;
-- here a value becomes text, and an error that names an option finds its line again.
local config = require "moontide.config"
local core = require "moontide._core"
local fault = require "moontide.fault"
local json = require "moontide.values.json"
local object = require "moontide.object"
local suggest = require "moontide.suggest"
local value = require "moontide.values"

local M = {}

---@class mt.Option
---@field name string as given
---@field value string
---@field secret string? JSON that stands in records for a value with a secret in it
---@field at mt.At

-- Options whose text is JSON over topics; they may be given as a table.
local BY_TOPIC = {
  assign = true, startingoffsets = true, endingoffsets = true,
  startingoffsetsbytimestamp = true, endingoffsetsbytimestamp = true,
}

local function whole(v, what)
  local exact = type(v) == "number" and v == math.floor(v) and math.abs(v) <= 2 ^ 53
  if exact or type(v) == "cdata" then return value.text(v) end
  fault.raise(("%s is a whole number, not %s"):format(what,
    type(v) == "string" and ("the text %q"):format(v) or tostring(v)))
end

local function list_of_partitions(name, topic, list)
  local parts = {}
  for i, partition in ipairs(list) do
    parts[i] = whole(partition, ("%s: a partition of %q"):format(name, topic))
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

-- { [0] = 23, ["1"] = -2 } as {"0":23,"1":-2}. Without [0] a Lua list would begin at partition 1.
local function map_of_partitions(name, topic, map)
  if map[1] ~= nil and map[0] == nil then
    fault.raise(("%s: the offsets of %q begin at partition 1 here, Kafka's partitions at 0; "
      .. "write { [0] = …, … } or text keys { [\"1\"] = … }"):format(name, topic))
  end
  local by_number, numbers = {}, {}
  for key, offset in pairs(map) do
    local partition = tonumber(key)
    if not partition or partition < 0 or partition ~= math.floor(partition) then
      fault.raise(("%s: %q of %q is not a partition number"):format(name, tostring(key), topic))
    end
    if by_number[partition] then
      fault.raise(("%s: partition %d of %q is given twice"):format(name, partition, topic))
    end
    by_number[partition] = whole(offset, ("%s: partition %d of %q"):format(name, partition, topic))
    numbers[#numbers + 1] = partition
  end
  table.sort(numbers)
  for i, partition in ipairs(numbers) do
    numbers[i] = ('"%d":%s'):format(partition, by_number[partition])
  end
  return "{" .. table.concat(numbers, ",") .. "}"
end

local function topics_as_json(name, topics)
  for topic, of in pairs(topics) do
    if type(topic) ~= "string" or type(of) ~= "table" then
      fault.raise(("%s as a table has topics with tables: { orders = %s }"):format(name,
        name:lower() == "assign" and "{ 0, 1 }" or "{ [0] = 23, [1] = -2 }"))
    end
  end
  local parts = {}
  for i, topic in ipairs(suggest.keys(topics)) do
    local convert = name:lower() == "assign" and list_of_partitions or map_of_partitions
    parts[i] = json.quote(topic) .. ":" .. convert(name, topic, topics[topic])
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function as_text(name, v)
  local kind = type(v)
  if kind == "string" then
    if v:find "%z" then fault.raise(("option %q has a NUL byte in it"):format(name)) end
    return v
  end
  if kind == "number" or kind == "boolean" then return value.text(v) end
  if kind == "table" and BY_TOPIC[name:lower()] then return topics_as_json(name, v) end
  fault.raise(v == nil and ("option %q is set to nil"):format(name)
    or ("option %q takes text, a number or a boolean, not a %s"):format(name, kind))
end

local SECRET_WORDS = { "password", "secret", "jaas", "key%.pem$" }

-- A job file is kept in the checkpoint with its batches, so a secret must not stand in it.
local function refuse_literal_secret(name, text)
  for _, word in ipairs(SECRET_WORDS) do
    if name:lower():find(word) and not config.is_secret(text) then
      fault.raise(("option %q takes a secret, and a job file is kept in the checkpoint; write "
        .. "mt.secret \"NAME\" and run with --set NAME=file:PATH"):format(name))
    end
  end
end

-- A connection may be written out around its password, which is mt.secret's then.
local function refuse_literal_password(name, text, parts)
  if name:lower() ~= "connection" then return end
  local literal = {}
  for i, part in ipairs(parts or { text }) do literal[i] = type(part) == "string" and part or ";" end
  local shown = table.concat(literal):lower()
  if shown:find "%f[%a]pwd%s*=%s*[^;%s]" or shown:find "%f[%a]password%s*=%s*[^;%s]" then
    fault.raise(("option %q has a password in it, and a job file is kept in the checkpoint; write "
      .. "\"…;Pwd=\" .. mt.secret \"NAME\" and run with --set NAME=file:PATH"):format(name))
  end
end

-- Of a value with secrets in it.
local function reference(parts)
  return json.encode(#parts == 1 and parts[1] or json.array(parts))
end

--- Refuses what is no name for a query, a source or a sink. Names stand in records as JSON and
--- in C's strings, so they are UTF-8 without a NUL byte.
---@param what string the method that was given it
---@param name any
function M.expect_name(what, name)
  fault.expect(what, name, "string")
  if name == "" then fault.raise(what .. " is empty") end
  if name:find "%z" or not core.C.mt_utf8_valid(name, #name) then
    fault.raise(what .. " is not text: it has a NUL byte, or bytes that are not UTF-8")
  end
end

--- The list with one option more; the given list is left as it is.
---@param list mt.Option[]
---@param name any
---@param v any
---@return mt.Option[]
function M.add(list, name, v)
  fault.expect("the name of an option", name, "string")
  local longer = {}
  for i, option in ipairs(list) do longer[i] = option end
  local text = as_text(name, v)
  local parts = config.parts(text)
  refuse_literal_secret(name, text)
  refuse_literal_password(name, text, parts)
  longer[#longer + 1] = { name = name, value = text, secret = parts and reference(parts), at = fault.here() }
  return longer
end

--- The list with all options of a table more, in the order of their names.
---@param list mt.Option[]
---@param map any
---@return mt.Option[]
function M.add_all(list, map)
  fault.expect("options", map, "table")
  for name in pairs(map) do fault.expect("the name of an option", name, "string") end
  for _, name in ipairs(suggest.keys(map)) do list = M.add(list, name, map[name]) end
  return list
end

--- The option that counts: the last one set under this name, in any case.
---@param list mt.Option[]
---@param name string
---@return mt.Option?
function M.find(list, name)
  for i = #list, 1, -1 do
    if list[i].name:lower() == name:lower() then return list[i] end
  end
end

--- The list without an option.
---@param list mt.Option[]
---@param name string
---@return mt.Option[]
function M.without(list, name)
  local rest = {}
  for _, option in ipairs(list) do
    if option.name:lower() ~= name:lower() then rest[#rest + 1] = option end
  end
  return rest
end

-- The core's last failure, the option that it names, and that name.
local function failure(list, at)
  local text, _, name = core.failure()
  local option = name and M.find(list, name)
  return fault.at(text, option and option.at or at or fault.here()), option, name
end

-- True for a failure that would not be there if an option had not been left out: it asks for that one, or
-- for the one that was meant by it.
local function hangs_on(left_out, one, name)
  for _, gone in ipairs(left_out) do
    if one.words:lower():find(gone:lower(), 1, true) or name and suggest.nearest(gone, { name }) then return true end
  end
  return false
end

--- Raises the core's last failure: at the option's line when it names one, else at `at`. Under
--- `check` the others among the options that would be refused are noted, and nothing is raised where all
--- there is to say hangs on an option that was at fault before.
---@param list mt.Option[]
---@param at mt.At?
---@param takes fun(list: mt.Option[]): boolean tries a shorter list; false: the core failed again
---@param left_out string[]? names of options that were at fault before
function M.fail(list, at, takes, left_out)
  local found, gone = {}, { unpack(left_out or {}) }
  repeat
    local one, option, name = failure(list, at)
    if option or not hangs_on(gone, one, name) then found[#found + 1] = one end
    if not option or not fault.noted then break end
    list, gone[#gone + 1] = M.without(list, option.name), option.name
  until takes(list)
  for i = 2, #found do table.insert(fault.noted, found[i]) end
  if found[1] then error(found[1], 0) end
end

--- Under `check`: an object one of whose options was at fault; the others are looked at all the same.
---@generic T: table
---@param object_ T with _left_out
---@param name any of the option, or a table of several
---@return T
function M.leave_out(object_, name)
  local names = { unpack(object_._left_out or {}) }
  for key in pairs(type(name) == "table" and name or { [name or ""] = true }) do
    if type(key) == "string" and key ~= "" then names[#names + 1] = key end
  end
  return object.with(object_, { _left_out = names })
end

return M
