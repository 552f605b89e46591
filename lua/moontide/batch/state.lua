-- SPDX-License-Identifier: Apache-2.0
--- The keyed state of a foreachBatch: what batches remember for the next ones.
--
-- It is part of the batch: what a function puts is durable with the batch's commit, in the same
-- transaction as its offsets, and gone when the batch fails. Keys are a tag byte and bytes whose order
-- is that of the values: numbers before text, each in its own order. 1, 1.0 and 1LL are one key, "1" is
-- another.
local cbor = require "moontide.values.cbor"
local core = require "moontide._core"
local fault = require "moontide.fault"
local object = require "moontide.object"
local rows = require "moontide.rows.row"
local value = require "moontide.values"
local C = core.C

local M = {}

local bnot, band, bxor, rshift, tobit, floor = bit.bnot, bit.band, bit.bxor, bit.rshift, bit.tobit, math.floor
local int64, uint64 = core.typeof "int64_t", core.typeof "uint64_t"

-- Tags, in the order of pairs.
local INTEGER, DOUBLE, TEXT = 0x69, 0x6e, 0x73 -- i n s
local LONGEST = C.MT_STATE_KEY_MAX

---@class mt.State
---@field package _store mt.StateStore
local State = {}

---@class mt.StateStore what holds bytes under bytes
---@field get fun(key: ffi.cdata*, n: integer): ffi.cdata*?, integer? value and length; nil: none
---@field put fun(key: ffi.cdata*, n: integer, bytes: ffi.cdata*, length: integer)
---@field delete fun(key: ffi.cdata*, n: integer)
---@field next fun(prefix: ffi.cdata*, n: integer, after: string?): string?, ffi.cdata*?, integer? the
--- first key behind `after` that begins with prefix, its value and length
---@field count fun(): integer

-- ---- keys

local key = core.new("uint8_t[?]", LONGEST)
local bits = core.new "union { double d; int64_t i; uint32_t w[2]; }" -- w[0] is the low half

-- Both halves of `bits`, high one first, behind the tag.
local function put_bits(tag, high, low)
  key[0] = tag
  key[1], key[2], key[3], key[4] = rshift(high, 24), band(rshift(high, 16), 255), band(rshift(high, 8), 255),
    band(high, 255)
  key[5], key[6], key[7], key[8] = rshift(low, 24), band(rshift(low, 16), 255), band(rshift(low, 8), 255),
    band(low, 255)
  return key, 9
end

-- Sign flipped: so that bytes are in the order of the numbers.
local function integer_key(v)
  bits.i = v
  return put_bits(INTEGER, bxor(tobit(bits.w[1]), 0x80000000), tobit(bits.w[0]))
end

local function double_key(v)
  bits.d = v
  local high, low = tobit(bits.w[1]), tobit(bits.w[0])
  if high < 0 then return put_bits(DOUBLE, bnot(high), bnot(low)) end
  return put_bits(DOUBLE, bxor(high, 0x80000000), low)
end

