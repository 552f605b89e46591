-- SPDX-License-Identifier: Apache-2.0
--- Decimals: the exact values of DECIMAL columns.
--
-- No function here ends in a call: see exact.lua.
local core = require "moontide._core"
local exact = require "moontide.values.exact"
local C = core.C

local M = {}

local format, floor, text = string.format, math.floor, exact.text
local LIMIT = 2 ^ 53
local int64, uint64 = core.typeof "int64_t", core.typeof "uint64_t"

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

-- A side of a comparison or sum as a decimal; nil when it cannot be one. `level`: of the script.
local function as_decimal(v, level)
  local d
  if core.istype(Decimal, v) then return v end
  if type(v) == "number" then
    if v ~= floor(v) or v < -LIMIT or v > LIMIT then
      error(("a decimal and the number %s: that may be rounded already; write it as text: %q")
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

-- What an operand is that is no number, for Lua's own words, in which a null column is looked for.
local function kind_of(v)
  if v == exact.NULL then return "mt.null" end
  return type(v) == "nil" and "a nil value" or "a " .. type(v) .. " value"
end

local function compare(a, b)
  local x, y = as_decimal(a, 4), as_decimal(b, 4)
  if not x or not y then
    local other = b
    if not x then other = a end
    error(("attempt to compare a decimal with %s"):format(type(other) == "nil" and "nil" or kind_of(other)), 3)
  end
  local order = C.mt_decimal_compare(x.half, x.scale, y.half, y.scale)
  return order
end

local made_scale = core.new "int32_t[1]"

-- A metamethod around one of the core's functions.
local function operator(compute, sign)
  return function(a, b)
    local x, y = as_decimal(a, 3), as_decimal(b, 3)
    if not x or not y then
      local other = b
      if not x then other = a end
      error(("attempt to perform arithmetic on %s and a decimal"):format(kind_of(other)), 2)
    end
    local made = Decimal()
    local answer = compute(x.half, x.scale, y.half, y.scale, made.half, made_scale)
    made.scale = made_scale[0]
    if answer == 3 then error(("%s / %s: division by zero"):format(text(x), text(y)), 2) end
    if answer == 2 then
      error(("%s %s %s has more than 38 digits"):format(text(x), sign, text(y)), 2)
    end
    return made
  end
end

-- The same digits with the other sign.
local function negated(d)
  local negative = Decimal()
  negative.half[0] = -d.half[0]
  negative.half[1] = -d.half[1] - (d.half[0] ~= 0 and 1 or 0)
  negative.scale = d.scale
  return negative
end

local function unknown(a, b)
  local shown = text(a) .. " and " .. text(b)
  error(("%s: decimals know + - * / and comparison"):format(shown), 2)
end

local methods = {}

--- Rounded half up (away from zero) to so many digits after the point; more digits are zeros.
---@param digits integer
---@return mt.Decimal
function methods:round(digits)
  if type(digits) ~= "number" or digits ~= floor(digits) or digits < 0 or digits > 38 then
    error(("round takes 0 to 38 digits after the point, not %s"):format(text(digits)), 2)
  end
  local made, shown = Decimal(), decimal_text(self)
  made.scale = digits
  if C.mt_decimal_parse(shown, #shown, 38, digits, made.half) > 1 then
    error(("%s with %d digits after the point has more than 38 digits"):format(shown, digits), 2)
  end
  return made
end

core.metatype(Decimal, {
  __index = methods,
  __tostring = decimal_text,
  __concat = function(a, b) return text(a) .. text(b) end,
  __eq = function(a, b)
    local x, y = as_decimal(a, 3), as_decimal(b, 3)
    -- `x ~= nil` would ask this function again
    return x and y and C.mt_decimal_compare(x.half, x.scale, y.half, y.scale) == 0 or false
  end,
  __lt = function(a, b) return compare(a, b) < 0 end,
  __le = function(a, b) return compare(a, b) <= 0 end,
  __add = operator(C.mt_decimal_add, "+"),
  __sub = operator(C.mt_decimal_subtract, "-"),
  __mul = operator(C.mt_decimal_multiply, "*"),
  __div = operator(C.mt_decimal_divide, "/"),
  __unm = negated, __mod = unknown, __pow = unknown,
})
M.Decimal = Decimal

---@param v any
---@return boolean
function M.is_decimal(v)
  return type(v) == "cdata" and core.istype(Decimal, v)
end

--- The decimal at values[2i], values[2i+1].
---@param values ffi.cdata* uint64_t *
---@param i integer
---@param scale integer
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
  local positive = Decimal()
  positive.half[0], positive.half[1] = limit[0], limit[1]
  return C.mt_decimal_compare(v.half, 0, negated(positive).half, 0) >= 0
end

--- As DECIMAL(precision, scale) exactly, or nil and why not.
---@param v any a number, a decimal or text
---@param precision integer
---@param scale integer
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

return M
