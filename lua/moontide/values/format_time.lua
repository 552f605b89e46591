-- SPDX-License-Identifier: Apache-2.0
--- mt.fmt: a time as text, by the letters of Java's DateTimeFormatter, as Spark's date_format has them.
--
-- A pattern is read once into a list of pieces. Names are English. What would need tables of a
-- locale (names of zones, weeks of a year) is refused by its letter.
--
-- No function here ends in a call: see exact.lua.
local core = require "moontide._core"
local exact = require "moontide.values.exact"
local times = require "moontide.values.times"
local C = core.C

local M = {}

local floor, format = math.floor, string.format

local MONTHS = { "January", "February", "March", "April", "May", "June", "July", "August", "September",
  "October", "November", "December" }
local DAYS = { "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday" }
local NTH = { "1st", "2nd", "3rd", "4th" }

---@class mt.Clock a time taken apart: year month day, dayOfYear, weekday (1 = Monday), hour minute
---second, micros, offset (seconds east of UTC)

local function two_digits(n)
  local shown = format("%02d", n)
  return shown
end

local function padded(field, most)
  return { most = most, show = function(clock, count)
    local shown = format("%0" .. count .. "d", field(clock))
    return shown
  end }
end

local function year_text(year, count)
  local shown
  if count == 2 then
    shown = two_digits(year % 100)
  else
    shown = format("%0" .. (year < 0 and count + 1 or count) .. "d", year)
    if year > 0 and count >= 4 and #shown > count then shown = "+" .. shown end
  end
  return shown
end

-- "+02:00", "+0200", "+02", with seconds; `zulu`: Z stands for zero.
local function offset_text(offset, count, zulu)
  if offset == 0 and zulu then return "Z" end
  local size, colon = math.abs(offset), (count == 3 or count == 5) and ":" or ""
  local shown = (offset < 0 and "-" or "+") .. two_digits(floor(size / 3600))
  local minutes, seconds = floor(size / 60) % 60, size % 60
  if count > 1 or minutes > 0 then shown = shown .. colon .. two_digits(minutes) end
  if count > 3 and seconds > 0 then shown = shown .. colon .. two_digits(seconds) end
  return shown
end

-- "GMT", "GMT+2" or "GMT+02:00".
local function gmt_text(offset, long)
  if offset == 0 then return "GMT" end
  local size = math.abs(offset)
  local hours, minutes = floor(size / 3600), floor(size / 60) % 60
  local shown = "GMT" .. (offset < 0 and "-" or "+") .. (long and two_digits(hours) or hours)
  if long or minutes > 0 then shown = shown .. ":" .. two_digits(minutes) end
  return shown
end

local function named(names, index)
  return function(clock, count)
    local name = names[index(clock)]
    return count == 4 and name or name:sub(1, 3)
  end
end

local month_name = named(MONTHS, function(clock) return clock.month end)
local function month(clock, count)
  local shown = count <= 2 and format("%0" .. count .. "d", clock.month) or month_name(clock, count)
  return shown
end

local function quarter(clock, count)
  local n = floor((clock.month + 2) / 3)
  local shown = count == 4 and NTH[n] .. " quarter" or count == 3 and "Q" .. n or format("%0" .. count .. "d", n)
  return shown
end

local function of_era(clock)
  return clock.year > 0 and clock.year or 1 - clock.year
end

local function year_of(pick)
  return { most = 6, show = function(clock, count)
    local shown = year_text(pick(clock), count)
    return shown
  end }
end

-- letter -> how many of it there may be, and the text for that many
local LETTERS = {
  G = { most = 4, show = function(clock, count)
    local shown = clock.year > 0 and "AD" or "BC"
    if count == 4 then shown = clock.year > 0 and "Anno Domini" or "Before Christ" end
    return shown
  end },
  y = year_of(of_era),
  u = year_of(function(clock) return clock.year end),
  M = { most = 4, show = month }, L = { most = 4, show = month },
  Q = { most = 4, show = quarter }, q = { most = 4, show = quarter },
  d = padded(function(clock) return clock.day end, 2),
  D = padded(function(clock) return clock.dayOfYear end, 3),
  F = padded(function(clock) return (clock.day - 1) % 7 + 1 end, 1),
  E = { most = 4, show = named(DAYS, function(clock) return clock.weekday end) },
  a = { most = 1, show = function(clock) return clock.hour < 12 and "AM" or "PM" end },
  H = padded(function(clock) return clock.hour end, 2),
  k = padded(function(clock) return (clock.hour + 23) % 24 + 1 end, 2),
  K = padded(function(clock) return clock.hour % 12 end, 2),
  h = padded(function(clock) return (clock.hour + 11) % 12 + 1 end, 2),
  m = padded(function(clock) return clock.minute end, 2),
  s = padded(function(clock) return clock.second end, 2),
  S = { most = 9, show = function(clock, count)
    local shown = format("%06d000", clock.micros):sub(1, count)
    return shown
  end },
  X = { most = 5, show = function(clock, count)
    local shown = offset_text(clock.offset, count, true)
    return shown
  end },
  x = { most = 5, show = function(clock, count)
    local shown = offset_text(clock.offset, count, false)
    return shown
  end },
  Z = { most = 5, show = function(clock, count)
    local shown = count <= 3 and offset_text(clock.offset, 2, false) or count == 4 and gmt_text(clock.offset, true)
      or offset_text(clock.offset, 5, true)
    return shown
  end },
  O = { most = 4, show = function(clock, count)
    local shown = gmt_text(clock.offset, count == 4)
    return shown
  end },
  V = { most = 2, show = times.zone },
}

