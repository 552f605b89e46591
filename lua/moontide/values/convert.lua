-- SPDX-License-Identifier: Apache-2.0
--- A value of Lua as a column's type has it, exactly, or an error that says why not.
--
-- These are the uncommon cases: the common one of each type is a store in generated code, see
-- columns.lua.
local core = require "moontide._core"
local value = require "moontide.values"

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
---@param e any
---@return boolean
function M.is_misfit(e)
  return getmetatable(e) == Misfit
end

--- Raises an error about a value that does not fit where it should go.
---@param slot mt.Slot
---@param text string with %s for where that is
function M.misfit(slot, text, ...)
  error(setmetatable({ column = slot.top, text = text:format(slot.path(), ...), is_data = true }, Misfit), 0)
end
local misfit = M.misfit

--- A value a function gave, in the words of an error.
---@param v any
---@return string
function M.shown(v)
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
local shown = M.shown

local function refuse(slot, v, takes)
  misfit(slot, "%s is %s and takes %s, not %s", slot.ddl, takes, shown(v))
end

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
  return function(slot, v)
    local n = is_int64(v) and v or from_uint64(v)
    if n and n >= range[1] and n <= range[2] then return tonumber(n) end
    if n or type(v) == "number" and v == math.floor(v) then
      misfit(slot, "%s is %s, which ends at %d and %d; %s does not fit", slot.ddl, range[1], range[2],
        value.text(v))
    end
    return refuse(slot, v, "whole numbers")
  end
end

local function to_bigint(slot, v)
  if is_int64(v) then return v end
  local n = from_uint64(v) or type(v) == "string" and value.int64(v)
  if n then return n end
  if type(v) == "number" and v == math.floor(v) and v - v == 0 then
    misfit(slot, "%s is %s: the number %s is above 2^53 and may be rounded already; use an int64 (%s) "
      .. "or decimal text", slot.ddl, value.text(v), "9007199254740993LL")
  end
  return refuse(slot, v, "whole numbers, int64 or decimal text")
end

local function to_timestamp(slot, v)
  if is_int64(v) then return v end
  if type(v) == "string" then
    local micros = value.micros(v)
    if micros then return micros end
    misfit(slot, "%s is TIMESTAMP; %s is not a time with a zone, as in 2026-05-01T10:00:00Z", shown(v))
  end
  return refuse(slot, v, "whole microseconds since 1970 UTC or ISO text with a zone")
end

local function to_date(slot, v)
  local days = type(v) == "string" and value.days(v)
  return days or refuse(slot, v, "\"YYYY-MM-DD\" (mt.date(ts) gives it)")
end

-- The largest DECIMAL(p,s) at scale s; its negative is the smallest.
local function limit_of(slot)
  if not slot.limit then slot.limit = value.decimal_as(("9"):rep(slot.precision), 38, 0) end
  return slot.limit.half
end

local function to_decimal(slot, v)
  if value.is_decimal(v) and v.scale == slot.scale and value.is_within(v, limit_of(slot)) then return v end
  local kind = type(v)
  if kind == "number" and v ~= math.floor(v) then
    misfit(slot, "%s is %s: the number %s may be rounded already; use decimal text", slot.ddl,
      value.text(v))
  end
  if kind == "number" and math.abs(v) > 2 ^ 53 then return refuse(slot, v, "exact values") end
  if kind == "number" or kind == "string" or value.is_decimal(v) or is_int64(v) or from_uint64(v) then
    local d, problem = value.decimal_as(v, slot.precision, slot.scale)
    if d then return d end
    misfit(slot, "%s is %s: %s", slot.ddl, problem)
  end
  return refuse(slot, v, "decimals, whole numbers or decimal text")
end

local function to_text(slot, v)
  if type(v) == "string" then
    misfit(slot, "%s is STRING; %s is not UTF-8 (BINARY takes any bytes)", shown(v))
  end
  return refuse(slot, v, (type(v) == "number" or type(v) == "cdata")
    and "strings (mt.str(v) makes one)" or "strings")
end

local function to_float(slot, v)
  if type(v) == "number" then misfit(slot, "%s is FLOAT; %s does not fit", value.text(v)) end
  return refuse(slot, v, "numbers")
end

local function takes(words)
  return function(slot, v) return refuse(slot, v, words) end
end

--- By type: the exact value for (slot, v), else it raises.
---@type table<string, fun(slot: mt.Slot, v: any): any>
M.to = {
  TINYINT = to_small { -128, 127 }, SMALLINT = to_small { -32768, 32767 },
  INT = to_small { -2147483648, 2147483647 }, BIGINT = to_bigint, TIMESTAMP = to_timestamp,
  FLOAT = to_float, DOUBLE = takes "numbers", BOOLEAN = takes "true or false",
  STRING = to_text, BINARY = takes "strings of bytes", DATE = to_date, DECIMAL = to_decimal,
  STRUCT = takes "a table of its fields or a row", ARRAY = takes "a list",
  MAP = takes "a table of keys and values",
}

return M
