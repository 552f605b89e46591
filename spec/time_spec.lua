-- SPDX-License-Identifier: Apache-2.0
-- Times as text, and the session's time zone.
local mt = require "moontide"
local support = require "spec.support"
local value = require "moontide.values"

local TS = mt.timestamp "2026-05-01T09:07:05.012345Z"

local function in_zone(name, fn)
  assert(value.use_zone(name))
  local ok, problem = pcall(fn)
  value.use_zone "UTC"
  if not ok then error(problem, 0) end
end

describe("mt.fmt", function()
  local cases = {
    { "yyyy-MM-dd HH:mm:ss.SSSSSS", "2026-05-01 09:07:05.012345" },
    { "yy y yyy yyyyy u uuuu", "26 2026 2026 02026 2026 2026" },
    { "M MM MMM MMMM L LLLL", "5 05 May May 5 May" },
    { "d dd D DDD F", "1 01 121 121 1" },
    { "E EEE EEEE", "Fri Fri Friday" },
    { "Q QQ QQQ QQQQ q", "2 02 Q2 2nd quarter 2" },
    { "H HH k K h hh a", "9 09 9 9 9 09 AM" },
    { "m mm s ss", "7 07 5 05" },
    { "S SSS SSSSSSSSS", "0 012 012345000" },
    { "X XX XXX x xxx Z ZZZZ ZZZZZ O OOOO VV", "Z Z Z +00 +00:00 +0000 GMT Z GMT GMT UTC" },
    { "G GGGG", "AD Anno Domini" },
    { "'at' HH''mm '''quoted''' ''", "at 09'07 'quoted' '" },
    { "dd.MM.yyyy, HH/mm", "01.05.2026, 09/07" },
    { "", "" },
  }
  for _, case in ipairs(cases) do
    it(("writes %q"):format(case[1]), function() assert.equal(case[2], mt.fmt(TS, case[1])) end)
  end

  it("knows noon, midnight, the years before Christ and after 9999", function()
    assert.equal("12 12 0 12 PM", mt.fmt(12 * 3600 * 1000000, "H k K h a"))
    assert.equal("0 24 0 12 AM", mt.fmt(0, "H k K h a"))
    assert.equal("0001 BC -0000", (mt.fmt(mt.timestamp "0000-03-01T00:00:00Z", "yyyy G") .. " -0000"))
    assert.equal("+12026", mt.fmt(mt.timestamp "+12026-01-01T00:00:00Z", "yyyy"))
    assert.equal("366", mt.fmt(mt.timestamp "2024-12-31T23:59:59Z", "D"))
    assert.equal("1969-12-31 23:59:59.999999", mt.fmt(-1, "yyyy-MM-dd HH:mm:ss.SSSSSS"))
  end)

  it("takes int64, a DATE, and null", function()
    assert.equal("287396", mt.fmt(104249991LL * 86400000000LL, "u"))
    assert.equal("Fri 00", mt.fmt("2026-05-01", "E HH"))
    assert.is_nil(mt.fmt(nil, "yyyy"))
    assert.is_nil(mt.fmt(mt.null, "yyyy"))
  end)

  it("refuses letters that it does not know, and too many of one", function()
    assert.matches("has the letter w, which is not known; there are G y u M L Q", support.error_of(mt.fmt, TS, "w"))
    assert.matches("has the letter T, which is not known; .* text in single quotes",
      support.error_of(mt.fmt, TS, "yyyy-MM-ddTHH"))
    assert.matches("has 3 of the letter H", support.error_of(mt.fmt, TS, "HHH"))
    assert.matches("has 1 of the letter V", support.error_of(mt.fmt, TS, "V"))
    assert.matches("has a quote that is not closed", support.error_of(mt.fmt, TS, "yyyy 'at"))
    assert.matches("stands for itself only in single quotes", support.error_of(mt.fmt, TS, "[yyyy]"))
    assert.matches("takes a pattern such as", support.error_of(mt.fmt, TS))
    assert.matches("takes a TIMESTAMP .* not x", support.error_of(mt.fmt, "x", "yyyy"))
  end)
end)

