-- SPDX-License-Identifier: Apache-2.0
local cjson = require "cjson"
local mt = require "moontide"
local support = require "spec.support"
local value = require "moontide.values"

local encode, decode = mt.json.encode, mt.json.decode

describe("mt.json.encode", function()
  it("writes numbers, int64 and decimals exactly", function()
    assert.equal("1760000000000001", encode(1760000000000001))
    assert.equal("9007199254740993", encode(9007199254740993LL))
    assert.equal("18446744073709551615", encode(18446744073709551615ULL))
    assert.equal("12345678901234567890.10", encode(value.decimal "12345678901234567890.10"))
    assert.equal("0.1", encode(0.1))
  end)

  it("writes null, and tells an empty array from an empty object", function()
    assert.equal("null", encode(nil))
    assert.equal("[null,1,null]", encode { mt.null, 1, mt.null })
    assert.equal("[null,1,null]", encode { nil, 1, nil, n = 3 })
    assert.equal("[null,1,null]", encode(mt.array(3, nil, 1)))
    assert.equal('{"a":null}', encode { a = mt.null })
    assert.equal("[] {}", encode(mt.array(0)) .. " " .. encode {})
  end)

  it("writes names in one order, numbers as names", function()
    assert.equal('{"a":1,"b":[true,{"c":"x"}],"z":2}', encode { z = 2, a = 1, b = { true, { c = "x" } } })
    assert.equal('{"n":3}', encode { n = 3 })
    assert.equal('{"0":"zero","9007199254740993":1}', encode { [0] = "zero", [9007199254740993LL] = 1 })
  end)

  it("escapes text", function()
    assert.equal('"a\\"b\\\\c\\n\\u0001\\u0000€"', encode "a\"b\\c\n\1\0€")
  end)

  it("says what is no JSON, and where", function()
    assert.matches("mt.json.encode: %.a%[2%]: JSON has no %-?nan", support.error_of(encode, { a = { 1, 0 / 0 } }))
    assert.matches("the value: JSON has no inf", support.error_of(encode, 1 / 0))
    assert.matches(".f: a function is no JSON", support.error_of(encode, { f = print }), 1, true)
    assert.matches(".t: the text is not UTF-8", support.error_of(encode, { t = "\255" }), 1, true)
    assert.matches("with elements and with names", support.error_of(encode, { 1, a = 2 }))
    assert.matches("there is an element 3 and a nil before it", support.error_of(encode, { 1, nil, 3 }))
    assert.matches('two keys are both "5" as text', support.error_of(encode, { [-1] = 0, [5LL] = 1, ["5"] = 2 }))
    assert.matches("a key is a table", support.error_of(encode, { [{}] = 1 }))
    local ring = {}
    ring.ring = ring
    assert.matches("more than 1000 tables deep, or holds itself", support.error_of(encode, ring))
  end)
end)

describe("mt.json.encode of a row", function()
  local DDL = [[id BIGINT, price DECIMAL(10,2), at TIMESTAMP, day DATE, raw BINARY, f FLOAT, x DOUBLE,
    tags ARRAY<STRING>, d STRUCT<a: INT, t: TIMESTAMP>, m MAP<INT, TIMESTAMP>, none STRING]]
  local ROW = { id = 9007199254740993LL, price = "1.50", at = "2026-05-01T10:00:00.5Z", day = "2026-05-01",
    raw = "hi\255", f = 0.1, x = 0.1, tags = { "a", mt.null }, d = { a = 1, t = 0 }, m = { [2] = 0, [1] = 1000 } }

  local function of(fn)
    local text
    support.run(mt.memoryStream(DDL):filter(function(row) text = fn(row) end), { ROW })
    return text
  end

  it("has all columns in the order of the schema, times as ISO text, bytes as base64", function()
    assert.equal('{"id":9007199254740993,"price":1.50,"at":"2026-05-01T10:00:00.500Z","day":"2026-05-01",'
      .. '"raw":"aGn/","f":0.1,"x":0.1,"tags":["a",null],"d":{"a":1,"t":"1970-01-01T00:00:00.000Z"},'
      .. '"m":{"1":"1970-01-01T00:00:00.001Z","2":"1970-01-01T00:00:00.000Z"},"none":null}',
      of(function(row) return encode(row) end))
  end)

  it("works on what is inside, in a table, and with changes", function()
    assert.equal('{"a":1,"t":"1970-01-01T00:00:00.000Z"}', of(function(row) return encode(row.d) end))
    assert.equal('{"d":{"a":1,"t":"1970-01-01T00:00:00.000Z"},"tags":["a",null]}',
      of(function(row) return encode { d = row.d, tags = row.tags } end))
    assert.matches('^{"id":7,"price":1.50,', of(function(row) return encode(mt.with(row, { id = 7 })) end))
  end)

  it("is read back by fromJson as the same values", function()
    local text = of(function(row) return encode(row) end)
    local rows = support.run(mt.memoryStream "value STRING":fromJson("value", [[id BIGINT, price DECIMAL(10,2),
      at TIMESTAMP, day DATE, raw BINARY, f FLOAT, x DOUBLE]]), { { value = text } })
    assert.equal("9007199254740993 1.50", mt.str(rows[1].id) .. " " .. mt.str(rows[1].price))
    assert.equal(mt.timestamp "2026-05-01T10:00:00.5Z", rows[1].at)
    assert.equal("hi\255", rows[1].raw)
  end)
end)

