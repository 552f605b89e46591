-- SPDX-License-Identifier: Apache-2.0
local cbor = require "moontide.values.cbor"
local core = require "moontide._core"
local mt = require "moontide"
local support = require "spec.support"
local value = require "moontide.values"

local function bytes_of(v)
  return core.string(cbor.encode(v))
end

local function decode(bytes)
  return cbor.decode(core.cstring(bytes), #bytes)
end

local function again(v)
  return decode(bytes_of(v))
end

local function hex(v)
  return (bytes_of(v):gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

describe("a value of the state", function()
  it("is written as the standard's own examples are", function()
    for text, v in pairs {
      ["00"] = 0, ["17"] = 23, ["1818"] = 24, ["1864"] = 100, ["1a000f4240"] = 1000000, ["20"] = -1, ["3863"] = -100,
      ["1b000000e8d4a51000"] = 1000000000000, ["fb3ff199999999999a"] = 1.1, ["fb7e37e43c8800759c"] = 1e300,
      ["fb8000000000000000"] = -0.0, ["fb7ff0000000000000"] = 1 / 0, ["fbfff0000000000000"] = -1 / 0,
      ["f4"] = false, ["f5"] = true, ["f6"] = mt.null, ["60"] = "", ["6449455446"] = "IETF", ["62c3bc"] = "ü",
      ["4401020304ff"] = nil, ["a0"] = {}, ["83010203"] = { 1, 2, 3 }, ["a201020304"] = { [1] = 2, [3] = 4 },
      ["a26161016162820203"] = { a = 1, b = { 2, 3 } }, ["1bffffffffffffffff"] = 18446744073709551615ULL,
      ["3b7fffffffffffffff"] = -9223372036854775807LL - 1, ["1b7fffffffffffffff"] = 9223372036854775807LL,
    } do
      assert.equal(text, hex(v))
    end
    assert.equal("43ff0102", hex "\255\1\2")
    assert.equal("c48221196ab3", hex(value.decimal "273.15"))
  end)

  it("comes back as it was, at the edges of each kind", function()
    for _, v in ipairs {
      0, 1, -1, 23, 24, -24, -25, 255, 256, 65535, 65536, 4294967295, 4294967296, -4294967296, -4294967297,
      2 ^ 53, -2 ^ 53, 2 ^ 53 - 1, 2 ^ 60, -2 ^ 63, 1e308, 5e-324, 0.1, -0.5, 1 / 0, -1 / 0, "", "text", "\0\255",
      ("x"):rep(70000), true, false,
    } do
      assert.equal(v, again(v))
    end
    assert.equal(-1 / 0, 1 / again(-0.0))
    for _, v in ipairs { 9007199254740993LL, -9007199254740993LL, 9223372036854775807LL, -9223372036854775807LL - 1 } do
      assert.is_true(core.istype("int64_t", again(v)) and again(v) == v)
    end
    assert.is_true(again(18446744073709551615ULL) == 18446744073709551615ULL)
    assert.equal("number", type(again(5LL)))
    assert.equal("number", type(again(9007199254740992LL)))
  end)

  it("may be a decimal, with its digits and its scale", function()
    for _, digits in ipairs { "0", "0.00", "1.50", "-1.50", "9223372036854775807", "-9223372036854775808",
      "9223372036854775808", "-9223372036854775809", "18446744073709551616", "-18446744073709551616",
      ("9"):rep(38), "-" .. ("9"):rep(38), "0." .. ("9"):rep(38), "-0." .. ("0"):rep(37) .. "1" } do
      local d = again(value.decimal(digits))
      assert.is_true(value.is_decimal(d))
      assert.equal(digits, tostring(d))
    end
  end)

  it("keeps null inside tables, and an empty list apart from an empty table", function()
    assert.same({ 1, mt.null, 3 }, again { 1, mt.null, 3 })
    assert.equal(mt.null, again({ a = mt.null }).a)
    assert.equal("82a080", hex { {}, again(decode "\128") })
    assert.equal("81f6", hex { mt.null })
  end)

  it("has the same bytes whatever order its keys were put in", function()
    local one, other, names = {}, {}, {}
    for i = 1, 50 do names[i] = i % 3 == 0 and i * 1.5 or "k" .. i end
    for i = 1, 50 do one[names[i]] = i end
    for i = 50, 1, -1 do other[names[i]] = i end
    assert.equal(bytes_of(one), bytes_of(other))
  end)

  it("may have int64 as keys of its tables, each once", function()
    local t = { [9007199254740993LL] = "big", [true] = 1, [1] = "one", x = 2 }
    local found
    for key, v in pairs(again(t)) do
      if type(key) == "cdata" then found = { tostring(key), v } end
    end
    assert.same({ "9007199254740993LL", "big" }, found)
    assert.matches("two keys of a table are the int64 9007199254740993",
      support.error_of(cbor.encode, { [9007199254740993LL] = 1, [9007199254740992LL + 1] = 2 }))
  end)

  it("cannot be what cannot come back", function()
    local loop = {}
    loop.x = loop
    for words, v in pairs {
      ["NaN cannot be kept"] = 0 / 0, ["a function cannot be kept"] = print, ["a thread cannot be kept"] =
        coroutine.create(print), ["100 deep"] = loop, ["a table with a table as a key"] = { [{}] = 1 },
    } do
      assert.matches(words, support.error_of(cbor.encode, v))
      assert.matches(words, support.error_of(cbor.encode, { { v } }))
    end
    assert.matches("cannot be kept", support.error_of(cbor.encode, core.new "int32_t[1]"))
    support.run(mt.memoryStream "n INT":filter(function(row)
      assert.matches("keep mt.totable%(row%)", support.error_of(cbor.encode, row))
      assert.same({ n = 7 }, again(mt.totable(row)))
      return true
    end), { { n = 7 } })
  end)

  local function any(random, depth)
    local kind = random(depth > 3 and 9 or 12)
    if kind == 1 then return random(-100, 100) end
    if kind == 2 then return (random() - 0.5) * 10 ^ random(-300, 300) end
    if kind == 3 then return math.floor((random() - 0.5) * 2 ^ 54) end
    if kind == 4 then return 9007199254740993LL * random(1, 1000) * (random(2) * 2 - 3) end
    if kind == 5 then return random(2) == 1 end
    if kind == 6 then return mt.null end
    if kind == 7 then return ("é"):rep(random(0, 40)) end
    if kind == 8 then
      local bytes = {}
      for i = 1, random(0, 300) do bytes[i] = string.char(random(0, 255)) end
      return table.concat(bytes)
    end
    if kind == 9 then
      local digits = {}
      for i = 1, random(1, 38) do digits[i] = random(0, 9) end
      return value.decimal((random(2) == 1 and "-" or "") .. "1" .. table.concat(digits, "", 2))
    end
    local made = {}
    for i = 1, random(0, 6) do
      made[kind == 10 and i or random(2) == 1 and "k" .. random(100) or random(100)] = any(random, depth + 1)
    end
    return made
  end

  it("of any make comes back as the same bytes", function()
    math.randomseed(7)
    for _ = 1, 2000 do
      local bytes = bytes_of(any(math.random, 0))
      assert.equal(bytes, bytes_of(decode(bytes)))
    end
  end)

  it("may be tables in tables a hundred deep, and no deeper", function()
    local function nested(depth)
      local v = {}
      for _ = 2, depth do v = { v } end
      return v
    end
    assert.equal(bytes_of(nested(100)), bytes_of(decode(bytes_of(nested(100)))))
    assert.matches("tables are more than 100 deep", support.error_of(cbor.encode, nested(101)))
  end)

  it("that was damaged is an error, whatever the damage", function()
    math.randomseed(8)
    for _ = 1, 3000 do
      local bytes = bytes_of(any(math.random, 0))
      local at = math.random(#bytes)
      local harmed = math.random(2) == 1 and bytes:sub(1, at - 1)
        or bytes:sub(1, at - 1) .. string.char(math.random(0, 255)) .. bytes:sub(at + 1)
      local ok, problem = pcall(decode, harmed)
      assert.is_true(ok or tostring(problem):find("the value is damaged", 1, true) ~= nil, problem)
      if ok then pcall(bytes_of, decode(harmed)) end
    end
  end)

  it("that promises more than there is, or lies deep, costs nothing", function()
    for _, bytes in ipairs { "\155\255\255\255\255\255\255\255\255", "\154\127\255\255\255", "\187\0\0\0\1\0\0\0\0",
      "\91\255\255\255\255\255\255\255\255", ("\129"):rep(100000), ("\129"):rep(100) .. "\0\0", ("\196\130"):rep(1000),
      "", "\24", "\251\1", "\249\0\0", "\159\255", "\192\0", "\247", "\251\127\248\0\0\0\0\0\0", "\162a\1a\2",
      "\161\246\1", "\196\130\1\2", "\196\130\33\99", "\196\131\33\1\1", "\196\130\33\193\80",
      "\59\255\255\255\255\255\255\255\255" } do
      assert.matches("the value is damaged", support.error_of(decode, bytes))
    end
  end)
end)
