-- SPDX-License-Identifier: Apache-2.0
local mt = require "moontide"
local support = require "spec.support"
local value = require "moontide.values"

describe("the text of a value", function()
  it("is exact for numbers above 1e14", function()
    assert.equal("1760000000000001", value.text(1760000000000001))
    assert.equal("9007199254740992", value.text(2 ^ 53))
    assert.equal("-9007199254740991", value.text(-(2 ^ 53 - 1)))
  end)

  it("has no mark of a 64-bit integer", function()
    assert.equal("9007199254740993", value.text(9007199254740993LL))
    assert.equal("18446744073709551615", value.text(18446744073709551615ULL))
  end)

  it("reads back equal for every double", function()
    for _, v in ipairs { 69.01, 0.1, 1 / 3, 1e21, 5e-324, 1.7976931348623157e308, 123456789.123456789, -0.5 } do
      assert.equal(v, tonumber(value.text(v)))
    end
    assert.equal("69.01", value.text(69.01))
    assert.equal("-0", value.text(-0.0))
  end)

  it("leaves other values to tostring", function()
    assert.equal("nil", value.text(nil))
    assert.equal("true", value.text(true))
    assert.equal("null", value.text(mt.null))
  end)

  it("is what %s of a job's string.format writes", function()
    assert.equal("1760000000000001 and 9007199254740993",
      value.format("%s and %s", 1760000000000001, 9007199254740993LL))
    assert.equal("50% of x, 007", value.format("%d%% of %s, %03d", 50, "x", 7))
    assert.equal("  1.5|1.5  ", value.format("%5s|%-5s", 1.5, 1.5))
  end)
end)