describe("mt.json.decode", function()
  it("reads whole numbers exactly, others as doubles", function()
    assert.equal(9007199254740992, decode "9007199254740992")
    assert.is_true(decode "9007199254740993" == 9007199254740993LL)
    assert.equal("-9223372036854775808", mt.str(decode "-9223372036854775808"))
    assert.equal("9223372036854775808", mt.str(decode "9223372036854775808"))
    assert.equal("cdata", type(decode "9223372036854775808"))
    assert.equal("number", type(decode "1234567890123456"))
    assert.equal(0.1, decode "0.1")
    assert.equal(100, decode "1e2")
    assert.equal("-0", mt.str(decode "-0"))
  end)

  it("keeps null, empty arrays and empty objects", function()
    local text = '{"a":null,"b":[],"c":{},"d":[null,1,null]}'
    assert.equal(text, encode(decode(text)))
    assert.equal(mt.null, decode(text).a)
    assert.equal(mt.null, decode "null")
  end)

  it("reads escapes", function()
    assert.equal("a\"\\/\b\f\n\r\tä€😀\127",
      decode('"a\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\u20AC\\ud83d\\ude00\127"'))
  end)

  it("names the character where it goes wrong", function()
    local cases = {
      [""] = "character 1: expected a value, found the end",
      ["{"] = "character 2: expected a name in quotes, found the end",
      ["[1,]"] = 'character 4: expected a value, found "]"',
      ["[1 2]"] = "character 4: expected ',' or ']', found \"2\"",
      ['{"a" 1}'] = "character 6: expected ':', found \"1\"",
      ['{"a":1,}'] = 'character 8: expected a name in quotes, found "}"',
      ['["ä" x]'] = "character 6: expected ',' or ']', found \"x\"",
      ["tru"] = 'character 1: expected a value, found "tru"',
      ["01"] = 'character 1: expected a value, found "01"',
      ["1.2.3"] = "is no number", ["1x"] = "is no number", ["- 1"] = "expected a value",
      ["1e99999999999999999999"] = "is beyond a double",
      ["1e999"] = "1e999 is beyond a double",
      ["1 2"] = 'character 3: expected the end, found "2"',
      ['"a'] = "character 1: a text that does not end",
      ['"a\nb"'] = "character 3: a control character in a text",
      ['"\\x"'] = "character 2: no such escape",
      ['"\\ud800"'] = "half a character", ['"\\udc00\\ud800"'] = "half a character",
      ['"\255"'] = "the text is not UTF-8",
      [("1"):rep(39)] = "more than 38 digits",
    }
    for text, words in pairs(cases) do assert.matches(words, support.error_of(decode, text), 1, true) end
    assert.matches("takes text, not nil", support.error_of(decode, nil))
  end)

  it("stops at a thousand arrays deep", function()
    assert.equal(1, #decode(("["):rep(1000) .. ("]"):rep(1000)))
    assert.matches("more than 1000 arrays and objects deep", support.error_of(decode, ("["):rep(100000)))
  end)
end)

describe("JSON of random values", function()
  local function text()
    local chars = {}
    for i = 1, math.random(0, 12) do
      chars[i] = ({ "a", "\"", "\\", "\n", "\0", "ä", "€", "😀", "\127", " " })[math.random(10)]
    end
    return table.concat(chars)
  end

  local make
  local scalars = {
    text, function() return math.random(-2 ^ 31, 2 ^ 31 - 1) end,
    function() return math.random() * 10 ^ math.random(-20, 20) end,
    function() return mt.null end, function() return math.random() > 0.5 end,
    function() return 9007199254740993LL * math.random(1, 1000) end,
    function() return math.random(-2 ^ 20, 2 ^ 20) * 2 ^ 30 end,
  }
  local function list(depth)
    local n, made = math.random(0, 4), {}
    for i = 1, n do made[i] = make(depth + 1) end
    return n == 0 and mt.array(0) or made
  end
  local function map(depth)
    local made = {}
    for _ = 1, math.random(0, 4) do made[text()] = make(depth + 1) end
    return made
  end
  function make(depth)
    if depth < 4 and math.random() < 0.5 then return (math.random() < 0.5 and list or map)(depth) end
    return scalars[math.random(#scalars)]()
  end

  it("is the same value, and the same text again", function()
    for _ = 1, 2000 do
      local v = make(0)
      local once = encode(v)
      assert.equal(once, encode(decode(once)))
    end
  end)

  it("is what another reader reads", function()
    for _ = 1, 500 do
      local v = make(1)
      local theirs = cjson.decode("[" .. encode(v) .. "]")[1]
      if type(v) == "string" or type(v) == "boolean" then assert.equal(v, theirs) end
      if type(v) == "number" then assert.is_true(math.abs(v - theirs) <= math.abs(v) * 1e-13) end
    end
  end)

  it("damaged anywhere is read or refused, never worse", function()
    for _ = 1, 3000 do
      local whole = encode(make(0))
      local at = math.random(0, #whole)
      local broken = whole:sub(1, at) .. string.char(math.random(0, 255)) .. whole:sub(at + math.random(1, 3))
      local ok, problem = pcall(decode, broken)
      assert(ok or tostring(problem):find("mt.json.decode: ", 1, true), problem)
    end
  end)
end)
