-- SPDX-License-Identifier: Apache-2.0
--- Dates and times: days and microseconds since 1970, as text both ways.
--
-- No function here ends in a call: see exact.lua.
local core = require "moontide._core"
local exact = require "moontide.values.exact"
local suggest = require "moontide.suggest"
local C = core.C

local M = {}

local format, floor, text = string.format, math.floor, exact.text
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

-- ---- the session's time zone

--- Sets the zone in which days are cut, times are printed, and times without a zone are read.
---@param name string
---@return boolean false when there is no such zone
function M.use_zone(name)
  local known = C.mt_session_zone_use(name)
  return known
end

---@return string
function M.zone()
  local name = core.string(C.mt_session_zone_name())
  return name
end

--- Whole seconds since 1970 (rounded down) and the microseconds left; nil when ts is no time.
---@param ts any
---@return number? seconds, number? micros
function M.split(ts)
  local seconds, micros
  if type(ts) == "number" then
    seconds = floor(ts / 1000000)
    -- the quotient is rounded: an instant just below a second must not become the next
    if seconds * 1000000 > ts then seconds = seconds - 1 end
    micros = ts - seconds * 1000000
  elseif exact.is_int64(ts) then
    local whole = ts / 1000000LL
    if whole * 1000000LL > ts then whole = whole - 1 end
    seconds, micros = tonumber(whole), tonumber(ts - whole * 1000000LL)
  end
  return seconds, micros
end
local split = M.split

local names, names_n = {}, 0 -- day number -> text: mt.date is called once a row

--- The day of a time in the session's time zone.
---@param ts number|ffi.cdata*|nil microseconds since 1970; nil (null) gives nil
---@return string? "YYYY-MM-DD"
function M.date(ts)
  if ts == nil or ts == exact.NULL then return nil end
  local seconds = split(ts)
  local day = seconds and floor((seconds + C.mt_session_offset(seconds, false)) / 86400)
  if not day or not (day >= -2 ^ 31 and day < 2 ^ 31) then
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

-- A whole part of a civil time; `otherwise` where it is not given.
local function whole(t, name, otherwise)
  local v = t[name]
  if v == nil then return otherwise end
  if type(v) ~= "number" or v ~= floor(v) or v - v ~= 0 then
    error(("mt.timestamp: %s is a whole number, not %s"):format(name, text(v)), 4)
  end
  return v
end

-- Microseconds of a table with year, month, day … by the clocks of the session's zone.
local function civil_micros(t)
  local year, month, day = whole(t, "year"), whole(t, "month", 1), whole(t, "day", 1)
  local days = M.days(format("%04d-%02d-%02d", year, month, day))
  if not days then
    error(("mt.timestamp: there is no day %s-%s-%s"):format(text(year), text(month), text(day)), 3)
  end
  local sec = whole(t, "hour", 0) * 3600 + whole(t, "min", 0) * 60 + whole(t, "sec", 0)
  local clock = days * 86400 + sec
  return (clock - C.mt_session_offset(clock, true)) * 1000000 + whole(t, "ms", 0) * 1000 + whole(t, "us", 0)
end

-- Microseconds of t.sec, t.ms or t.us since 1970.
local function unit_micros(t, unit)
  local v, scale = t[unit], UNITS[unit]
  if exact.is_int64(v) then return v * scale end
  if type(v) ~= "number" or v - v ~= 0 then
    error(("mt.timestamp: %s is a number, not %s"):format(unit, text(v)), 3)
  end
  local micros = floor(v * scale + 0.5)
  return micros
end

--- Microseconds since 1970 UTC, for a TIMESTAMP column.
---@param from string|table ISO text with a zone; { sec = n }, { ms = n } or { us = n } since 1970
--- (they add up); or { year =, month =, day =, hour =, min =, sec =, us = } by the
--- clocks of the session's time zone
---@return number|ffi.cdata*
function M.timestamp(from)
  if type(from) == "string" then
    return M.micros(from) or error(("mt.timestamp: %q is not a time with a zone, as in 2026-05-01T10:00:00Z")
      :format(from), 2)
  end
  if type(from) ~= "table" then error("mt.timestamp takes ISO text or a table such as { sec = n }", 2) end
  for key in pairs(from) do
    if not PARTS[key] then
      error(("mt.timestamp: unknown part %q%s"):format(text(key), suggest.cure(key, suggest.keys(PARTS))), 2)
    end
  end
  local sum = from.year and civil_micros(from) or nil
  if sum then return sum end
  for unit in pairs(UNITS) do
    if from[unit] then sum = (sum or 0) + unit_micros(from, unit) end
  end
  if not sum then error("mt.timestamp: no sec, ms, us or year is given", 2) end
  return exact.is_int64(sum) and exact.integer(sum) or sum
end

return M
