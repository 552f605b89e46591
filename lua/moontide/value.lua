-- SPDX-License-Identifier: Apache-2.0
--- Values without rounding: exact text of numbers, decimals, dates and times, nested copies.
--
-- A number of Lua is exact up to 2^53; a 64-bit integer beyond is int64 cdata. LuaJIT's own
-- tostring writes 14 digits and marks cdata with "LL"; what is printed here reads back equal.
--
-- Row functions call what is here, and they share it. When the JIT has given up on one row function
-- and that runs interpreted, a helper gets hot by itself and is compiled by itself, which fails for
-- a function that ends in a call (`return f(x)`): after some tries it is marked, and then no row
-- function that calls it is compiled any more. So the helpers here end in a value.
local core = require "moontide._core"
local C = core.C

local M = {}

local raw_tostring, format, floor = tostring, string.format, math.floor
local LIMIT = 2 ^ 53

local int64, uint64 = core.typeof "int64_t", core.typeof "uint64_t"

--- What `mt.null` is: null where nil cannot stand.
M.NULL = setmetatable({}, {
  __tostring = function() return "null" end,
  __newindex = function() error("mt.null is not to be assigned to", 2) end,
})

local function number_text(v)
  local shown
  if v == floor(v) and v >= -LIMIT and v <= LIMIT and v ~= 0 then
    shown = format("%d", v)
    return shown
  end
  shown = raw_tostring(v)
  if tonumber(shown) == v or v ~= v then return shown end
  shown = format("%.15g", v)
  if tonumber(shown) == v then return shown end
  shown = format("%.16g", v)
  return tonumber(shown) == v and shown or format("%.17g", v)
end

--- The value as text that reads back equal; `tostring` of a job.
---@param v any
---@return string
function M.text(v)
  local kind = type(v)
  local shown
  if kind == "number" then
    shown = number_text(v)
  elseif kind == "cdata" and (core.istype(int64, v) or core.istype(uint64, v)) then
    shown = raw_tostring(v):gsub("U?LL$", "")
  else
    shown = raw_tostring(v)
  end
  return shown
end
local text = M.text

-- ---- string.format with exact %s

local spots_of = {} -- format text -> positions of its %s arguments, or false
local spots_n = 0