describe("mt.timestamp", function()
  it("names the part that is wrong, at the line of the call", function()
    local function refused(t) return support.error_of(function() return (mt.timestamp(t)) end) end
    local line = support.line() - 1
    assert.equal(("spec/time_spec.lua:%d: mt.timestamp: sec is a number, not x"):format(line), refused { sec = "x" })
    assert.equal(("spec/time_spec.lua:%d: mt.timestamp: min is a whole number, not 1.5"):format(line),
      refused { year = 2026, min = 1.5 })
    assert.equal(("spec/time_spec.lua:%d: mt.timestamp: there is no day 2026-2-30"):format(line),
      refused { year = 2026, month = 2, day = 30 })
    assert.matches("us is a number, not inf", refused { us = 1 / 0 })
    assert.matches("ms is a number, not null", refused { ms = mt.null })
    assert.matches("month is a whole number, not x", refused { year = 2026, month = "x" })
    assert.matches('unknown part "yer"; did you mean "year"?', refused { yer = 1 }, 1, true)
  end)

  it("adds 64-bit integers exactly", function()
    assert.equal(5000000, mt.timestamp { sec = 5LL })
    assert.is_true(mt.timestamp { us = 9007199254740993LL } == 9007199254740993LL)
    assert.is_true(mt.timestamp { sec = 9007199254LL, us = 740993 } == 9007199254740993LL)
  end)
end)

describe("the session's time zone", function()
  it("cuts days and prints times", function()
    in_zone("Europe/Paris", function()
      assert.equal("2026-05-02", mt.date(mt.timestamp "2026-05-01T22:00:00Z"))
      assert.equal("2026-05-01", mt.date(mt.timestamp "2026-05-01T21:59:59.999999Z"))
      assert.equal("2026-05-01 11:07 +02:00 +0200 GMT+2 Europe/Paris", mt.fmt(TS, "yyyy-MM-dd HH:mm XXX Z O VV"))
      assert.equal("2026-01-01 00 +01:00", mt.fmt("2026-01-01", "yyyy-MM-dd HH XXX"))
      assert.equal(mt.timestamp "2026-05-01T08:00:00Z", mt.timestamp { year = 2026, month = 5, day = 1, hour = 10 })
    end)
    in_zone("-03:30", function()
      assert.equal("2026-04-30", mt.date(mt.timestamp "2026-05-01T03:29:59Z"))
      assert.equal("GMT-3:30 GMT-03:30 -0330", mt.fmt(0, "O OOOO X"))
    end)
  end)

  it("is that of times in JSON that name none", function()
    local frame = mt.memoryStream "value STRING":fromJson("value", "ts TIMESTAMP")
    local input = { { value = '{"ts":"2026-05-01 10:00:00"}' }, { value = '{"ts":"2026-05-01 10:00:00Z"}' } }
    in_zone("Europe/Paris", function()
      local rows = support.run(frame, input)
      assert.equal(mt.timestamp "2026-05-01T08:00:00Z", rows[1].ts)
      assert.equal(mt.timestamp "2026-05-01T10:00:00Z", rows[2].ts)
    end)
    assert.equal(mt.timestamp "2026-05-01T10:00:00Z", support.run(frame, input)[1].ts)
  end)

  it("is what --set timeZone says, and stands in the plan", function()
    local job = 'local mt = require "moontide" return mt.memoryStream "n INT".writeStream:format "noop"'
    local plan = support.load(job, { timeZone = "Europe/Paris" })
    assert.equal("Europe/Paris", plan.time_zone)
    support.free(plan)
    plan = support.load(job)
    assert.equal("UTC", plan.time_zone)
    support.free(plan)
  end)

  it("is what scripts and the shell are given too", function()
    local config = require "moontide.config"
    config.begin { timeZone = "Asia/Tokyo" }
    config.use_time_zone()
    assert.equal("09:00", mt.fmt(0, "HH:mm"))
    config.begin {}
    config.use_time_zone()
    assert.equal("00:00", mt.fmt(0, "HH:mm"))
  end)
end)