describe("decimals", function()
  local function decimal(text) return assert(value.decimal(text)) end

  it("compare with their like, whole numbers, int64 and decimal text", function()
    assert.is_true(decimal "1.50" == decimal "1.5")
    assert.is_true(decimal "1.50" < decimal "1.51")
    assert.is_true(decimal "-2" <= decimal "-2.00")
    assert.is_true(decimal "3.00" == 3)
    assert.is_true(decimal "3.01" > 3)
    assert.is_true(decimal "9007199254740993" == 9007199254740993LL)
    assert.is_true(decimal "0.1" == "0.10")
    assert.is_true("0.2" > decimal "0.1")
    assert.is_true(decimal "99999999999999999999999999999999999999" > 1)
  end)

  it("are not equal to nil or to other things", function()
    assert.is_false(decimal "0" == nil)
    assert.is_true(decimal "0" ~= nil)
    assert.is_false(decimal "1" == true)
    assert.is_false(decimal "1" == mt.null)
  end)

  it("do not compare with a fraction that may be rounded", function()
    local problem = support.error_of(function() return decimal "1.5" < 1.5 end)
    assert.matches('write it as text: "1.5"', problem, 1, true)
    assert.matches("spec/value_spec.lua:" .. support.line() - 2 .. ":", problem, 1, true)
  end)

  it("say what they do not compare with", function()
    assert.matches("compare a decimal with nil", support.error_of(function() return decimal "1" < nil end))
    assert.matches('"x" is not a decimal', support.error_of(function() return decimal "1" == "x" end))
  end)

  it("print exactly", function()
    assert.equal("-12345678901234567890.12", tostring(decimal "-12345678901234567890.12"))
    assert.equal("is 1.50", "is " .. decimal "1.50")
  end)

  it("add, subtract and multiply exactly, with their like, whole numbers, int64 and text", function()
    assert.equal("0.30", tostring(decimal "0.10" + decimal "0.2"))
    assert.equal("2.50", tostring(decimal "1.50" + 1))
    assert.equal("2.50", tostring(1 + decimal "1.50"))
    assert.equal("-0.50", tostring(1 - decimal "1.50"))
    assert.equal("9007199254740994.50", tostring(decimal "1.50" + 9007199254740993LL))
    assert.equal("9007199254740994.50", tostring(9007199254740993LL + decimal "1.50"))
    assert.equal("1.60", tostring("0.1" + decimal "1.50"))
    assert.equal("3.7500", tostring(decimal "1.50" * decimal "2.50"))
    assert.equal("-1.50", tostring(-decimal "1.50"))
    assert.equal("0.00", tostring(-decimal "0.00"))
    assert.equal("-4.50", tostring(decimal "1.50" * -3))
  end)

  it("divide; what does not end is rounded half up at the 18th digit", function()
    assert.equal("2.50", tostring(decimal "10.00" / 4))
    assert.equal("3.333333333333333333", tostring(decimal "10.00" / 3))
    assert.equal("6.666666666666666667", tostring(decimal "20" / 3))
    assert.equal("-0.666666666666666667", tostring(decimal "-2" / 3))
    assert.equal("0.5", tostring(1 / decimal "2.0"))
    assert.equal("100", tostring(decimal "1" / "0.01" / 1 - 0):match "^%d+")
    assert.matches("1.50 / 0: division by zero", support.error_of(function() return decimal "1.50" / 0 end))
  end)

  it("round half up to so many digits", function()
    assert.equal("3.33", tostring((decimal "10.00" / 3):round(2)))
    assert.equal("0.13", tostring(decimal("0.125"):round(2)))
    assert.equal("-0.13", tostring(decimal("-0.125"):round(2)))
    assert.equal("2", tostring(decimal("1.5"):round(0)))
    assert.equal("1.500", tostring(decimal("1.5"):round(3)))
    assert.matches("round takes 0 to 38 digits", support.error_of(function() return decimal("1.5"):round(-1) end))
  end)

  it("of more than 38 digits are errors", function()
    local most = decimal(("9"):rep(38))
    assert.matches("has more than 38 digits", support.error_of(function() return most + 1 end))
    assert.matches("has more than 38 digits", support.error_of(function() return most * 10 end))
    assert.matches("has more than 38 digits", support.error_of(function() return most + decimal "0.1" end))
    assert.matches("has more than 38 digits", support.error_of(function() return most / "0.1" end))
    assert.equal("0.0", tostring(most - most + decimal "0.0"))
    assert.equal("1" .. ("0"):rep(37), tostring(decimal("1" .. ("0"):rep(36) .. ".0") * 10))
  end)

  it("say in Lua's words what they are not computed with", function()
    local problem = support.error_of(function() return decimal "1.5" + 0.5 end)
    assert.matches('the number 0.5: that may be rounded already; write it as text: "0.5"', problem, 1, true)
    assert.matches("spec/value_spec.lua:" .. support.line() - 2 .. ":", problem, 1, true)
    assert.matches("attempt to perform arithmetic on a nil value", support.error_of(function()
      return decimal "1" + nil
    end))
    assert.matches("arithmetic on a table value", support.error_of(function() return {} * decimal "1" end))
    assert.matches("decimals know %+ %- %* / and comparison", support.error_of(function() return decimal "7" % 2 end))
  end)

  it("compute as whole numbers do", function()
    for _ = 1, 3000 do
      local scale_a, scale_b = math.random(0, 3), math.random(0, 3)
      local a, b = math.random(-1e6, 1e6), math.random(-1e6, 1e6)
      local function of(n, scale)
        local d = decimal(tostring(n))
        for _ = 1, scale do d = d * "0.1" end
        return d
      end
      local x, y, unit = of(a, scale_a), of(b, scale_b), 10 ^ math.max(scale_a, scale_b)
      local wide_a, wide_b = a * unit / 10 ^ scale_a, b * unit / 10 ^ scale_b
      assert.is_true((x + y) * unit == wide_a + wide_b)
      assert.is_true((x - y) * unit == wide_a - wide_b)
      assert.is_true(x * y * 10 ^ (scale_a + scale_b) == a * b)
      if b ~= 0 then
        local rest = x - x / y * y
        assert.is_true((rest < 0 and -rest or rest) < "0.000000001")
      end
      assert.equal(wide_a < wide_b, x < y)
    end
  end)
end)

describe("mt.date", function()
  it("gives the UTC day of microseconds", function()
    assert.equal("1970-01-01", mt.date(0))
    assert.equal("1969-12-31", mt.date(-1))
    assert.equal("2026-05-01", mt.date(mt.timestamp "2026-05-01T23:59:59.999999Z"))
    assert.equal("2026-05-02", mt.date(mt.timestamp "2026-05-02T00:00:00Z"))
  end)

  it("is exact to the microsecond beyond 2^53", function()
    local midnight = 104249991LL * 86400000000LL -- in the year 287,396
    assert.not_equal(mt.date(midnight), mt.date(midnight - 1))
    assert.equal(mt.date(midnight), mt.date(midnight + 86399999999LL))
  end)

  it("gives null for null and refuses text", function()
    assert.is_nil(mt.date(nil))
    assert.is_nil(mt.date(mt.null))
    assert.matches("read it with mt.timestamp first", support.error_of(mt.date, "2026-05-01"))
  end)
end)

