-- SPDX-License-Identifier: Apache-2.0
--- What went wrong in a function of the job, in words: script line, row, and the cure for a null.
--
-- A null field is nil, and Lua's own error about it names no column ("attempt to compare nil with
-- number"). The function is never run again to find out: the line's text and the row's null columns
-- are enough.
local core = require "moontide._core"
local columns = require "moontide.columns"
local fault = require "moontide.fault"
local rows = require "moontide.rows"
local C = core.C

local M = {}

---@type fun(file: string): string[]? lines of a job file
M.lines_of = function() return nil end

--- Message handler of xpcall around a loop: keeps the place of the error.
function M.catch(e)
  if columns.is_misfit(e) then return e end
  local at = fault.here()
  local text = type(e) == "string" and e or tostring(e)
  -- Lua's own prefix, maybe cut short; the whole place will stand in front
  local line = text:match "^[^\n:]*:(%d+): "
  if tonumber(line) == at.line then text = text:gsub("^[^\n:]*:%d+: ", "", 1) end
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

-- "(row.amount or 0) > 0", from how the line uses the field.
local function cure(line, name, field)
  local stand_in = STAND_INS[field.type] or "0"
  local row, rest = (line or ""):match("([%a_][%w_]*)%." .. name .. "%f[^%w_](.*)")
  local compared = rest and rest:match "^%s*([<>=~]=?%s*[%w_.\"'-]+)"
  local method = rest and rest:match "^(:[%w_]+%b())"
  local fixed = ("(%s.%s or %s)"):format(row or "row", name, stand_in)
  if method then return fixed .. method end
  return compared and fixed .. " " .. compared or fixed
end

local function mentions(line, name)
  return line and line:find("%f[%w_]" .. name:gsub("%W", "%%%0") .. "%f[^%w_]") ~= nil
end

-- The message with the null column it is about, when there is one.
local function explain_null(text, schema, batch, i, line)
  if not is_about_nil(text) then return text end
  local nulls = rows.null_columns(schema, batch, i)
  local named = text:match "field '([^']+)'"
  local suspects = {}
  for _, name in ipairs(nulls) do
    if name == named or not named and mentions(line, name) then suspects[#suspects + 1] = name end
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

-- ---- where a value was made

-- The line of a function's text that names a column, else its last `return`, else where it begins.
local function line_of_value(fn, column)
  local info = debug.getinfo(fn, "S")
  local file = info.source:gsub("^[@=]", "")
  local lines = M.lines_of(file)
  local last_return
  for n = info.linedefined, lines and info.lastlinedefined or -1 do
    local line = lines[n] or ""
    if column and mentions(line:gsub("%f[%w_]row%.[%w_]+", ""), column) then
      return { file = file, line = n }
    end
    if line:find "%f[%w_]return%f[^%w_]" then last_return = n end
  end
  return { file = file, line = last_return or info.linedefined }
end

-- ---- the whole

local buffer = core.new "char[512]"

--- "orders[2]@1234": where row i of a batch came from.
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
  if type(e) ~= "table" then e = { at = { file = "?", line = 0 }, text = tostring(e) } end
  local at, text = e.at, e.text
  if columns.is_misfit(e) then
    at = line_of_value(step.fn, e.column)
  else
    local lines = M.lines_of(at.file)
    text = explain_null(text, schema, batch, i, lines and lines[at.line])
  end
  if text:sub(1, #step.kind + 2) == step.kind .. ": " then text = text:sub(#step.kind + 3) end
  local is_data = e.is_data -- a value that its column refuses, not a mistake of the script's
  return fault.new(is_data and "DATA" or "SCRIPT", is_data and "REJECT" or "FATAL",
    ("%s%s, row %s: %s"):format(fault.place(at), step.kind, M.where(batch, i), text))
end

return M
