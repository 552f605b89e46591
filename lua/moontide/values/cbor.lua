-- SPDX-License-Identifier: Apache-2.0
--- Values of the state as bytes and back, exactly: CBOR (RFC 8949).
--
-- JSON was the other choice. It knows no bytes, no integers apart from other numbers and no
-- decimals, and the state must give back what was put: a number as a number, an int64 as one, a
-- decimal with its scale (tag 4), null inside tables, an empty list apart from an empty table.
-- Equal values are equal bytes: keys of a table are written in order.
--
-- The reader trusts nothing: a length is compared with what is left before anything is made of it,
-- and every item costs at least a byte, so no bytes make it run long or deep.
local core = require "moontide._core"
local rows = require "moontide.rows.row"
local value = require "moontide.values"
local C = core.C

local M = {}

local band, rshift, tobit, bnot, floor = bit.band, bit.rshift, bit.tobit, bit.bnot, math.floor
local int64, uint64 = core.typeof "int64_t", core.typeof "uint64_t"
local LIMIT, DEEPEST = 2 ^ 53, 100

local UNSIGNED, NEGATIVE, BYTES, TEXT, LIST, MAP, TAG = 0, 1, 2, 3, 4, 5, 6
local FALSE, TRUE, NULL, DOUBLE = 0xf4, 0xf5, 0xf6, 0xfb
local TAG_POSITIVE, TAG_NEGATIVE, TAG_DECIMAL = 2, 3, 4

local bits = core.new "union { double d; uint32_t w[2]; }" -- w[0] is the low half

local function refuse(words)
  error(words, 0)
end

-- ---- writing, into one buffer that grows

local W = core.new "struct { uint8_t *at; double used, room; }"
local buffer -- what W.at points into

local function need(more)
  if W.used + more <= W.room then return end
  W.room = math.max(256, 2 * W.room, W.used + more)
  local bigger = core.new("uint8_t[?]", W.room)
  if buffer then core.copy(bigger, buffer, W.used) end
  buffer, W.at = bigger, bigger
end

local function put_byte(byte)
  need(1)
  W.at[W.used] = byte
  W.used = W.used + 1
end

local function put_word(word)
  local at, used = W.at, W.used
  word = tobit(word)
  at[used], at[used + 1] = rshift(word, 24), band(rshift(word, 16), 255)
  at[used + 2], at[used + 3] = band(rshift(word, 8), 255), band(word, 255)
  W.used = used + 4
end

-- The head of an item: its major type and a number or length.
local function put_head(major, n)
  need(9)
  if n < 24 then
    put_byte(major * 32 + tonumber(n))
  elseif n < 256 then
    put_byte(major * 32 + 24)
    put_byte(tonumber(n))
  elseif n < 65536 then
    put_byte(major * 32 + 25)
    put_byte(floor(tonumber(n) / 256))
    put_byte(tonumber(n) % 256)
  elseif n <= 0xffffffff then
    put_byte(major * 32 + 26)
    put_word(tonumber(n))
  else
    local high = type(n) == "number" and floor(n / 2 ^ 32) or tonumber(n / 4294967296ULL)
    local low = type(n) == "number" and n % 2 ^ 32 or tonumber(n % 4294967296ULL)
    put_byte(major * 32 + 27)
    put_word(high)
    put_word(low)
  end
end

local function put_number(v)
  if v ~= v then refuse "NaN cannot be kept: it is not equal to itself" end
  -- -0.0 is not the integer 0
  if v == floor(v) and v >= -LIMIT and v <= LIMIT and (v ~= 0 or 1 / v > 0) then
    if v >= 0 then put_head(UNSIGNED, v) else put_head(NEGATIVE, -1 - v) end
    return
  end
  need(9)
  bits.d = v
  put_byte(DOUBLE)
  put_word(bits.w[1])
  put_word(bits.w[0])
end

local function put_int64(v)
  if v >= 0 then put_head(UNSIGNED, core.cast(uint64, v)) else put_head(NEGATIVE, core.cast(uint64, bnot(v))) end
end