describe("mt.timestamp", function()
  it("reads ISO text with a zone", function()
    assert.equal(1777629600000000, mt.timestamp "2026-05-01T10:00:00Z")
    assert.equal(1777629600500000, mt.timestamp "2026-05-01 12:00:00.5+02:00")
    assert.equal(1777629600000001, mt.timestamp "2026-05-01T10:00:00.000001Z")
  end)

  it("refuses text without a zone, a date alone, and nonsense", function()
    for _, text in ipairs { "2026-05-01T10:00:00", "2026-05-01", "10:00Z", "2026-13-01T10:00:00Z", "", "now" } do
      assert.matches("is not a time with a zone", support.error_of(mt.timestamp, text))
    end
  end)

  it("adds up parts since 1970 and reads parts of a day", function()
    assert.equal(1500250, mt.timestamp { sec = 1, ms = 500, us = 250 })
    assert.equal(1777629600000000, mt.timestamp { year = 2026, month = 5, day = 1, hour = 10 })
  end)

  it("names a part that it does not know", function()
    assert.matches('unknown part "secs"', support.error_of(mt.timestamp, { secs = 1 }))
    assert.matches("there is no day 2026%-2%-30", support.error_of(mt.timestamp, { year = 2026, month = 2, day = 30 }))
  end)
end)

-- ---- the table of values: each type read from a column and written by map

local stored, refused = support.stored, support.refused

describe("a value written and read as", function()
  it("STRING is a string, checked as UTF-8", function()
    for _, text in ipairs { "", "x", "häßlich €", "a\0b", ("long "):rep(1000) } do
      assert.equal(text, stored("STRING", text))
    end
    for _, bytes in ipairs { "\255", "\195", "\237\160\128", "\192\128", "ok \244\144\128\128" } do
      assert.matches("v is STRING; .* is not UTF%-8", refused("STRING", bytes))
    end
    assert.matches("takes strings %(mt.str%(v%) makes one%), not the number 5", refused("STRING", 5))
    assert.matches("not a table", refused("STRING", {}))
  end)

  it("BINARY is a string of any bytes", function()
    assert.equal("\0\255\195", stored("BINARY", "\0\255\195"))
    assert.matches("takes strings of bytes", refused("BINARY", 5))
  end)

  it("BOOLEAN is a boolean", function()
    assert.is_true(stored("BOOLEAN", true))
    assert.is_false(stored("BOOLEAN", false))
    assert.matches("takes true or false, not the number 1", refused("BOOLEAN", 1))
    assert.matches('takes true or false, not "true"', refused("BOOLEAN", "true"))
  end)

  it("TINYINT, SMALLINT and INT are whole numbers in range", function()
    for type_, top in pairs { TINYINT = 127, SMALLINT = 32767, INT = 2147483647 } do
      assert.equal(top, stored(type_, top))
      assert.equal(-top - 1, stored(type_, -top - 1))
      assert.equal(7, stored(type_, 7LL))
      assert.matches("ends at .*; " .. top + 1 .. " does not fit", refused(type_, top + 1))
      assert.matches("does not fit", refused(type_, -top - 2))
      assert.matches("takes whole numbers, not the number 1.5", refused(type_, 1.5))
      assert.matches("takes whole numbers", refused(type_, 0 / 0))
      assert.matches('takes whole numbers, not "5"', refused(type_, "5"))
      assert.matches("8589934592 does not fit", refused(type_, 2147483648LL * 4))
    end
  end)

  it("BIGINT is a number within 2^53, else int64", function()
    assert.equal(2 ^ 53, stored("BIGINT", 2 ^ 53))
    assert.equal("number", type(stored("BIGINT", 2 ^ 53)))
    assert.equal("number", type(stored("BIGINT", 5LL)))
    local big = stored("BIGINT", 9007199254740993LL)
    assert.equal("cdata", type(big))
    assert.is_true(big == 9007199254740993LL)
    assert.is_true(stored("BIGINT", -9223372036854775807LL - 1) == -9223372036854775807LL - 1)
    assert.is_true(stored("BIGINT", "9223372036854775807") == 9223372036854775807LL)
    assert.is_true(stored("BIGINT", "-9223372036854775808") == -9223372036854775807LL - 1)
    assert.equal(-12, stored("BIGINT", "-12"))
    assert.equal(3, stored("BIGINT", 3ULL))
    assert.matches("is above 2^53 and may be rounded already", refused("BIGINT", 2 ^ 53 + 2), 1, true)
    assert.matches("takes whole numbers", refused("BIGINT", 0.5))
    assert.matches("takes whole numbers", refused("BIGINT", 1 / 0))
    assert.matches("takes whole numbers", refused("BIGINT", "9223372036854775808"))
    assert.matches("takes whole numbers", refused("BIGINT", "1e3"))
    assert.matches("takes whole numbers", refused("BIGINT", 18446744073709551615ULL))
  end)

  it("FLOAT and DOUBLE are numbers", function()
    assert.equal(0.1, stored("DOUBLE", 0.1))
    assert.equal(1 / 0, stored("DOUBLE", 1 / 0))
    assert.equal(0.5, stored("FLOAT", 0.5))
    assert.equal(-1 / 0, stored("FLOAT", -1 / 0))
    local nan = stored("FLOAT", 0 / 0)
    assert.not_equal(nan, nan)
    assert.equal(3.4028234663852886e38, stored("FLOAT", 3.4028234663852886e38))
    assert.matches("v is FLOAT; 1e%+39 does not fit", refused("FLOAT", 1e39))
    assert.matches('takes numbers, not "1"', refused("DOUBLE", "1"))
    assert.matches("takes numbers", refused("DOUBLE", 1LL))
  end)

  it("DECIMAL is exact, from decimals, whole numbers and text", function()
    assert.equal("1.50", tostring(stored("DECIMAL(10,2)", "1.5")))
    assert.equal("-3.00", tostring(stored("DECIMAL(10,2)", -3)))
    assert.equal("7.00", tostring(stored("DECIMAL(10,2)", 7LL)))
    assert.equal("0.10", tostring(stored("DECIMAL(10,2)", value.decimal "0.1")))
    local big = "99999999999999999999999999999999999999"
    assert.equal(big, tostring(stored("DECIMAL(38,0)", big)))
    assert.matches("1.005 has more than 2 digits after the point", refused("DECIMAL(10,2)", "1.005"))
    assert.matches("123 has too many digits", refused("DECIMAL(4,2)", 123))
    assert.matches("the number 1.5 may be rounded already; use decimal text", refused("DECIMAL(10,2)", 1.5))
    assert.matches('"x" is not a decimal', refused("DECIMAL(10,2)", "x"))
    assert.matches("takes decimals, whole numbers or decimal text", refused("DECIMAL(10,2)", true))
  end)

  it("DATE is YYYY-MM-DD", function()
    for _, day in ipairs { "1970-01-01", "2026-11-29", "0001-01-01", "9999-12-31", "1969-12-31" } do
      assert.equal(day, stored("DATE", day))
    end
    for _, wrong in ipairs { "2026-1-5", "2026-02-30", "2026-01-01T10:00:00Z", "", "today", 20000, true } do
      assert.matches("v is DATE and takes \"YYYY-MM-DD\"", refused("DATE", wrong), 1, true)
    end
  end)

  it("TIMESTAMP is microseconds, as BIGINT, and ISO text with a zone", function()
    assert.equal(1777629600000001, stored("TIMESTAMP", 1777629600000001))
    assert.equal(1777629600000001, stored("TIMESTAMP", "2026-05-01T10:00:00.000001Z"))
    assert.is_true(stored("TIMESTAMP", 9007199254740993LL) == 9007199254740993LL)
    assert.matches("is not a time with a zone", refused("TIMESTAMP", "2026-05-01T10:00:00"))
    assert.matches("takes whole microseconds", refused("TIMESTAMP", 0.5))
    assert.matches("takes whole microseconds", refused("TIMESTAMP", true))
  end)

  it("null is nil, from nil and from mt.null", function()
    for _, type_ in ipairs { "STRING", "BINARY", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT",
      "DOUBLE", "DECIMAL(10,2)", "DATE", "TIMESTAMP" } do
      assert.is_nil(stored(type_, nil))
      assert.is_nil(stored(type_, mt.null))
    end
    assert.matches("v is NOT NULL and is null here", refused("INT NOT NULL", nil))
  end)
end)

