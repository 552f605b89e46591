-- SPDX-License-Identifier: Apache-2.0
--- JSON text of what Moontide itself writes: the bundle, options, the report of `check`.
-- Objects come out with sorted keys, so equal content is equal text (and an equal hash).
local suggest = require "moontide.suggest"
local value = require "moontide.value"

local M = {}

---@class mt.JsonArray: table written as an array even when it is empty
local Array = {}

--- Marks a table as an array.
---@param list any[]
function M.array(list)
  return setmetatable(list, Array)
end

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

--- A JSON string, quotes included. The text is UTF-8 already.
---@param s string
---@return string
function M.quote(s)
  return '"' .. s:gsub('[%c"\\]', function(c)
    return ESCAPES[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

--- One line of JSON.
---@param v any table (array or object with text keys), string, number, int64, boolean; nil is null
---@return string
function M.encode(v)
  if type(v) == "string" then return M.quote(v) end
  if type(v) ~= "table" then return v == nil and "null" or value.text(v) end
  if v == value.NULL then return "null" end
  local parts = {}
  if getmetatable(v) == Array or #v > 0 then
    for i = 1, #v do parts[i] = M.encode(v[i]) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  for i, key in ipairs(suggest.keys(v)) do parts[i] = M.quote(key) .. ":" .. M.encode(v[key]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

return M
