-- SPDX-License-Identifier: Apache-2.0
--- Numbers without rounding: exact text, string.format with it, 64-bit integers, null.
--
-- A number of Lua is exact up to 2^53; a 64-bit integer beyond is int64 cdata. LuaJIT's own
-- tostring writes 14 digits and marks cdata with "LL"; what is printed here reads back equal.
--
-- Row functions call what is here, and they share it. When the JIT has given up on one row function
-- and that runs interpreted, a helper gets hot by itself and is compiled by itself, which fails for
-- a function that ends in a call (`return f(x)`): after some tries it is marked, and then no row
-- function that calls it is compiled any more. So the helpers here end in a value.
local core = require "moontide._core"

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
  elseif kind == "cdata" and M.is_int64(v) then
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

-- ---- 64-bit integers

---@param v any
---@return boolean
function M.is_int64(v)
  return type(v) == "cdata" and (core.istype(int64, v) or core.istype(uint64, v))
end

--- A number within ±2^53, else the int64 itself.
---@param v ffi.cdata* int64
---@return number|ffi.cdata*
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

return M