describe("a column of many rows", function()
  it("keeps values and nulls of every type in their rows", function()
    local ddl = [[s STRING, z BINARY, b BOOLEAN, t TINYINT, i INT, l BIGINT, f FLOAT, d DOUBLE,
      m DECIMAL(10,2), y DATE, ts TIMESTAMP]]
    local rows = {}
    for n = 1, 3000 do
      local row = { s = "s" .. n, z = "\255" .. n, b = n % 2 == 0, t = n % 100, i = n, l = n * 2 ^ 40,
        f = n / 4, d = n / 3, m = tostring(n) .. ".25", y = mt.date(n * 86400000000), ts = n }
      for name in pairs(row) do
        if (n + #name) % 7 == 0 or math.random() < 0.1 then row[name] = nil end
      end
      rows[n] = row
    end
    local stream = mt.memoryStream(ddl)
    local all = stream:map(ddl, function(row)
      return { s = row.s, z = row.z, b = row.b, t = row.t, i = row.i, l = row.l, f = row.f, d = row.d,
        m = row.m, y = row.y, ts = row.ts }
    end)
    local back = support.run(all, rows)
    assert.equal(#rows, #back)
    for n, row in ipairs(rows) do
      for _, name in ipairs(stream.columns) do
        local got = back[n][name]
        if name == "m" and got ~= nil then got = tostring(got) end
        assert.equal(row[name], got)
      end
    end
  end)
end)
