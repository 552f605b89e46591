-- SPDX-License-Identifier: Apache-2.0
--- The DDL that some JSON texts suggest, for people to start from.
--
-- A reader of its own, because what it is after is gone once a value is read: whether a number
-- was written whole, whether a text looks like a time.
local M = {}

local DEEPEST = 64

---@class mt.Guess what one place in some documents holds
---@field kind string "NULL", "BOOLEAN", "BIGINT", "DOUBLE", "STRING", "DATE", "TIMESTAMP", "ARRAY", "STRUCT"
---@field of mt.Guess? of an ARRAY's elements
---@field names string[]? of a STRUCT, in the order they were met
---@field fields table<string, mt.Guess>?

local function scalar(kind)
  return { kind = kind }
end

-- ---- two guesses of one place

local NUMBERS = { BIGINT = true, DOUBLE = true }
local merge

local function merge_structs(a, b)
  for _, name in ipairs(b.names) do
    if not a.fields[name] then a.names[#a.names + 1] = name end
    a.fields[name] = merge(a.fields[name], b.fields[name])
  end
  return a
end

--- What holds for both; nil and NULL know nothing. May change `a`.
---@param a mt.Guess?
---@param b mt.Guess
---@return mt.Guess
function merge(a, b)
  if not a or a.kind == "NULL" then return b end
  if b.kind == "NULL" then return a end
  if a.kind == "STRUCT" and b.kind == "STRUCT" then return merge_structs(a, b) end
  if a.kind == "ARRAY" and b.kind == "ARRAY" then return { kind = "ARRAY", of = merge(a.of, b.of) } end
  if a.kind == b.kind then return a end
  return scalar(NUMBERS[a.kind] and NUMBERS[b.kind] and "DOUBLE" or "STRING")
end
M.merge = merge

-- ---- one document

local function fits_bigint(digits)
  local minus, figures = digits:match "^(%-?)0*(%d*)$"
  local most = minus == "-" and "9223372036854775808" or "9223372036854775807"
  return #figures < #most or #figures == #most and figures <= most
end

local function kind_of_text(text)
  if text:find "^%d%d%d%d%-%d%d%-%d%d$" then return "DATE" end
  if text:find "^%d%d%d%d%-%d%d%-%d%d[T ]%d%d:%d%d[%d:.,Z+-]*$" then return "TIMESTAMP" end
  return "STRING"
end

local function skip(text, at)
  return text:find("[^ \t\r\n]", at) or #text + 1
end

-- The string that begins at `at`, its escapes left as they are; and the place behind it.
local function read_string(text, at)
  local from = at + 1
  while true do
    local stop = text:find('["\\]', from)
    if not stop then return nil end
    if text:byte(stop) == 34 then return text:sub(at + 1, stop - 1), stop + 1 end
    from = stop + 2
  end
end

local read

local function read_array(text, at, depth)
  local guess = { kind = "ARRAY", of = scalar "NULL" }
  at = skip(text, at + 1)
  if text:sub(at, at) == "]" then return guess, at + 1 end
  while true do
    local element
    element, at = read(text, at, depth)
    if not element then return nil end
    guess.of = merge(guess.of, element)
    at = skip(text, at)
    local mark = text:sub(at, at)
    if mark == "]" then return guess, at + 1 end
    if mark ~= "," then return nil end
    at = at + 1
  end
end

-- One "name": value of an object.
local function read_field(text, at, depth, guess)
  if text:sub(at, at) ~= '"' then return nil end
  local name, value
  name, at = read_string(text, at)
  at = name and skip(text, at)
  if not name or text:sub(at, at) ~= ":" then return nil end
  value, at = read(text, at + 1, depth)
  if not value then return nil end
  if name:find "\\" then return skip(text, at) end -- a name with escapes is left to people
  if not guess.fields[name] then guess.names[#guess.names + 1] = name end
  guess.fields[name] = merge(guess.fields[name], value)
  return skip(text, at)
end

local function read_object(text, at, depth)
  local guess = { kind = "STRUCT", names = {}, fields = {} }
  at = skip(text, at + 1)
  if text:sub(at, at) == "}" then return guess, at + 1 end
  while true do
    at = read_field(text, skip(text, at), depth, guess)
    local mark = at and text:sub(at, at)
    if mark == "}" then return guess, at + 1 end
    if mark ~= "," then return nil end
    at = at + 1
  end
end

local WORDS = { t = { "true", "BOOLEAN" }, f = { "false", "BOOLEAN" }, n = { "null", "NULL" } }

local function read_scalar(text, at)
  local word = WORDS[text:sub(at, at)]
  if word then
    if text:sub(at, at + #word[1] - 1) ~= word[1] then return nil end
    return scalar(word[2]), at + #word[1]
  end
  local number = text:match("^%-?%d+[%d.eE+-]*", at)
  if not number or not tonumber(number) then return nil end
  return scalar(not number:find "[.eE]" and fits_bigint(number) and "BIGINT" or "DOUBLE"), at + #number
end

-- The guess of the value at or behind `at`, and the place behind it; nil: no JSON.
function read(text, at, depth)
  at = skip(text, at)
  local mark = text:sub(at, at)
  if mark == '"' then
    local inner, behind = read_string(text, at)
    if not inner then return nil end
    return scalar(kind_of_text(inner)), behind
  end
  if mark ~= "{" and mark ~= "[" then return read_scalar(text, at) end
  if depth == DEEPEST then return nil end
  return (mark == "{" and read_object or read_array)(text, at, depth + 1)
end

--- What an object's text says of its fields; nil when it is not one JSON object.
---@param text string
---@return mt.Guess?
function M.object(text)
  local guess, at = read(text, 1, 0)
  if guess and guess.kind == "STRUCT" and skip(text, at) > #text then return guess end
end

-- ---- DDL

local type_of

local function name_of(name)
  return name:find "^[%a_][%w_]*$" and name or "`" .. name:gsub("`", "``") .. "`"
end

local function fields_of(guess, between)
  local parts = {}
  for i, name in ipairs(guess.names) do parts[i] = name_of(name) .. between .. type_of(guess.fields[name]) end
  return table.concat(parts, ", ")
end

-- What nobody has seen a value of, or has no fields, is kept as its text.
function type_of(guess)
  if guess.kind == "ARRAY" then return ("ARRAY<%s>"):format(type_of(guess.of)) end
  if guess.kind == "STRUCT" and #guess.names > 0 then return ("STRUCT<%s>"):format(fields_of(guess, ": ")) end
  return (guess.kind == "NULL" or guess.kind == "STRUCT") and "STRING" or guess.kind
end

--- The DDL of an object's fields.
---@param guess mt.Guess
---@return string
function M.ddl(guess)
  return fields_of(guess, " ")
end

return M
