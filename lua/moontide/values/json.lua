-- SPDX-License-Identifier: Apache-2.0
--- JSON text without rounding: what jobs encode, and what Moontide itself writes.
--
-- A row is an object in the order of its schema; TIMESTAMP is ISO text, BINARY base64, as Spark's
-- to_json has them, so that fromJson reads the same values back. A plain table's keys are sorted, so
-- equal content is equal text (and an equal hash). lua-cjson writes 14 digits and refuses int64.
local core = require "moontide._core"
local rows = require "moontide.rows.row"
local value = require "moontide.values"
local C = core.C

local M = {}

local DEPTH = 1000 -- Spark's reader stops there too

---@class mt.JsonArray: table written as an array even when it is empty
local Array = {}

--- Marks a table as an array.
---@param list any[]
function M.array(list)
  return setmetatable(list, Array)
end

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

--- A JSON string, quotes included. The text is UTF-8 already.
---@param s string
---@return string
function M.quote(s)
  return '"' .. s:gsub('[%c"\\]', function(c)
    return ESCAPES[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local function refuse(path, words, ...)
  error(("mt.json.encode: %s: %s"):format(path == "" and "the value" or path, words:format(...)), 0)
end

local function text_of(s, path)
  if not C.mt_utf8_valid(s, #s) then refuse(path, "the text is not UTF-8; JSON cannot hold other bytes") end
  return M.quote(s)
end

local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function base64(bytes)
  local parts = {}
  for i = 1, #bytes, 3 do
    local a, b, c = bytes:byte(i, i + 2)
    local n = a * 65536 + (b or 0) * 256 + (c or 0)
    for k = 3, 0, -1 do
      local digit = math.floor(n / 64 ^ k) % 64 + 1
      parts[#parts + 1] = (k == 1 and not b or k == 0 and not c) and "=" or DIGITS:sub(digit, digit)
    end
  end
  return table.concat(parts)
end

local printed = core.new "char[64]"

local function float_text(v)
  if v ~= v or v - v ~= 0 then return v ~= v and '"NaN"' or v > 0 and '"Infinity"' or '"-Infinity"' end
end

-- Types whose value is not told from the value alone.
local TYPED = {
  TIMESTAMP = function(v)
    return '"' .. core.string(printed, C.mt_timestamp_print_iso(v, printed)) .. '"'
  end,
  BINARY = function(v) return '"' .. base64(v) .. '"' end,
  FLOAT = function(v)
    return float_text(v) or core.string(printed, C.mt_float_print(v, printed))
  end,
  DOUBLE = function(v) return float_text(v) or value.text(v) end,
}

local function scalar(v, path)
  local kind = type(v)
  if kind == "string" then return text_of(v, path) end
  if kind == "boolean" then return tostring(v) end
  if kind == "number" and v - v == 0 or value.is_decimal(v) or value.is_int64(v) then return value.text(v) end
  return refuse(path, kind == "number" and "JSON has no %s" or "a %s is no JSON", kind == "number" and value.text(v)
    or kind)
end

local encode

local function object(parts, names, path, of)
  for i, name in ipairs(names) do
    parts[i] = M.quote(name) .. ":" .. of(name, path .. "." .. name)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function encode_fields(v, fields, path, depth)
  local names, by_name = {}, {}
  for i, field in ipairs(fields) do names[i], by_name[field.name] = field.name, field end
  return object({}, names, path, function(name, at) return encode(v[name], by_name[name], at, depth) end)
end

local function encode_list(list, n, element, path, depth)
  local parts = {}
  for i = 1, n do parts[i] = encode(list[i], element, ("%s[%d]"):format(path, i), depth) end
  return "[" .. table.concat(parts, ",") .. "]"
end

-- A key as the text of an object's name.
local function name_of(key, field, path)
  if type(key) == "string" and not (field and TYPED[field.type]) then
    text_of(key, path)
    return key
  end
  if type(key) == "table" then refuse(path, "a key is a table; JSON's names are text") end
  local text = encode(key, field, path, 0)
  return (text:gsub('^"(.*)"$', "%1"))
end

-- Keys of JSON in the order of `keys`; of two that are the same text one would be lost.
local function encode_map(map, keys, pair, path, depth)
  local names, key_of = {}, {}
  for i, key in ipairs(keys) do
    local name = name_of(key, pair and pair[1], path)
    if key_of[name] ~= nil then refuse(path, "two keys are both %s as text", M.quote(name)) end
    names[i], key_of[name] = name, key
  end
  if not pair then table.sort(names) end
  return object({}, names, path, function(name, at)
    return encode(map[key_of[name]], pair and pair[2], at, depth)
  end)
end

-- The number of elements when a plain table is a list: it has whole keys from 1, and maybe n.
local function list_length(t, path)
  local found, last, others = 0, 0, false
  for key in next, t do
    if type(key) == "number" and key >= 1 and key == math.floor(key) then
      found, last = found + 1, math.max(last, key)
    elseif key ~= "n" then
      others = true
    end
  end
  if found == 0 then return getmetatable(t) == Array and 0 or nil end
  if others then refuse(path, "a table with elements and with names is neither array nor object") end
  local n = rawget(t, "n") or last
  if last > n or rawget(t, "n") == nil and found < last then
    refuse(path, "there is an element %d and a nil before it; write mt.null there, or {…, n = %d}", last, last)
  end
  return n
end

local function encode_table(v, path, depth)
  if depth > DEPTH then refuse("", "it is more than %d tables deep, or holds itself", DEPTH) end
  local fields, shape = rows.fields_of(v), value.shape_of(v)
  if fields then return encode_fields(v, fields, path, depth) end
  local inside = shape and shape.field and shape.field.children
  if shape and shape.kind == "STRUCT" then return encode_fields(v, inside, path, depth) end
  if shape and shape.kind == "ARRAY" then return encode_list(v, shape.n, inside and inside[1], path, depth) end
  if shape then return encode_map(v, shape.keys, inside[1].children, path, depth) end
  if getmetatable(v) ~= nil and getmetatable(v) ~= Array then refuse(path, "%s is no JSON", tostring(v)) end
  local n = list_length(v, path)
  if n then return encode_list(v, n, nil, path, depth) end
  local keys = {}
  for key in next, v do keys[#keys + 1] = key end
  return encode_map(v, keys, nil, path, depth)
end

function encode(v, field, path, depth)
  if type(v) == "nil" or v == value.NULL then return "null" end
  if type(v) == "table" then return encode_table(v, path, depth + 1) end
  local typed = field and TYPED[field.type]
  if typed then return typed(v) end
  return scalar(v, path)
end

--- One line of JSON.
---@param v any row, STRUCT, ARRAY or MAP of one, table, string, number, int64, decimal, boolean; nil
--- and mt.null are null. A table is an array when its keys are 1, 2, … ({…, n = 3} with nulls);
--- mt.array(0) is the empty one.
---@return string
function M.encode(v)
  local text = encode(v, nil, "", 0)
  return text
end

return M