local function text_key(what, v)
  if #v + 1 > LONGEST then
    fault.raise(("%s: a key has at most %d bytes, and this one has %d; keep a hash of it, or a part"):format(what,
      LONGEST - 1, #v))
  end
  key[0] = TEXT
  core.copy(key + 1, v, #v)
  return key, #v + 1
end

local function refuse_key(what, v)
  local is = v == nil and "nil" or v == value.NULL and "null" or rows.is_row(v) and "a row"
    or type(v) == "cdata" and value.text(v) or "a " .. type(v)
  local cure = value.is_decimal(v) and "; mt.str(v) makes text of it" or ""
  fault.raise(("%s: a key is text or a number, not %s%s"):format(what, is, cure))
end

local function number_key(what, v)
  if v ~= v then fault.raise(what .. ": NaN is no key: it is not equal to itself") end
  if v == floor(v) and v >= -2 ^ 63 and v < 2 ^ 63 then return integer_key(v) end
  return double_key(v)
end

-- The bytes of a key; good until the next key.
local function key_of(what, v)
  if type(v) == "string" then return text_key(what, v) end
  if type(v) == "number" then return number_key(what, v) end
  if type(v) == "cdata" and core.istype(int64, v) then return integer_key(v) end
  if type(v) == "cdata" and core.istype(uint64, v) then
    if v <= 9223372036854775807ULL then return integer_key(core.cast(int64, v)) end
    fault.raise(("%s: a key is within the range of int64, and %s is not"):format(what, value.text(v)))
  end
  return refuse_key(what, v)
end

local function word(bytes, at)
  local a, b, c, d = bytes:byte(at, at + 3)
  return tobit(a * 2 ^ 24 + b * 2 ^ 16 + c * 2 ^ 8 + d)
end

-- The value of a key's bytes.
local function read_key(bytes)
  local tag = bytes:byte()
  if tag == TEXT then return bytes:sub(2) end
  local high, low = word(bytes, 2), word(bytes, 6)
  if tag == INTEGER then
    bits.w[1], bits.w[0] = bxor(high, 0x80000000), low
    return value.integer(bits.i)
  end
  if high < 0 then high = bxor(high, 0x80000000) else high, low = bnot(high), bnot(low) end
  bits.w[1], bits.w[0] = high, low
  return bits.d
end

-- ---- the store of the core

--- The state of a checkpoint. What it could not read or keep, the function cannot make good: doom is told,
--- and the batch fails whatever the function does with the error.
---@param state ffi.cdata* struct mt_state *
---@param doom fun(problem: mt.Fault)
---@return mt.StateStore
function M.native(state, doom)
  local err, found, length = core.err, core.new "const void *[2]", core.new "size_t[2]"
  local function fail(text, class)
    local problem = fault.new(class, "FATAL", fault.place(fault.here()) .. "state: " .. text)
    doom(problem)
    error(problem, 0)
  end
  local function expect(status)
    if status ~= 0 then fail(core.failure()) end
  end
  return {
    get = function(bytes, n)
      expect(C.mt_state_get(state, bytes, n, found, length, err))
      if found[0] ~= nil then return found[0], tonumber(length[0]) end
    end,
    put = function(bytes, n, v, len) expect(C.mt_state_put(state, bytes, n, v, len, err)) end,
    delete = function(bytes, n) expect(C.mt_state_delete(state, bytes, n, err)) end,
    next = function(prefix, n, after)
      expect(C.mt_state_next(state, prefix, n, after, after and #after or 0, found, length, found + 1, length + 1,
        err))
      if found[0] == nil then return nil end
      return core.string(found[0], length[0]), found[1], tonumber(length[1])
    end,
    count = function()
      local n = tonumber(C.mt_state_count(state))
      if n < 0 then fail("the checkpoint cannot be read to count keys; the log says why", "CHECKPOINT") end
      return n
    end,
  }
end

-- ---- what the function sees

--- The value of a key, a copy: to change it, put it again. nil: there is none.
---@param name string|number|ffi.cdata* key
---@return any
function State:get(name)
  local bytes, length = self._store.get(key_of("state:get", name))
  if bytes == nil then return nil end
  local ok, v = pcall(cbor.decode, bytes, length)
  if not ok then fault.raise(("state:get(%s): %s"):format(value.text(name), v)) end
  return v
end

--- Gives a key a value: a number, text, boolean, decimal, int64, mt.null, or tables of these.
---@param name string|number|ffi.cdata* key
---@param v any
function State:put(name, v)
  if v == nil then
    fault.raise(("state:put(%s, nil): to take a key away write state:delete(%s); mt.null is a value"):format(
      value.text(name), value.text(name)))
  end
  local bytes, n = key_of("state:put", name)
  local ok, encoded, length = pcall(cbor.encode, v)
  if not ok then fault.raise(("state:put(%s): %s"):format(value.text(name), encoded)) end
  self._store.put(bytes, n, encoded, length)
end

--- Takes a key away; one that is not there is no error.
---@param name string|number|ffi.cdata* key
function State:delete(name)
  self._store.delete(key_of("state:delete", name))
end

--- Walks keys and values: integers, then other numbers, then text, each in its order. Puts and deletes
--- on the way are seen.
---@param prefix string? only text keys that begin so
---@return fun(): any, any
function State:pairs(prefix)
  local head = ""
  if prefix ~= nil then
    fault.expect("state:pairs: the prefix", prefix, "string")
    local bytes, n = text_key("state:pairs", prefix)
    head = core.string(bytes, n)
  end
  local after
  return function()
    if not object.is_a(self, State) then return self.pairs end -- its batch is over: raises
    local bytes, v, length = self._store.next(head, #head, after)
    if not bytes then return nil end
    after = bytes
    local name = read_key(bytes)
    local ok, decoded = pcall(cbor.decode, v, length)
    if not ok then fault.raise(("state:pairs at %s: %s"):format(value.text(name), decoded)) end
    return name, decoded
  end
end

--- How many keys there are.
---@return integer
function State:count()
  return self._store.count()
end

object.seal(State, {
  name = "state",
  newindex = "; write state:put(key, value)",
})
M.class = State

--- The state as a job sees it.
---@param store mt.StateStore
---@return mt.State
function M.of(store)
  return object.new(State, { _store = store })
end

return M
