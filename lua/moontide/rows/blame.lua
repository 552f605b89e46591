-- SPDX-License-Identifier: Apache-2.0
--- What went wrong in a function of the job, in words: script line, row, and the cure for a null.
--
-- A null field is nil, and Lua's own error about it names no column ("attempt to compare nil with
-- number"). The function is never run again to find out: the line's text and the row's null columns
-- are enough.
local core = require "moontide._core"
local columns = require "moontide.values.columns"
local fault = require "moontide.fault"
local paths = require "moontide.paths"
local rows = require "moontide.rows.row"
local value = require "moontide.values"
local C = core.C

local M = {}

local texts = {} -- file -> its text as it was loaded

--- Keeps the text that a file was loaded from, for the lines of errors.
---@param file string
---@param text string
function M.remember(file, text)
  texts[file] = text
end

local function lines_of(file)
  local text = texts[file] or paths.read(file)
  if not text then return nil end
  local lines = {}
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  return lines
end

--- Message handler of xpcall around a loop: keeps the place of the error.
---@param e any
---@return any
function M.catch(e)
  if columns.is_misfit(e) then return e end
  local at = fault.within()
  local text = type(e) == "string" and e or value.str(e)
  -- Lua's own prefix, maybe cut short; the whole place will stand in front
  local line = text:match "^[^\n:]*:(%d+): "
  if at and tonumber(line) == at.line then text = text:gsub("^[^\n:]*:%d+: ", "", 1) end
  text = text:gsub("^moontide %a+:%d+: ", "", 1) -- a tail call: the caller was generated code
  return { at = at, text = text }
end

-- ---- nulls

local COMPUTES = {
  "attempt to compare", "attempt to perform arithmetic", "attempt to concatenate", "attempt to index",
  "attempt to get length", "attempt to call method", "got nil", "got no value", "cannot convert 'nil'",
}

local function is_about_nil(text)
  if not text:find("nil", 1, true) and not text:find("no value", 1, true) then return false end
  for _, words in ipairs(COMPUTES) do
    if text:find(words, 1, true) then return true end
  end
  return false
end

local STAND_INS = { STRING = '""', BINARY = '""', BOOLEAN = "false", DATE = '"1970-01-01"' }

local function escape(name)
  return (name:gsub("%W", "%%%0"))
end

-- True when the line reads a field: row.name or row["name"].
local function reads(line, name)
  return line and (line:find("%." .. escape(name) .. "%f[^%w_]")
    or line:find("%[%s*[\"']" .. escape(name) .. "[\"']%s*%]")) ~= nil
end

-- True when the line gives a field of a table a value: name = or ["name"] =.
local function gives(line, name)
  return line and (line:find("%f[%w_]" .. escape(name) .. "%s*=%f[^=]")
    or line:find("%[%s*[\"']" .. escape(name) .. "[\"']%s*%]%s*=%f[^=]")) ~= nil
end

-- "(row.amount or 0) > 0", from how the line uses the field.
local function cure(line, name, field)
  local stand_in = STAND_INS[field.type] or "0"
  local row, rest = (line or ""):match("([%a_][%w_]*)%." .. escape(name) .. "%f[^%w_](.*)")
  local compared = rest and rest:match "^%s*([<>=~]=?%s*[%w_.\"'-]+)"
  local method = rest and rest:match "^(:[%w_]+%b())"
  local access = row and row .. "." .. name or ("row[%q]"):format(name)
  local fixed = ("(%s or %s)"):format(access, stand_in)
  if row and line:find("#%s*" .. row .. "%." .. escape(name)) then fixed = "#" .. fixed end
  if method then return fixed .. method end
  return compared and fixed .. " " .. compared or fixed
end

-- The message with the null column it is about, when there is one.
local function explain_null(text, schema, batch, i, line)
  if not is_about_nil(text) or text:find("global '", 1, true) then return text end
  local nulls = rows.null_columns(schema, batch, i)
  local named = text:match "field '([^']+)'"
  local suspects = {}
  for _, name in ipairs(nulls) do
    if name == named or not named and reads(line, name) then suspects[#suspects + 1] = name end
  end
  if #suspects == 1 then
    local name = suspects[1]
    return ("%s is null here; write %s"):format(name, cure(line, name, schema.by_name[name]))
  end
  if named and not schema.by_name[named] then return text end
  if #suspects > 1 then nulls = suspects end
  if #nulls == 0 then return text end
  return ("%s; null in this row: %s"):format(text, table.concat(nulls, ", "))
end

--- The words of an error of the job at a place, when a null of row i is what it is about; else nil.
---@param at mt.At
---@param text string
---@param schema mt.Schema
---@param batch ffi.cdata*
---@param i integer
---@return string?
function M.explain(at, text, schema, batch, i)
  local lines = lines_of(at.file)
  local explained = explain_null(text, schema, batch, i, lines and lines[at.line])
  return explained ~= text and explained or nil
end

-- ---- where a value was made

-- The line of a function's text that gives a column its value, else its last `return`, else where it
-- begins. The first line comes last: before the function it may say anything.
local function line_of_value(fn, column)
  local info = debug.getinfo(fn, "S")
  local file = info.source:gsub("^[@=]", "")
  local lines, last_return = lines_of(file), nil
  for n = info.linedefined + 1, lines and info.lastlinedefined or -1 do
    local line = lines[n] or ""
    if column and gives(line, column) then return { file = file, line = n } end
    if line:find "%f[%w_]return%f[^%w_]" then last_return = n end
  end
  return { file = file, line = last_return or info.linedefined }
end

-- ---- the whole

local buffer = core.new "char[512]"

--- "orders[2]@1234": where row i of a batch came from.
---@param batch ffi.cdata* struct mt_batch
---@param i integer from 0
---@return string
function M.where(batch, i)
  return core.string(C.mt_batch_where(batch, i, buffer, 512))
end

--- The fault of a row: raised by the loop of `step` at row i of batch with `e`, what catch made.
---@param step mt.Step
---@param schema mt.Schema
---@param batch ffi.cdata*
---@param i integer
---@param e any
---@return mt.Fault
function M.fault(step, schema, batch, i, e)
  if type(e) ~= "table" then e = { text = tostring(e) } end
  local at, text = e.at or line_of_value(step.fn, e.column), e.text
  if not columns.is_misfit(e) then
    local lines = lines_of(at.file)
    text = explain_null(text, schema, batch, i, lines and lines[at.line])
  end
  if text:sub(1, #step.kind + 2) == step.kind .. ": " then text = text:sub(#step.kind + 3) end
  local is_data = e.is_data -- a value that its column refuses, not a mistake of the script's
  return fault.new(is_data and "DATA" or "SCRIPT", is_data and "REJECT" or "FATAL",
    ("%s%s at %s: %s"):format(fault.place(at), step.kind, M.where(batch, i), text))
end

return M
