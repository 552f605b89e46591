-- SPDX-License-Identifier: Apache-2.0
--- JSON text as values of Lua, exactly, or an error that names the character.
--
-- lua-cjson and jansson make doubles of whole numbers beyond 2^53, or lose the difference between
-- an empty array and an empty object. So this reads the text itself: a scanner over string.find,
-- which costs about as much as building the tables does.
local core = require "moontide._core"
local value = require "moontide.values"
local C = core.C

local M = {}

local DEPTH = 1000 -- as json.lua

local find, sub, byte = string.find, string.sub, string.byte

local function refuse(text, at, words)
  local _, before = sub(text, 1, at - 1):gsub("[^\128-\191]", "")
  error(("mt.json.decode: character %d: %s"):format(before + 1, words), 0)
end

-- What stands at a place, for a message.
local function found(text, at)
  local here = text:match("^[%w%-+.]+", at) or text:match("^[^\128-\191][\128-\191]*", at)
  if not here then return "the end" end
  return '"' .. here:sub(1, 40) .. '"'
end

local function expected(text, at, what)
  refuse(text, at, ("expected %s, found %s"):format(what, found(text, at)))
end

local function skip(text, at)
  local _, last = find(text, "^[ \t\r\n]*", at)
  return last + 1
end

-- ---- numbers

local function number(text, at)
  local _, last = find(text, "^-?%d+", at)
  if not last or find(text, "^-?0%d", at) then expected(text, at, "a value") end
  local _, fraction = find(text, "^%.%d+", last + 1)
  local _, power = find(text, "^[eE][+-]?%d+", (fraction or last) + 1)
  local stop = power or fraction or last
  local digits = sub(text, at, stop)
  if find(text, "^[%w.+-]", stop + 1) then refuse(text, at, ("%s is no number"):format(found(text, at))) end
  local v
  if fraction or power then
    v = tonumber(digits)
    if not v or v - v ~= 0 then refuse(text, at, ("%s is beyond a double"):format(digits)) end
  else
    v = digits == "-0" and -0.0 or value.int64(digits) or value.decimal(digits)
    if value.is_int64(v) then v = value.integer(v) end
    if not v then refuse(text, at, "a whole number of more than 38 digits; read it as text") end
  end
  return v, stop + 1
end

-- ---- strings

local ESCAPES = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function utf8(code)
  if code < 0x80 then return string.char(code) end
  local floor = math.floor
  if code < 0x800 then return string.char(0xc0 + floor(code / 64), 0x80 + code % 64) end
  if code < 0x10000 then
    return string.char(0xe0 + floor(code / 4096), 0x80 + floor(code / 64) % 64, 0x80 + code % 64)
  end
  return string.char(0xf0 + floor(code / 262144), 0x80 + floor(code / 4096) % 64, 0x80 + floor(code / 64) % 64,
    0x80 + code % 64)
end

-- The character of an escape whose backslash is at `at`, and where the text goes on.
local function escape(text, at)
  local plain = ESCAPES[sub(text, at + 1, at + 1)]
  if plain then return plain, at + 2 end
  local digits = text:match("^u(%x%x%x%x)", at + 1)
  if not digits then refuse(text, at, "no such escape") end
  local code = tonumber(digits, 16)
  if code < 0xd800 or code > 0xdfff then return utf8(code), at + 6 end
  local low = text:match("^\\u([dD][c-fC-F]%x%x)", at + 6)
  if code > 0xdbff or not low then refuse(text, at, "half a character") end
  return utf8(0x10000 + (code - 0xd800) * 1024 + tonumber(low, 16) - 0xdc00), at + 12
end

local function string_at(text, at)
  local from, parts = at + 1, nil
  while true do
    local stop = find(text, '["\\%c]', from)
    while stop and byte(text, stop) == 127 do stop = find(text, '["\\%c]', stop + 1) end
    if not stop then refuse(text, at, "a text that does not end") end
    local mark = byte(text, stop)
    if mark == 34 then
      local last = sub(text, from, stop - 1)
      return parts and table.concat(parts) .. last or last, stop + 1
    end
    if mark ~= 92 then refuse(text, stop, "a control character in a text; write it as an escape") end
    parts = parts or {}
    parts[#parts + 1] = sub(text, from, stop - 1)
    parts[#parts + 1], from = escape(text, stop)
  end
end

-- ---- tables

local parse

local function array(text, at, depth)
  local list, n = {}, 0
  at = skip(text, at + 1)
  if byte(text, at) == 93 then return value.array(0), at + 1 end
  while true do
    n = n + 1
    list[n], at = parse(text, at, depth)
    at = skip(text, at)
    local mark = byte(text, at)
    if mark == 93 then return list, at + 1 end
    if mark ~= 44 then expected(text, at, "',' or ']'") end
    at = skip(text, at + 1)
  end
end

local function object(text, at, depth)
  local map = {}
  at = skip(text, at + 1)
  if byte(text, at) == 125 then return map, at + 1 end
  while true do
    if byte(text, at) ~= 34 then expected(text, at, "a name in quotes") end
    local name
    name, at = string_at(text, at)
    at = skip(text, at)
    if byte(text, at) ~= 58 then expected(text, at, "':'") end
    map[name], at = parse(text, skip(text, at + 1), depth)
    at = skip(text, at)
    local mark = byte(text, at)
    if mark == 125 then return map, at + 1 end
    if mark ~= 44 then expected(text, at, "',' or '}'") end
    at = skip(text, at + 1)
  end
end

local WORDS = { ["true"] = true, ["false"] = false, null = value.NULL }

function parse(text, at, depth)
  local mark = byte(text, at)
  if mark == 34 then return string_at(text, at) end
  if mark == 123 or mark == 91 then
    if depth >= DEPTH then refuse(text, at, ("more than %d arrays and objects deep"):format(DEPTH)) end
    return (mark == 123 and object or array)(text, at, depth + 1)
  end
  local word = text:match("^%a+", at)
  local v = WORDS[word or ""]
  if v ~= nil then return v, at + #word end
  return number(text, at)
end

--- The value of JSON text: objects and arrays are tables (an empty array is mt.array(0)), null is
--- mt.null, whole numbers are exact (int64 beyond 2^53, a decimal beyond int64), others doubles. Of
--- two equal names the last counts.
---@param text string
---@return any
function M.decode(text)
  if type(text) ~= "string" then
    error(("mt.json.decode takes text, not %s"):format(text == nil and "nil" or "a " .. type(text)), 2)
  end
  if not C.mt_utf8_valid(text, #text) then error("mt.json.decode: the text is not UTF-8", 0) end
  local v, at = parse(text, skip(text, 1), 0)
  at = skip(text, at)
  if at <= #text then expected(text, at, "the end") end
  return v
end

return M