local KNOWN = "G y u M L Q q d D F E a H k K h m s S X x Z O VV"

local function letters_at(pattern, at)
  local letter = pattern:sub(at, at)
  local last = select(2, pattern:find("^" .. letter .. "+", at))
  local known, count = LETTERS[letter], last - at + 1
  if not known then
    error(("mt.fmt: %q has the letter %s, which is not known; there are %s, and text in single quotes")
      :format(pattern, letter, KNOWN), 0)
  end
  if count > known.most or letter == "V" and count ~= 2 or letter == "O" and count > 1 and count < 4 then
    error(("mt.fmt: %q has %d of the letter %s"):format(pattern, count, letter), 0)
  end
  return { show = known.show, count = count }, last + 1
end

-- 'text', in which '' is a quote; '' alone is one too.
local function quoted_at(pattern, at)
  if pattern:sub(at, at + 1) == "''" then return "'", at + 2 end
  local from, parts = at + 1, {}
  while true do
    local stop = pattern:find("'", from, true)
    if not stop then error(("mt.fmt: %q has a quote that is not closed"):format(pattern), 0) end
    parts[#parts + 1] = pattern:sub(from, stop - 1)
    if pattern:sub(stop + 1, stop + 1) ~= "'" then return table.concat(parts, "'"), stop + 1 end
    from = stop + 2
  end
end

local function compile(pattern)
  local pieces, at = {}, 1
  while at <= #pattern do
    local first, piece = pattern:sub(at, at), nil
    if first:find "%a" then
      piece, at = letters_at(pattern, at)
    elseif first == "'" then
      piece, at = quoted_at(pattern, at)
    elseif first:find "[{}#%[%]]" then
      error(("mt.fmt: %q has %s, which stands for itself only in single quotes"):format(pattern, first), 0)
    else
      local last = select(2, pattern:find("^[^%a'{}#%[%]]+", at))
      piece, at = pattern:sub(at, last), last + 1
    end
    pieces[#pieces + 1] = piece
  end
  return pieces
end

local function clock_of(seconds, micros)
  local offset = C.mt_session_offset(seconds, false)
  local at = seconds + offset
  local day = floor(at / 86400)
  local year, month_, date = times.day_text(day):match "^([+-]?%d+)-(%d+)-(%d+)$"
  local second = at - day * 86400
  return {
    year = tonumber(year), month = tonumber(month_), day = tonumber(date), offset = offset, micros = micros,
    dayOfYear = day - times.days(year .. "-01-01") + 1, weekday = (day + 3) % 7 + 1,
    hour = floor(second / 3600), minute = floor(second / 60) % 60, second = second % 60,
  }
end

local compiled, compiled_n = {}, 0

local function pieces_of(pattern)
  local pieces = compiled[pattern]
  if pieces then return pieces end
  if type(pattern) ~= "string" then
    error(("mt.fmt takes a pattern such as \"yyyy-MM-dd HH:mm\", not %s"):format(exact.text(pattern)), 0)
  end
  if compiled_n >= 1000 then compiled, compiled_n = {}, 0 end
  compiled[pattern], compiled_n = compile(pattern), compiled_n + 1
  return compiled[pattern]
end

-- Seconds and micros of a TIMESTAMP, or of a DATE's midnight.
local function time_of(v)
  local seconds, micros = times.split(v)
  if not seconds and type(v) == "string" then
    local day = times.days(v)
    if day then
      local midnight = day * 86400
      seconds, micros = midnight - C.mt_session_offset(midnight, true), 0
    end
  end
  return seconds, micros
end

--- A time as text in the session's time zone: `mt.fmt(row.ts, "yyyy-MM-dd HH:mm:ss.SSS")`.
---@param ts number|ffi.cdata*|string|nil a TIMESTAMP, or a DATE ("YYYY-MM-DD"); null gives nil
---@param pattern string letters of Java's DateTimeFormatter
---@return string?
function M.fmt(ts, pattern)
  local pieces = pieces_of(pattern)
  if ts == nil or ts == exact.NULL then return nil end
  local seconds, micros = time_of(ts)
  if not seconds then
    error(("mt.fmt takes a TIMESTAMP (microseconds since 1970) or a DATE, not %s"):format(exact.text(ts)), 2)
  end
  local clock, parts = clock_of(seconds, micros), {}
  for i = 1, #pieces do
    local piece = pieces[i]
    parts[i] = type(piece) == "string" and piece or piece.show(clock, piece.count)
  end
  local shown = table.concat(parts)
  return shown
end

return M
