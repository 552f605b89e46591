-- SPDX-License-Identifier: Apache-2.0
--- Values of Lua into columns under construction, exactly or not at all.
--
-- Code is generated for a list of fields: the common case of each type is a store into the
-- column's own buffer; all else goes through `to<type>` below, which converts exactly or raises.
-- A column keeps its validity bits past the end at 1, so only a null touches them. Whether text is
-- UTF-8 is asked once for the whole column, eight bytes at a time, instead of 20 ns a string.
local core = require "moontide._core"
local value = require "moontide.value"
local C = core.C

local M = {}

---@class mt.Misfit a value that a column does not take
---@field column string?
---@field text string
---@field is_data boolean? the value does not fit its column; else the script answered nonsense
local Misfit = { __tostring = function(self) return self.text end }

--- Raises an error about what a function returned; `column` is the one it was meant for.
---@param text string
---@param column string?
function M.refuse(text, column)
  error(setmetatable({ column = column, text = text }, Misfit), 0)
end

--- True for an error about a value, raised while writing it.
function M.is_misfit(e)
  return getmetatable(e) == Misfit
end

local function misfit(field, text)
  error(setmetatable({ column = field.name, text = text, is_data = true }, Misfit), 0)
end

--- A value a function gave, in the words of an error.
local function shown(v)
  if type(v) == "string" then
    local text = v:sub(1, 200):gsub("[%z\1-\31\127-\255]", function(c)
      return ("\\x%02x"):format(c:byte())
    end)
    return '"' .. text .. (#v > 200 and "…" or "") .. '"'
  end
  if type(v) == "number" or type(v) == "boolean" or type(v) == "cdata" then
    return ("%s %s"):format(type(v) == "cdata" and "the value" or "the " .. type(v), value.text(v))
  end
  return "a " .. type(v)
end
M.shown = shown

local function refuse(field, v, takes)
  misfit(field, ("%s is %s and takes %s, not %s"):format(field.name, field.ddl, takes, shown(v)))
end

-- ---- the uncommon cases of each type: an exact value, or an error

local int64, uint64 = core.typeof "int64_t", core.typeof "uint64_t"

local function is_int64(v)
  return type(v) == "cdata" and core.istype(int64, v)
end

-- uint64 that fits, as int64; else nil
local function from_uint64(v)
  if type(v) == "cdata" and core.istype(uint64, v) and v <= 9223372036854775807ULL then
    return core.cast(int64, v)
  end
end

local function to_small(range)
  return function(field, v)
    local n = is_int64(v) and v or from_uint64(v)
    if n and n >= range[1] and n <= range[2] then return tonumber(n) end
    if type(v) == "number" and v == math.floor(v) then
      misfit(field, ("%s is %s, which ends at %d and %d; %s does not fit"):format(field.name, field.ddl,
        range[1], range[2], value.text(v)))
    end
    return refuse(field, v, "whole numbers")
  end
end

local function to_bigint(field, v)
  if is_int64(v) then return v end
  local n = from_uint64(v) or type(v) == "string" and value.int64(v)
  if n then return n end
  if type(v) == "number" and v == math.floor(v) and v - v == 0 then
    misfit(field, ("%s is %s: the number %s is above 2^53 and may be rounded already; use an int64 (%s) "
      .. "or decimal text"):format(field.name, field.ddl, value.text(v), "9007199254740993LL"))
  end
  return refuse(field, v, "whole numbers, int64 or decimal text")
end

local function to_timestamp(field, v)
  if is_int64(v) then return v end
  if type(v) == "string" then
    local micros = value.micros(v)
    if micros then return micros end
    misfit(field, ("%s is TIMESTAMP; %s is not a time with a zone, as in 2026-05-01T10:00:00Z")
      :format(field.name, shown(v)))
  end
  return refuse(field, v, "whole microseconds since 1970 UTC or ISO text with a zone")
end

local function to_date(field, v)
  local days = type(v) == "string" and value.days(v)
  return days or refuse(field, v, "\"YYYY-MM-DD\" (mt.date(ts) gives it)")
end

-- The largest DECIMAL(p,s) at scale s; its negative is the smallest.
local function limit_of(field)
  if not field.limit then field.limit = value.decimal_as(("9"):rep(field.precision), 38, 0) end
  return field.limit.half
end

local function to_decimal(field, v)
  if value.is_decimal(v) and v.scale == field.scale and value.is_within(v, limit_of(field)) then return v end
  local kind = type(v)
  if kind == "number" and v ~= math.floor(v) then
    misfit(field, ("%s is %s: the number %s may be rounded already; use decimal text"):format(field.name,
      field.ddl, value.text(v)))
  end
  if kind == "number" and math.abs(v) > 2 ^ 53 then return refuse(field, v, "exact values") end
  if kind == "number" or kind == "string" or value.is_decimal(v) or is_int64(v) or from_uint64(v) then
    local d, problem = value.decimal_as(v, field.precision, field.scale)
    if d then return d end
    misfit(field, ("%s is %s: %s"):format(field.name, field.ddl, problem))
  end
  return refuse(field, v, "decimals, whole numbers or decimal text")
end

local function to_text(field, v)
  if type(v) == "string" then
    misfit(field, ("%s is STRING; %s is not UTF-8 (BINARY takes any bytes)"):format(field.name, shown(v)))
  end
  return refuse(field, v, (type(v) == "number" or type(v) == "cdata")
    and "strings (mt.str(v) makes one)" or "strings")
end

local function to_float(field, v)
  if type(v) == "number" then
    misfit(field, ("%s is FLOAT; %s does not fit"):format(field.name, value.text(v)))
  end
  return refuse(field, v, "numbers")
end

local CONVERT = {
  TINYINT = to_small { -128, 127 }, SMALLINT = to_small { -32768, 32767 },
  INT = to_small { -2147483648, 2147483647 }, BIGINT = to_bigint, TIMESTAMP = to_timestamp,
  FLOAT = to_float, DOUBLE = function(field, v) return refuse(field, v, "numbers") end,
  BOOLEAN = function(field, v) return refuse(field, v, "true or false") end,
  STRING = to_text, BINARY = function(field, v) return refuse(field, v, "strings of bytes") end,
  DATE = to_date, DECIMAL = to_decimal,
}

-- ---- generated code; @ is the column's number, v the value, i the row

local SMALL = [[
if type(v) == "number" and v >= %s and v <= %s and v == floor(v) then W.c@[i] = v
elseif v == nil or v == NULL then null[@](i)
else W.c@[i] = to[@](v) end]]

local BIG = [[
if type(v) == "number" and v >= -9007199254740992 and v <= 9007199254740992 and v == floor(v) then
  W.c@[i] = v
elseif v == nil or v == NULL then null[@](i)
else W.c@[i] = to[@](v) end]]

local TEXT = [[
if type(v) == "string" then
  local l, w = #v, W.w@
  if l > W.m@ - w then room[@](i, l) end
  copy(W.d@ + w, v, l)
  W.w@ = w + l
  W.o@[i + 1] = w + l
elseif v == nil or v == NULL then null[@](i)
else to[@](v) end]]

local STORE = {
  TINYINT = SMALL:format("-128", "127"), SMALLINT = SMALL:format("-32768", "32767"),
  INT = SMALL:format("-2147483648", "2147483647"), BIGINT = BIG, TIMESTAMP = BIG,
  DOUBLE = [[
if type(v) == "number" then W.c@[i] = v
elseif v == nil or v == NULL then null[@](i)
else to[@](v) end]],
  -- a FLOAT takes the nearest float; what is beyond its range would become infinite
  FLOAT = [[
if type(v) == "number" then
  if (v >= 3.4028235677973366e38 or v <= -3.4028235677973366e38) and v - v == 0 then to[@](v) end
  W.c@[i] = v
elseif v == nil or v == NULL then null[@](i)
else to[@](v) end]],
  BOOLEAN = [[
if v == true then W.c@[rshift(i, 3)] = bor(W.c@[rshift(i, 3)], lshift(1, band(i, 7)))
elseif v == nil or v == NULL then null[@](i)
elseif v ~= false then to[@](v) end]],
  STRING = TEXT, BINARY = TEXT,
  DATE = [[
if v == nil or v == NULL then null[@](i)
else W.c@[i] = day(v) or to[@](v) end]],
  -- a decimal is not compared with nil: that would ask its metatable
  DECIMAL = [[
if type(v) ~= "cdata" and (v == nil or v == NULL) then null[@](i)
else local d = to[@](v) W.c@[2 * i] = d.half[0] W.c@[2 * i + 1] = d.half[1] end]],
}

local POINTERS = {
  BOOLEAN = "uint8_t *", TINYINT = "int8_t *", SMALLINT = "int16_t *", INT = "int32_t *",
  BIGINT = "int64_t *", FLOAT = "float *", DOUBLE = "double *", DECIMAL = "uint64_t *",
  DATE = "int32_t *", TIMESTAMP = "int64_t *",
}

local function is_text(field)
  return field.type == "STRING" or field.type == "BINARY"
end

local function cursor_type(fields)
  local parts = { "struct {" }
  for n, field in ipairs(fields) do
    if is_text(field) then
      parts[#parts + 1] = ("int32_t *o%d; char *d%d; int32_t w%d, m%d;"):format(n, n, n, n)
    else
      parts[#parts + 1] = ("%s c%d;"):format(POINTERS[field.type], n)
    end
  end
  parts[#parts + 1] = "}"
  return core.typeof(table.concat(parts, " "))
end

-- Bounded memory of days that were read: a batch has few.
local function day_reader()
  local days, n = {}, 0
  return function(text)
    local found = days[text]
    if found or type(text) ~= "string" then return found end
    found = value.days(text)
    if found then
      if n >= 10000 then days, n = {}, 0 end
      days[text], n = found, n + 1
    end
    return found
  end
end

-- The first row whose text is not UTF-8, or nil. Valid text cut between characters is valid text:
-- the whole must be valid, and no row may begin in the middle of a character.
local function first_invalid(offsets, text, rows)
  local valid = C.mt_utf8_valid(text, offsets[rows])
  for i = 0, valid and rows - 1 or -1 do
    local byte = text[offsets[i]]
    if byte >= -128 and byte < -64 then
      valid = false
      break
    end
  end
  for i = 0, valid and -1 or rows - 1 do
    if not C.mt_utf8_valid(text + offsets[i], offsets[i + 1] - offsets[i]) then return i end
  end
end

---@class mt.Building columns of one step's result
---@field names string what the generated code uses, for a chunk's head
---@field values any[] what they are
---@field code fun(n: integer): string stores v as row i of column n
---@field begin fun(rows: integer) fresh columns with room
---@field verify fun(rows: integer, cursor: { i: integer }) what only whole columns show; at the row's i
---@field finish fun(rows: integer): ffi.cdata*[] the columns as arrays; the caller's
---@field discard fun()

local function expect_room(status)
  if status ~= 0 then M.refuse((core.failure())) end
end

-- Column n's helpers: a null in row i, room for more text, the conversion; and the pointers anew.
local function helpers(columns, W, fields, n)
  local field, column = fields[n], columns + (n - 1)
  local convert = CONVERT[field.type]
  local function point()
    if is_text(field) then
      W["o" .. n], W["d" .. n] = column.offsets, core.cast("char *", column.values)
      W["m" .. n] = column.values_cap
    else
      W["c" .. n] = core.cast(POINTERS[field.type], column.values)
    end
  end
  local function null(i)
    if not field.nullable then
      misfit(field, ("%s is NOT NULL and is null here"):format(field.name))
    end
    column.length = i
    expect_room(C.mt_column_add_null(column, core.err))
  end
  local function room(i, more)
    column.length, column.values_len = i, W["w" .. n]
    expect_room(C.mt_column_reserve(column, 0, more, core.err))
    point()
  end
  local function to(v)
    local made = convert(field, v) -- no tail call: see value.lua
    return made
  end
  return null, room, to, point
end

--- What builds columns of these fields from generated code.
---@param fields mt.Field[]
---@return mt.Building
function M.building(fields)
  local W = cursor_type(fields)()
  local columns = core.gc(core.new("struct mt_column[?]", #fields), function(list)
    for n = 0, #fields - 1 do C.mt_column_deinit(list + n) end
  end)
  local null, room, to, point = {}, {}, {}, {}
  for n in ipairs(fields) do null[n], room[n], to[n], point[n] = helpers(columns, W, fields, n) end
  local self = {
    names = "W, type, floor, NULL, copy, day, rshift, lshift, band, bor, null, room, to, verify",
  }
  function self.code(n)
    return (STORE[fields[n].type]:gsub("@", tostring(n)))
  end
  function self.begin(rows)
    for n, field in ipairs(fields) do
      local column, text = columns + (n - 1), is_text(field)
      C.mt_column_deinit(column)
      C.mt_column_init(column, field.c)
      expect_room(C.mt_column_reserve(column, rows, text and rows * 8 or 0, core.err))
      if text then W["w" .. n] = 0 end
      point[n]()
    end
  end
  function self.verify(rows, cursor)
    for n, field in ipairs(fields) do
      local text = rows > 0 and field.type == "STRING" and W["d" .. n]
      local offsets = text and W["o" .. n]
      local bad = text and first_invalid(offsets, text, rows)
      if bad then
        cursor.i = bad
        to[n](core.string(text + offsets[bad], offsets[bad + 1] - offsets[bad]))
      end
    end
  end
  function self.finish(rows)
    local arrays = core.new("struct ArrowArray[?]", #fields)
    for n, field in ipairs(fields) do
      local column = columns + (n - 1)
      column.length = rows
      if is_text(field) then column.values_len = W["w" .. n] end
      C.mt_column_finish(column, arrays + (n - 1))
    end
    return arrays
  end
  function self.discard()
    for n = 0, #fields - 1 do C.mt_column_deinit(columns + n) end
  end
  self.values = { W, type, math.floor, value.NULL, core.copy, day_reader(), bit.rshift, bit.lshift, bit.band,
    bit.bor, null, room, to, self.verify }
  return self
end

return M