local function find_spots(fmt)
  local spots, at = {}, 0
  for kind in fmt:gsub("%%%%", ""):gmatch "%%[%-+ #0%d%.]*(%a)" do
    at = at + 1
    if kind == "s" then spots[#spots + 1] = at end
  end
  if spots_n > 1000 then spots_of, spots_n = {}, 0 end
  spots_n = spots_n + 1
  spots_of[fmt] = #spots > 0 and spots
  return spots_of[fmt]
end

--- string.format whose %s writes numbers and 64-bit integers exactly.
---@param fmt string
---@return string
function M.format(fmt, ...)
  local spots = spots_of[fmt]
  if spots == nil then spots = type(fmt) == "string" and find_spots(fmt) end
  local shown
  if not spots then
    shown = format(fmt, ...)
    return shown
  end
  local n, values = select("#", ...), { ... }
  for _, at in ipairs(spots) do
    if at <= n then values[at] = text(values[at]) end
  end
  shown = format(fmt, unpack(values, 1, n))
  return shown
end

-- ---- decimals

---@class mt.Decimal exact value of a DECIMAL column; passes through, compares, prints
local Decimal = core.typeof "struct { uint64_t half[2]; int32_t scale; }"
local printed = core.new "char[64]"

local function decimal_text(d)
  local shown = core.string(printed, C.mt_decimal_print(d.half, d.scale, printed))
  return shown
end

--- Reads decimal text ("-12.50") with as many digits after the point as it has.
---@param digits string
---@return mt.Decimal? nil when it is not plain decimal text of at most 38 digits
function M.decimal(digits)
  local fraction = digits:match "^%s*[+-]?%d+%.?(%d*)%s*$" or digits:match "^%s*[+-]?%.(%d+)%s*$"
  if not fraction or #fraction > 38 then return nil end
  local d = Decimal()
  d.scale = #fraction
  return C.mt_decimal_parse(digits, #digits, 38, #fraction, d.half) == 0 and d or nil
end

-- A side of a comparison as a decimal; nil when it is not comparable at all. `level`: of the script.
local function comparable(v, level)
  local d
  if core.istype(Decimal, v) then return v end
  if type(v) == "number" then
    if v ~= floor(v) or v < -LIMIT or v > LIMIT then
      error(("a decimal does not compare with the number %s, which may be rounded; write it as text: %q")
        :format(text(v), text(v)), level)
    end
    d = M.decimal(format("%d", v))
  elseif core.istype(int64, v) or core.istype(uint64, v) then
    d = M.decimal(text(v))
  elseif type(v) == "string" then
    d = M.decimal(v) or error(("%q is not a decimal"):format(v), level)
  end
  return d
end

local function compare(a, b)
  local x, y = comparable(a, 4), comparable(b, 4)
  if not x or not y then
    local other = b
    if not x then other = a end
    error(("attempt to compare a decimal with %s"):format(other == nil and "nil" or type(other)), 3)
  end
  local order = C.mt_decimal_compare(x.half, x.scale, y.half, y.scale)
  return order
end

local function later()
  error("arithmetic with decimals is not here yet; compare it, pass it on, or use tostring(value)", 2)
end

core.metatype(Decimal, {
  __tostring = decimal_text,
  __concat = function(a, b) return text(a) .. text(b) end,
  __eq = function(a, b)
    local x, y = comparable(a, 3), comparable(b, 3)
    -- `x ~= nil` would ask this function again
    return x and y and C.mt_decimal_compare(x.half, x.scale, y.half, y.scale) == 0 or false
  end,
  __lt = function(a, b) return compare(a, b) < 0 end,
  __le = function(a, b) return compare(a, b) <= 0 end,
  __add = later, __sub = later, __mul = later, __div = later, __mod = later, __pow = later,
  __unm = later,
})
M.Decimal = Decimal

---@param v any
---@return boolean
function M.is_decimal(v)
  return type(v) == "cdata" and core.istype(Decimal, v)
end

--- The decimal at values[2i], values[2i+1].
---@return mt.Decimal
function M.decimal_at(values, i, scale)
  local d = Decimal()
  d.half[0], d.half[1], d.scale = values[2 * i], values[2 * i + 1], scale
  return d
end

--- True when -limit <= v <= limit, both at v's scale.
---@param v mt.Decimal
---@param limit ffi.cdata* uint64_t[2], positive
---@return boolean
function M.is_within(v, limit)
  if C.mt_decimal_compare(v.half, 0, limit, 0) > 0 then return false end
  local negative = Decimal()
  negative.half[0] = -limit[0]
  negative.half[1] = -limit[1] - (limit[0] ~= 0 and 1 or 0)
  return C.mt_decimal_compare(v.half, 0, negative.half, 0) >= 0
end

--- As DECIMAL(precision, scale) exactly, or nil and why not.
---@return mt.Decimal?, string?
function M.decimal_as(v, precision, scale)
  local digits = type(v) == "string" and v or text(v)
  local d = Decimal()
  d.scale = scale
  local answer = C.mt_decimal_parse(digits, #digits, precision, scale, d.half)
  if answer == 0 then return d end
  if answer == 1 then return nil, ("%s has more than %d digits after the point"):format(digits, scale) end
  if answer == 2 then return nil, ("%s has too many digits"):format(digits) end
  return nil, ("%q is not a decimal"):format(digits)
end

-- ---- 64-bit integers, dates, times

--- A number within ±2^53, else the int64 itself.
function M.integer(v)
  if v >= -9007199254740992LL and v <= 9007199254740992LL then v = tonumber(v) end
  return v
end

--- Decimal text of a 64-bit integer, or nil.
---@param digits string
---@return number|ffi.cdata*|nil
function M.int64(digits)
  local sign, body = digits:match "^%s*([+-]?)0*(%d+)%s*$"
  if not body or #body > 19 then return nil end
  if #body == 19 and body > (sign == "-" and "9223372036854775808" or "9223372036854775807") then
    return nil
  end
  local v = #body <= 15 and tonumber(sign .. body)
  if v then return v end
  v = 0LL
  for i = 1, #body do v = v * 10 - (body:byte(i) - 48) end
  return sign == "-" and v or -v
end

--- Days since 1970 of "YYYY-MM-DD", or nil.
---@param day string
---@return integer?
function M.days(day)
  if not day:find "^[+-]?%d%d%d%d+%-%d%d%-%d%d$" then return nil end
  local days = core.new "int32_t[1]"
  return C.mt_date_parse(day, #day, days) and days[0] or nil
end

---@param days integer since 1970
---@return string "YYYY-MM-DD"
function M.day_text(days)
  local shown = core.string(printed, C.mt_date_print(days, printed))
  return shown
end

local DAY = 86400 * 1000000
local names, names_n = {}, 0 -- day number -> text: mt.date is called once a row

--- The UTC day of a time.
---@param ts number|ffi.cdata*|nil microseconds since 1970; nil (null) gives nil
---@return string? "YYYY-MM-DD"
function M.date(ts)
  local day
  if type(ts) == "number" then
    day = floor(ts / DAY)
    -- the quotient is rounded: an instant just below midnight must not become the next day
    if day * DAY > ts then day = day - 1 end
  elseif ts == nil or ts == M.NULL then
    return nil
  elseif core.istype(int64, ts) then
    local whole = ts / 86400000000LL
    if whole * 86400000000LL > ts then whole = whole - 1 end
    day = tonumber(whole)
  end
  if not day or day < -2 ^ 31 or day >= 2 ^ 31 then
    error(("mt.date takes microseconds since 1970 (a TIMESTAMP), not %s"):format(
      type(ts) == "string" and "text; read it with mt.timestamp first" or text(ts)), 2)
  end
  local name = names[day]
  if name then return name end
  if names_n >= 10000 then names, names_n = {}, 0 end
  names[day], names_n = M.day_text(day), names_n + 1
  return names[day]
end

--- Microseconds since 1970 of ISO text that names its zone, or nil.
---@param iso string
---@return number|ffi.cdata*|nil
function M.micros(iso)
  if not iso:find "[Tt ]%d+:%d+" then return nil end
  if not (iso:find "[Zz]%s*$" or iso:find "[T ][%d:.]+%s*[+-]%d[%d:]*%s*$"
      or iso:find "[T ][%d:.]+%s*UTC%s*$") then
    return nil
  end
  local micros = core.new "int64_t[1]"
  return C.mt_timestamp_parse(iso, #iso, 0, micros) and M.integer(micros[0]) or nil
end

local UNITS = { sec = 1000000, ms = 1000, us = 1 }
local PARTS = { year = true, month = true, day = true, hour = true, min = true, sec = true, us = true,
  ms = true }

local function whole(v, what)
  if type(v) ~= "number" or v ~= floor(v) then
    error(("mt.timestamp: %s is a whole number, not %s"):format(what, text(v)), 3)
  end
  return v
end

-- Microseconds of a table with year, month, day … (UTC), as os.time has them.
local function civil_micros(t)
  local day = M.days(format("%04d-%02d-%02d", whole(t.year, "year"), whole(t.month or 1, "month"),
    whole(t.day or 1, "day")))
  if not day then error("mt.timestamp: there is no such day", 3) end
  local sec = whole(t.hour or 0, "hour") * 3600 + whole(t.min or 0, "min") * 60 + whole(t.sec or 0, "sec")
  return (day * 86400 + sec) * 1000000 + whole(t.ms or 0, "ms") * 1000 + whole(t.us or 0, "us")
end

--- Microseconds since 1970 UTC, for a TIMESTAMP column.
---@param from string|table ISO text with a zone; { sec = n }, { ms = n } or { us = n } since 1970
--- (they add up); or { year =, month =, day =, hour =, min =, sec =, us = } in UTC
---@return number|ffi.cdata*
function M.timestamp(from)
  if type(from) == "string" then
    return M.micros(from) or error(("mt.timestamp: %q is not a time with a zone, as in 2026-05-01T10:00:00Z")
      :format(from), 2)
  end
  if type(from) ~= "table" then error("mt.timestamp takes ISO text or a table such as { sec = n }", 2) end
  for key in pairs(from) do
    if not PARTS[key] then
      error(("mt.timestamp: unknown part %q"):format(text(key)), 2)
    end
  end
  local sum = from.year and civil_micros(from) or nil
  if sum then return sum end
  for unit, scale in pairs(UNITS) do
    if from[unit] then sum = (sum or 0) + floor(from[unit] * scale + 0.5) end
  end
  return sum or error("mt.timestamp: no sec, ms, us or year is given", 2)
end

-- ---- nested values: plain copies that remember their shape

local shapes = setmetatable({}, { __mode = "k" })

local function struct_meta(field)
  if not field.copy_meta then
    local known = {}
    for _, child in ipairs(field.children) do known[child.name] = true end
    field.copy_meta = { __index = function(_, key)
      if known[key] then return nil end
      error(("no field %q in %s"):format(tostring(key), field.name), 2)
    end }
  end
  return field.copy_meta
end

--- True when the value is null at `row`.
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
local readers
readers = {
  BOOLEAN = function(_, array, row)
    local i = tonumber(array.offset) + row
    local bits = core.cast("const uint8_t *", array.buffers[1])
    return bit.band(bit.rshift(bits[bit.rshift(i, 3)], bit.band(i, 7)), 1) ~= 0
  end,
  TINYINT = fixed("const int8_t *", same),
  SMALLINT = fixed("const int16_t *", same),
  INT = fixed("const int32_t *", same),
  BIGINT = fixed("const int64_t *", M.integer),
  FLOAT = fixed("const float *", same),
  DOUBLE = fixed("const double *", same),
  STRING = bytes_at, BINARY = bytes_at,
  DATE = fixed("const int32_t *", M.day_text),
  TIMESTAMP = fixed("const int64_t *", M.integer),
  DECIMAL = function(field, array, row)
    local values = core.cast("const uint64_t *", array.buffers[1])
    local d = M.decimal_at(values, tonumber(array.offset) + row, field.scale)
    return d
  end,
  STRUCT = function(field, array, row)
    local copy = setmetatable({}, struct_meta(field))
    for k, child in ipairs(field.children) do
      copy[child.name] = M.read(child, array.children[k - 1], tonumber(array.offset) + row)
    end
    shapes[copy] = { field = field }
    return copy
  end,
  ARRAY = function(field, array, row)
    local from, to = list_bounds(array, row)
    local copy = {}
    for i = from, to - 1 do copy[i - from + 1] = M.read(field.children[1], array.children[0], i) end
    shapes[copy] = { n = to - from }
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
    shapes[copy] = { keys = keys }
    return copy
  end,
}

--- The value of a column at `row` as Lua has it; nested ones as plain copies.
---@param field mt.Field
---@param array ffi.cdata* struct ArrowArray *
---@param row integer
function M.read(field, array, row)
  if M.is_null(array, row) then return nil end
  local v = readers[field.type](field, array, row)
  return v
end

--- How many elements an ARRAY or MAP value has, nulls included.
---@param list table
---@return integer
function M.len(list)
  local shape = shapes[list]
  return shape and (shape.n or shape.keys and #shape.keys) or #list
end

local function next_item(list, i)
  if i < M.len(list) then return i + 1, list[i + 1] end
end

--- Walks an ARRAY value with its nulls: `for i, v in mt.items(a) do`.
---@param list table
function M.items(list)
  return next_item, list, 0
end

--- Names (or keys) of a nested value in its own order, or nil when it is another table.
---@return any[]?
function M.names(copy)
  local shape = shapes[copy]
  if not shape then return nil end
  if shape.keys then return shape.keys end
  local found = {}
  for k, child in ipairs(shape.field and shape.field.children or {}) do found[k] = child.name end
  return found
end

return M
