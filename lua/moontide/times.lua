-- SPDX-License-Identifier: Apache-2.0
--- Dates and times: days and microseconds since 1970, as text both ways.
--
-- No function here ends in a call: see exact.lua.
local core = require "moontide._core"
local exact = require "moontide.exact"
local C = core.C

local M = {}

local format, floor, text = string.format, math.floor, exact.text
local int64 = core.typeof "int64_t"
local printed = core.new "char[64]"

--- Days since 1970 of "YYYY-MM-DD", or nil.
---@param day string
---@return integer?
function M.days(day)
  if not day:find "^[+-]?%d%d%d%d+%-%d%d%-%d%d$" then return nil end
  local days = core.new "int32_t[1]"
  return C.mt_date_parse(day, #day, days) and days[0] or nil
end

---@param days integer since 1970
---@return string "YYYY-MM-DD"
function M.day_text(days)
  local shown = core.string(printed, C.mt_date_print(days, printed))
  return shown
end

local DAY = 86400 * 1000000
local names, names_n = {}, 0 -- day number -> text: mt.date is called once a row

--- The UTC day of a time.
---@param ts number|ffi.cdata*|nil microseconds since 1970; nil (null) gives nil
---@return string? "YYYY-MM-DD"
function M.date(ts)
  local day
  if type(ts) == "number" then
    day = floor(ts / DAY)
    -- the quotient is rounded: an instant just below midnight must not become the next day
    if day * DAY > ts then day = day - 1 end
  elseif ts == nil or ts == exact.NULL then
    return nil
  elseif core.istype(int64, ts) then
    local whole = ts / 86400000000LL
    if whole * 86400000000LL > ts then whole = whole - 1 end
    day = tonumber(whole)
  end
  if not day or day < -2 ^ 31 or day >= 2 ^ 31 then
    error(("mt.date takes microseconds since 1970 (a TIMESTAMP), not %s"):format(
      type(ts) == "string" and "text; read it with mt.timestamp first" or text(ts)), 2)
  end
  local name = names[day]
  if name then return name end
  if names_n >= 10000 then names, names_n = {}, 0 end
  names[day], names_n = M.day_text(day), names_n + 1
  return names[day]
end

--- Microseconds since 1970 of ISO text that names its zone, or nil.
---@param iso string
---@return number|ffi.cdata*|nil
function M.micros(iso)
  if not iso:find "[Tt ]%d+:%d+" then return nil end
  if not (iso:find "[Zz]%s*$" or iso:find "[T ][%d:.]+%s*[+-]%d[%d:]*%s*$"
      or iso:find "[T ][%d:.]+%s*UTC%s*$") then
    return nil
  end
  local micros = core.new "int64_t[1]"
  return C.mt_timestamp_parse(iso, #iso, 0, micros) and exact.integer(micros[0]) or nil
end

local UNITS = { sec = 1000000, ms = 1000, us = 1 }
local PARTS = { year = true, month = true, day = true, hour = true, min = true, sec = true, us = true,
  ms = true }

local function whole(v, what)
  if type(v) ~= "number" or v ~= floor(v) then
    error(("mt.timestamp: %s is a whole number, not %s"):format(what, text(v)), 3)
  end
  return v
end

-- Microseconds of a table with year, month, day … (UTC), as os.time has them.
local function civil_micros(t)
  local day = M.days(format("%04d-%02d-%02d", whole(t.year, "year"), whole(t.month or 1, "month"),
    whole(t.day or 1, "day")))
  if not day then error("mt.timestamp: there is no such day", 3) end
  local sec = whole(t.hour or 0, "hour") * 3600 + whole(t.min or 0, "min") * 60 + whole(t.sec or 0, "sec")
  return (day * 86400 + sec) * 1000000 + whole(t.ms or 0, "ms") * 1000 + whole(t.us or 0, "us")
end

--- Microseconds since 1970 UTC, for a TIMESTAMP column.
---@param from string|table ISO text with a zone; { sec = n }, { ms = n } or { us = n } since 1970
--- (they add up); or { year =, month =, day =, hour =, min =, sec =, us = } in UTC
---@return number|ffi.cdata*
function M.timestamp(from)
  if type(from) == "string" then
    return M.micros(from) or error(("mt.timestamp: %q is not a time with a zone, as in 2026-05-01T10:00:00Z")
      :format(from), 2)
  end
  if type(from) ~= "table" then error("mt.timestamp takes ISO text or a table such as { sec = n }", 2) end
  for key in pairs(from) do
    if not PARTS[key] then
      error(("mt.timestamp: unknown part %q"):format(text(key)), 2)
    end
  end
  local sum = from.year and civil_micros(from) or nil
  if sum then return sum end
  for unit, scale in pairs(UNITS) do
    if from[unit] then sum = (sum or 0) + floor(from[unit] * scale + 0.5) end
  end
  return sum or error("mt.timestamp: no sec, ms, us or year is given", 2)
end

return M
