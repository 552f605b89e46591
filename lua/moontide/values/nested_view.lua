-- SPDX-License-Identifier: Apache-2.0
--- Nested values out of columns: copies of their own, with a metatable that knows their shape.
--
-- A list of Lua cannot say that its last element is null, nor a table in which order a map had its
-- keys; so a copy's metatable does (`shape`). An ARRAY is a plain table underneath: `#`, ipairs and
-- the JIT see it as one, which a proxy would not allow. The rest of the program asks `shape_of`.
local core = require "moontide._core"
local decimal = require "moontide.values.decimal"
local exact = require "moontide.values.exact"
local times = require "moontide.values.times"

local M = {}

local int64, uint64 = core.typeof "int64_t", core.typeof "uint64_t"

---@class mt.Shape what a nested value's metatable knows
---@field kind "STRUCT"|"ARRAY"|"MAP"
---@field field mt.Field? of the column it came from
---@field n integer? elements of an ARRAY, nulls included
---@field keys any[]? of a MAP, in its order
---@field has_big boolean? some of them are cdata

local shapes = setmetatable({}, { __mode = "k" }) -- metatable -> shape

--- The shape of a nested value; nil for any other.
---@param v any
---@return mt.Shape?
function M.shape_of(v)
  local meta = getmetatable(v)
  return meta and shapes[meta]
end
local shape_of = M.shape_of

local function read_only(_, key)
  error(("a value of a row is read-only: [%s] cannot be set; mt.totable(value) gives a table to change")
    :format(exact.text(key)), 2)
end

-- Metatables of lists by length: a batch has few lengths, and a metatable is made once for each.
local function list_metas(field, meta)
  local made, n_made = {}, 0
  return function(n)
    local found = made[n]
    if found then return found end
    if n_made >= 1000 then made, n_made = {}, 0 end
    found = meta()
    shapes[found] = { kind = "ARRAY", field = field, n = n }
    made[n], n_made = found, n_made + 1
    return found
  end
end

local function list_meta(field, n)
  field.list_metas = field.list_metas or list_metas(field, function()
    return { __newindex = read_only, __tostring = M.show }
  end)
  local meta = field.list_metas(n)
  return meta
end

local built = list_metas(nil, function() return { __tostring = M.show } end)

--- A list of n elements to write into an ARRAY column or as JSON; nil is null.
---@param n integer
---@return any[]
function M.array(n, ...)
  if type(n) ~= "number" or n < 0 or n ~= math.floor(n) then
    error("mt.array takes how many elements there are, and the elements: mt.array(3, 1, nil, 2)", 2)
  end
  if select("#", ...) > n then
    error(("mt.array: %d elements are given for %d"):format(select("#", ...), n), 2)
  end
  local list = setmetatable({ ... }, built(n))
  return list
end

local function struct_meta(field)
  if not field.copy_meta then
    local known = {}
    for _, child in ipairs(field.children) do known[child.name] = true end
    field.copy_meta = {
      __index = function(_, key)
        if known[key] then return nil end
        error(("no field %q in %s"):format(tostring(key), field.name), 2)
      end,
      __newindex = read_only, __tostring = M.show,
    }
    shapes[field.copy_meta] = { kind = "STRUCT", field = field }
  end
  return field.copy_meta
end

local function is_big(v)
  return type(v) == "cdata"
end

-- 5LL finds 5: what is a number when it is read is one as a key.
local function plain_key(key)
  if core.istype(int64, key) and key >= -9007199254740992LL and key <= 9007199254740992LL
      or core.istype(uint64, key) and key <= 9007199254740992ULL then
    key = tonumber(key)
  end
  return key
end

-- Keys that are cdata (int64, decimals) are found by value: a table of Lua knows them by identity.
local function map_index(copy, key)
  local shape = shape_of(copy)
  local keys, found = shape.keys, nil
  if is_big(key) then
    key = plain_key(key)
    if not is_big(key) then found = rawget(copy, key) end
  end
  for i = 1, shape.has_big and found == nil and key ~= nil and #keys or 0 do
    if is_big(keys[i]) and keys[i] == key then found = rawget(copy, keys[i]) end
  end
  return found
end

-- No closures here: a row function that reads a map would not be compiled for them.
local function map_meta(field, keys)
  local has_big = false
  for i = 1, #keys do has_big = has_big or is_big(keys[i]) end
  local meta = { __index = map_index, __newindex = read_only, __tostring = M.show }
  shapes[meta] = { kind = "MAP", field = field, keys = keys, has_big = has_big }
  return meta
