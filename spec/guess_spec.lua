-- SPDX-License-Identifier: Apache-2.0
local guess = require "moontide.cli.guess"

local function ddl_of(...)
  local all
  for _, text in ipairs { ... } do
    local one = guess.object(text)
    assert(one, text)
    all = guess.merge(all, one)
  end
  return guess.ddl(all)
end

describe("the columns that JSON suggests", function()
  it("are of the types its values have, in the order they were met", function()
    assert.equal("z BIGINT, a DOUBLE, b BOOLEAN, s STRING, d DATE, t TIMESTAMP",
      ddl_of [[ {"z":-1, "a":1.0, "b":false, "s":"x", "d":"2026-11-30", "t":"2026-11-30T10:00:00.5+01:00"} ]])
  end)

  it("are DOUBLE for a whole number that no BIGINT holds", function()
    assert.equal("a BIGINT, b BIGINT, c DOUBLE, d DOUBLE",
      ddl_of [[{"a":9223372036854775807,"b":-9223372036854775808,"c":9223372036854775808,"d":1e3}]])
  end)

  it("nest", function()
    assert.equal("l ARRAY<BIGINT>, s STRUCT<a: STRING, b: ARRAY<STRUCT<c: BOOLEAN>>>",
      ddl_of [[{"l":[null,1],"s":{"a":"x","b":[{"c":true},{}]}}]])
  end)

  it("keep as text what has no fields or was never seen with a value", function()
    assert.equal("a STRING, b STRING, c ARRAY<STRING>", ddl_of [[{"a":null,"b":{},"c":[]}]])
  end)

  it("hold for all documents: numbers widen, null says nothing, what differs is text", function()
    assert.equal("a DOUBLE, b BIGINT, c STRING, d STRING, e BIGINT",
      ddl_of([[{"a":1,"b":null,"c":1,"d":"2026-11-30"}]], [[{"a":0.5,"b":2,"c":[1],"d":"soon","e":3}]]))
    assert.equal("s STRUCT<a: BIGINT, b: STRING>", ddl_of([[{"s":{"a":1}}]], [[{"s":{"b":"x"}}]]))
  end)

  it("quote names that are no words, and leave out names with escapes", function()
    assert.equal("`a b` BIGINT, `x``y` BIGINT, `1` BIGINT", ddl_of [[{"a b":1,"x`y":2,"1":3,"q\"":4}]])
  end)

  it("are none for what is not one whole JSON object", function()
    for _, text in ipairs { "", "7", "[1]", "{", [[{"a"}]], [[{"a":1} x]], [[{"a":nul}]], [[{"a":"x}]], [[{"a":1,}]],
      [[{a:1}]], [[{"a":--1}]], [[{"a":"\]], ("["):rep(1000), ('{"a":'):rep(1000) .. "1" .. ("}"):rep(1000) } do
      assert.is_nil(guess.object(text), text)
    end
  end)
end)