local function put_string(s)
  put_head(C.mt_utf8_valid(s, #s) and TEXT or BYTES, #s)
  need(#s)
  core.copy(W.at + W.used, s, #s)
  W.used = W.used + #s
end

-- 128 bits, low half first, as the bytes of a big number.
local function put_big(tag, low, high)
  put_head(TAG, tag)
  put_head(BYTES, 16)
  for _, half in ipairs { high, low } do
    need(8)
    put_word(tonumber(half / 4294967296ULL))
    put_word(tonumber(half % 4294967296ULL))
  end
end

local function put_decimal(d)
  local low, high = d.half[0], d.half[1]
  put_head(TAG, TAG_DECIMAL)
  put_head(LIST, 2)
  put_number(-d.scale)
  local whole = core.cast(int64, low)
  if core.cast(int64, high) == (whole < 0 and -1LL or 0LL) then
    put_int64(whole)
  elseif core.cast(int64, high) >= 0 then
    put_big(TAG_POSITIVE, low, high)
  else
    put_big(TAG_NEGATIVE, bnot(low), bnot(high))
  end
end

local function put_cdata(v)
  if core.istype(int64, v) then
    put_int64(v)
  elseif core.istype(uint64, v) then
    put_head(UNSIGNED, v)
  elseif value.is_decimal(v) then
    put_decimal(v)
  else
    refuse(("%s cannot be kept"):format(tostring(v)))
  end
end

local put -- below

-- How many elements, when the table is a list.
local function length_of(t)
  local n, shape = #t, value.shape_of(t)
  if shape and shape.kind == "ARRAY" then return math.max(n, shape.n) end
  if n == 0 then return nil end
  local seen = 0
  for key in next, t do
    if type(key) ~= "number" or key < 1 or key > n or key ~= floor(key) then return nil end
    seen = seen + 1
  end
  return seen == n and n or nil
end

local ORDER = { number = 1, cdata = 2, string = 3, boolean = 4 }

local function is_key(v)
  return ORDER[type(v)] ~= nil and (type(v) ~= "cdata" or core.istype(int64, v))
end

local function before(a, b)
  local x, y = ORDER[type(a)], ORDER[type(b)]
  if x ~= y then return x < y end
  if x == 4 then return not a and b end
  return a < b
end

-- Two int64 of one value are two keys to Lua, which knows them by identity.
local function sorted_keys(t)
  local keys = {}
  for key in next, t do
    if not is_key(key) then
      refuse(("a table with %s as a key cannot be kept"):format(rows.is_row(key) and "a row" or "a " .. type(key)))
    end
    keys[#keys + 1] = key
  end
  table.sort(keys, before)
  for i = 2, #keys do
    if type(keys[i]) == "cdata" and keys[i] == keys[i - 1] then
      refuse(("two keys of a table are the int64 %s"):format(value.text(keys[i])))
    end
  end
  return keys
end

local function put_table(t, depth)
  if rows.is_row(t) then refuse "a row is a view that moves on; keep mt.totable(row)" end
  if depth >= DEEPEST then refuse(("tables are more than %d deep, or one is inside itself"):format(DEEPEST)) end
  local n = length_of(t)
  if n then
    put_head(LIST, n)
    for i = 1, n do put(t[i], depth + 1) end
    return
  end
  local keys = sorted_keys(t)
  put_head(MAP, #keys)
  for _, key in ipairs(keys) do
    put(key, depth + 1)
    put(t[key], depth + 1)
  end
end

function put(v, depth)
  local kind = type(v)
  if kind == "number" then
    put_number(v)
  elseif kind == "string" then
    put_string(v)
  elseif kind == "boolean" then
    put_byte(v and TRUE or FALSE)
  elseif kind == "cdata" then
    put_cdata(v)
  elseif v == nil or v == value.NULL then
    put_byte(NULL)
  elseif kind == "table" then
    put_table(v, depth)
  else
    refuse(("a %s cannot be kept"):format(kind))
  end
end

--- The bytes of a value; good until the next call. Raises text about what cannot be kept.
---@param v any nil, boolean, number, string, int64, uint64, decimal, or a table of these
---@return ffi.cdata* bytes
---@return integer length
function M.encode(v)
  W.used = 0
  put(v, 0)
  return W.at, tonumber(W.used)
end

-- ---- reading: every function takes bytes, a position and the end, and gives a value and what is behind it

local function damaged(words)
  error("the value is damaged: " .. words, 0)
end

local SIZES = { [24] = 1, [25] = 2, [26] = 4, [27] = 8 }

local function read_word(p, at)
  return ((p[at] * 256 + p[at + 1]) * 256 + p[at + 2]) * 256 + p[at + 3]
end

-- The number in a head; uint64 above 2^53.
local function read_argument(p, at, stop, short)
  if short < 24 then return short, at end
  local size = SIZES[short]
  if not size then damaged "a length of a kind that is never written" end
  if at + size > stop then damaged "it ends too early" end
  if size == 8 then
    local high, low = read_word(p, at), read_word(p, at + 4)
    if high < 2 ^ 21 then return high * 2 ^ 32 + low, at + 8 end
    return high * 4294967296ULL + low, at + 8
  end
  local n = 0
  for i = at, at + size - 1 do n = n * 256 + p[i] end
  return n, at + size
end

local read -- below

local function negative(n)
  if type(n) == "number" then return -1 - n end
  if n > 9223372036854775807ULL then damaged "an integer below the range of int64" end
  return bnot(core.cast(int64, n))
end

local function unsigned(n)
  if type(n) == "number" or n > 9223372036854775807ULL then return n end
  return value.integer(core.cast(int64, n))
end

local function read_string(p, at, stop, n)
  if n > stop - at then damaged "it ends too early" end
  return core.string(p + at, n), at + n
end

local function read_list(p, at, stop, n, depth)
  if n > stop - at then damaged "it ends too early" end
  if n == 0 then return value.array(0), at end
  local list = {}
  for i = 1, n do
    local v
    v, at = read(p, at, stop, depth + 1)
    list[i] = v == nil and value.NULL or v
  end
  return list, at
end

local function read_map(p, at, stop, n, depth)
  if n > (stop - at) / 2 then damaged "it ends too early" end
  local map = {}
  for _ = 1, n do
    local key, v
    key, at = read(p, at, stop, depth + 1)
    v, at = read(p, at, stop, depth + 1)
    if not is_key(key) then damaged "a key of a table that cannot be one" end
    if map[key] ~= nil then damaged "a key of a table stands in it twice" end
    map[key] = v == nil and value.NULL or v
  end
  return map, at
end

-- The mantissa of a decimal as two halves, from an integer or from bytes.
local function read_mantissa(p, at, stop)
  local first = p[at]
  if rshift(first, 5) ~= TAG then
    local whole
    if rshift(first, 5) > NEGATIVE then damaged "a decimal without digits" end
    whole, at = read(p, at, stop, DEEPEST)
    if core.istype(uint64, whole) then damaged "a decimal without its sign" end
    whole = core.cast(int64, whole)
    return core.cast(uint64, whole), core.cast(uint64, whole < 0 and -1LL or 0LL), at
  end
  local tag = band(first, 31)
  if tag ~= TAG_POSITIVE and tag ~= TAG_NEGATIVE or stop - at < 18 or p[at + 1] ~= BYTES * 32 + 16 then
    damaged "a decimal without digits"
  end
  local high = read_word(p, at + 2) * 4294967296ULL + read_word(p, at + 6)
  local low = read_word(p, at + 10) * 4294967296ULL + read_word(p, at + 14)
  if high > 9223372036854775807ULL then damaged "a decimal with too many digits" end
  if tag == TAG_NEGATIVE then low, high = bnot(low), bnot(high) end
  return low, high, at + 18
end

local function read_decimal(p, at, stop)
  if stop - at < 3 or p[at] ~= LIST * 32 + 2 then damaged "a decimal without digits" end
  local exponent, low, high
  exponent, at = read(p, at + 1, stop, DEEPEST)
  if type(exponent) ~= "number" or exponent > 0 or exponent < -38 or exponent ~= floor(exponent) then
    damaged "a decimal with a strange scale"
  end
  if at >= stop then damaged "it ends too early" end
  low, high, at = read_mantissa(p, at, stop)
  local d = value.Decimal()
  d.half[0], d.half[1], d.scale = low, high, -exponent
  return d, at
end

local function read_double(p, at, stop)
  if at + 8 > stop then damaged "it ends too early" end
  bits.w[1], bits.w[0] = read_word(p, at), read_word(p, at + 4)
  if bits.d ~= bits.d then damaged "it is not a number" end
  return bits.d, at + 8
end

local SIMPLE = { [FALSE] = false, [TRUE] = true }

function read(p, at, stop, depth)
  if at >= stop then damaged "it ends too early" end
  if depth > DEEPEST + 1 then damaged "tables are too deep" end
  local first = p[at]
  if first == DOUBLE then return read_double(p, at + 1, stop) end
  if first >= FALSE then
    if first > NULL then damaged "a kind of value that is never written" end
    return SIMPLE[first], at + 1
  end
  local major = rshift(first, 5)
  local n
  n, at = read_argument(p, at + 1, stop, band(first, 31))
  if major == UNSIGNED then return unsigned(n), at end
  if major == NEGATIVE then return negative(n), at end
  if major == BYTES or major == TEXT then return read_string(p, at, stop, n) end
  if major == LIST then return read_list(p, at, stop, n, depth) end
  if major == MAP then return read_map(p, at, stop, n, depth) end
  if major == TAG and n == TAG_DECIMAL then return read_decimal(p, at, stop) end
  damaged "a kind of value that is never written"
end

--- The value of bytes; null is mt.null. Raises text when they are no such bytes.
---@param bytes ffi.cdata*
---@param length integer
---@return any
function M.decode(bytes, length)
  local p = core.cast("const uint8_t *", bytes)
  local v, behind = read(p, 0, length, 0)
  if behind ~= length then damaged "there is something behind it" end
  if v == nil then v = value.NULL end
  return v
end

return M