end

-- ---- reading

--- True when the value is null at `row`.
---@param array ffi.cdata* struct ArrowArray
---@param row integer from 0
---@return boolean
function M.is_null(array, row)
  local bits = core.cast("const uint8_t *", array.buffers[0])
  if array.null_count == 0 or bits == nil then return false end
  local i = tonumber(array.offset) + row
  return bit.band(bit.rshift(bits[bit.rshift(i, 3)], bit.band(i, 7)), 1) == 0
end

local function list_bounds(array, row)
  local offsets = core.cast("const int32_t *", array.buffers[1])
  local i = tonumber(array.offset) + row
  return offsets[i], offsets[i + 1]
end

local function bytes_at(_, array, row)
  local from, to = list_bounds(array, row)
  local bytes = core.string(core.cast("const char *", array.buffers[2]) + from, to - from)
  return bytes
end

local function fixed(ctype, convert)
  local pointer = core.typeof(ctype)
  return function(_, array, row)
    local v = core.cast(pointer, array.buffers[1])[tonumber(array.offset) + row]
    return convert and convert(v) or v
  end
end

local function same(v) return v end
local readers = {
  BOOLEAN = function(_, array, row)
    local i = tonumber(array.offset) + row
    local bits = core.cast("const uint8_t *", array.buffers[1])
    return bit.band(bit.rshift(bits[bit.rshift(i, 3)], bit.band(i, 7)), 1) ~= 0
  end,
  TINYINT = fixed("const int8_t *", same),
  SMALLINT = fixed("const int16_t *", same),
  INT = fixed("const int32_t *", same),
  BIGINT = fixed("const int64_t *", exact.integer),
  FLOAT = fixed("const float *", same),
  DOUBLE = fixed("const double *", same),
  STRING = bytes_at, BINARY = bytes_at,
  DATE = fixed("const int32_t *", times.day_text),
  TIMESTAMP = fixed("const int64_t *", exact.integer),
  DECIMAL = function(field, array, row)
    local values = core.cast("const uint64_t *", array.buffers[1])
    local d = decimal.decimal_at(values, tonumber(array.offset) + row, field.scale)
    return d
  end,
  STRUCT = function(field, array, row)
    local copy = {}
    for k, child in ipairs(field.children) do
      copy[child.name] = M.read(child, array.children[k - 1], tonumber(array.offset) + row)
    end
    setmetatable(copy, struct_meta(field))
    return copy
  end,
  ARRAY = function(field, array, row)
    local from, to = list_bounds(array, row)
    local copy = {}
    for i = from, to - 1 do copy[i - from + 1] = M.read(field.children[1], array.children[0], i) end
    setmetatable(copy, list_meta(field, to - from))
    return copy
  end,
  MAP = function(field, array, row)
    local from, to = list_bounds(array, row)
    local entries, pair = array.children[0], field.children[1].children
    local copy, keys = {}, {}
    for i = from, to - 1 do
      local at = tonumber(entries.offset) + i
      keys[#keys + 1] = M.read(pair[1], entries.children[0], at)
      copy[keys[#keys]] = M.read(pair[2], entries.children[1], at)
    end
    setmetatable(copy, map_meta(field, keys))
    return copy
  end,
}

--- The value of a column at `row` as Lua has it; nested ones as copies.
---@param field mt.Field
---@param array ffi.cdata* struct ArrowArray *
---@param row integer
function M.read(field, array, row)
  if M.is_null(array, row) then return nil end
  local v = readers[field.type](field, array, row)
  return v
end

local same_value

-- True when the keys of two maps, in their orders, and what they stand for are the same.
local function same_map(a, b, keys_a, keys_b)
  for i = 1, math.max(#keys_a, #keys_b) do
    if keys_a[i] == nil or keys_b[i] == nil or not same_value(keys_a[i], keys_b[i]) then return false end
    if not same_value(rawget(a, keys_a[i]), rawget(b, keys_b[i])) then return false end
  end
  return true
end

local function same_table(a, b)
  local of_a, of_b = shape_of(a), shape_of(b)
  if not of_a or not of_b or of_a.kind ~= of_b.kind or of_a.n ~= of_b.n then return false end
  local more = 0
  for _ in next, a do more = more + 1 end
  for _ in next, b do more = more - 1 end
  if more ~= 0 then return false end
  if of_a.keys then
    local is_same = same_map(a, b, of_a.keys, of_b.keys)
    return is_same
  end
  for key, v in next, b do
    if not same_value(rawget(a, key), v) then return false end
  end
  return true
end

function same_value(a, b)
  if type(a) ~= type(b) then return false end
  local is_same = a == b or a ~= a and b ~= b
  if type(a) == "table" then is_same = same_table(a, b) end
  return is_same
end

--- True when a value that M.read gave is still what the column holds.
---@param v any
---@param field mt.Field
---@param array ffi.cdata* struct ArrowArray *
---@param row integer
---@return boolean
function M.is_as_read(v, field, array, row)
  local is_same = same_value(v, M.read(field, array, row))
  return is_same
end

-- ---- asking

--- How many elements an ARRAY or MAP value has, nulls included.
---@param list table
---@return integer
function M.len(list)
  local shape = shape_of(list)
  local n = shape and (shape.n or shape.keys and #shape.keys)
  if not n then
    if type(list) ~= "table" then error(("mt.len takes a list, not %s"):format(exact.text(list)), 2) end
    n = #list
  end
  return n
end

local function next_item(walk, i)
  if i < walk.n then return i + 1, walk.list[i + 1] end
end

--- Walks an ARRAY value with its nulls: `for i, v in mt.items(a) do`.
---@param list table
function M.items(list)
  local n = M.len(list)
  return next_item, { list = list, n = n }, 0
end

--- Names (or keys) of a STRUCT or MAP value in its own order, or nil when it is another table.
---@param copy any
---@return any[]?
function M.names(copy)
  local shape = shape_of(copy)
  if not shape or shape.kind == "ARRAY" then return nil end
  if shape.keys then return shape.keys end
  local found = {}
  for k, child in ipairs(shape.field.children) do found[k] = child.name end
  return found
end

-- ---- text for people

local function quoted(text)
  local cut = text:sub(1, 200):gsub("[%c\\\"]", function(c)
    return (c == "\\" or c == '"') and "\\" .. c or ("\\x%02x"):format(c:byte())
  end)
  return '"' .. cut .. (#text > 200 and "…" or "") .. '"'
end

local function sorted_keys(t, n)
  local keys = {}
  for key in next, t do
    if type(key) ~= "number" or key < 1 or key > n or key ~= math.floor(key) then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return type(a) < type(b) end
    if type(a) == "number" or type(a) == "string" then return a < b end
    return exact.text(a) < exact.text(b)
  end)
  return keys
end

local show

-- "{ a = 1, [2] = "x", null }" of the first n elements and these keys.
local function table_text(t, n, keys, depth)
  local parts = {}
  for i = 1, n do parts[i] = show(t[i], depth) end
  for _, key in ipairs(keys) do
    local name = type(key) == "string" and key:find "^[%a_][%w_]*$" and key or "[" .. show(key, depth) .. "]"
    parts[#parts + 1] = name .. " = " .. show(t[key], depth)
  end
  return #parts == 0 and "{}" or "{ " .. table.concat(parts, ", ") .. " }"
end

function show(v, depth)
  local shown
  local shape = shape_of(v)
  if type(v) == "string" then
    shown = quoted(v)
  elseif type(v) == "nil" then
    shown = "null"
  elseif type(v) ~= "table" then
    shown = exact.text(v)
  elseif not shape and getmetatable(v) ~= nil then
    shown = tostring(v)
  elseif depth > 20 then
    shown = "…"
  else
    local n = shape and (shape.n or 0) or #v
    local keys = shape and (shape.kind == "ARRAY" and {} or M.names(v)) or sorted_keys(v, n)
    shown = table_text(v, n, keys, depth + 1)
  end
  return shown
end

--- A value as people read it: text in quotes, null, nested ones whole.
---@param v any
---@return string
function M.show(v)
  local shown = show(v, 0)
  return shown
end

--- The exact text of a value: as M.text, but tables whole.
---@param v any
---@return string
function M.str(v)
  local shown = type(v) == "table" and M.show(v) or exact.text(v)
  return shown
end

--- A copy without a shape, to change and to keep; a list that ends in null, or has any, keeps its
--- length.
---@param v any
---@return any
function M.plain(v)
  local shape = shape_of(v)
  if not shape then return v end
  local copy = {}
  for key, inner in next, v do copy[key] = M.plain(inner) end
  if shape.n and #copy ~= shape.n then setmetatable(copy, built(shape.n)) end
  for i = 1, shape.n or 0 do
    if copy[i] == nil then setmetatable(copy, built(shape.n)) end
  end
  return copy
end

return M
