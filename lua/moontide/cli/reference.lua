-- SPDX-License-Identifier: Apache-2.0
--- The page of all options, out of the tables by which the core itself reads them: what is
--- written there cannot be another thing than what is done.
local core = require "moontide._core"
local C = core.C

local M = {}

local HEAD = [[
# Options

`scripts/reference` writes this page from the tables by which the program itself reads options.

Names are matched without case. A name that is not here is an error with a suggestion, never ignored.
Numbers and booleans may be given as such or as text; sizes are bytes, or `512k`, `64m`, `1g`.]]

local VALUES = {
  MT_OPT_STRING = "text", MT_OPT_INT = "whole number", MT_OPT_BOOL = "true or false", MT_OPT_BYTES = "size",
  MT_OPT_DURATION = "time, as in `10 seconds`", MT_OPT_MAP = "text", MT_OPT_SECRET = "secret",
}

local function cell(text)
  return (text:gsub("|", "\\|"))
end

local function code(text)
  return "`" .. cell(text) .. "`"
end

local function values_of(option)
  if option.values ~= nil then
    return (core.string(option.values):gsub("[^|]+", "`%0`"):gsub("|", ", "))
  end
  for name, words in pairs(VALUES) do
    if option.type == C[name] then return words end
  end
  error(("option %s has a type without a word"):format(core.string(option.name)))
end

local function preset_of(option)
  if option.preset ~= nil then return code(core.string(option.preset)) end
  return ""
end

local function add_options(lines, table_, more)
  lines[#lines + 1] = "\n| option | value | default | what it does |\n|---|---|---|---|"
  local i = 0
  while table_[i].name ~= nil do
    local option = table_[i]
    lines[#lines + 1] = ("| %s | %s | %s | %s |"):format(code(core.string(option.name)), values_of(option),
      preset_of(option), cell(core.string(option.help)))
    i = i + 1
  end
  lines[#lines + 1] = more
end

local function add_refusals(lines, refusals)
  if refusals == nil then return end
  lines[#lines + 1] = "\nRefused by name:\n\n| option | why |\n|---|---|"
  local i = 0
  while refusals[i].name ~= nil do
    local refusal = refusals[i]
    lines[#lines + 1] = ("| %s | %s |"):format(code(core.string(refusal.name)), cell(core.string(refusal.why)))
    i = i + 1
  end
end

local function add_not_yet(lines, names)
  if names == nil then return end
  local list, i = {}, 0
  while names[i] ~= nil do
    list[i + 1] = code(core.string(names[i]))
    i = i + 1
  end
  lines[#lines + 1] = "\nKnown in Spark, not here yet, refused by name: " .. table.concat(list, ", ") .. "."
end

local function heading(call, type_)
  local name, help = core.string(type_.name), core.string(type_.help)
  return ("\n## %s:format \"%s\"\n\n%s."):format(call, name, (help:gsub("^%l", string.upper)))
end

local function add_source(lines, source)
  lines[#lines + 1] = heading("readStream", source)
  add_options(lines, source.options)
  add_refusals(lines, source.refusals)
end

local function add_sink(lines, sink)
  lines[#lines + 1] = heading("writeStream", sink)
  lines[#lines + 1] = ("Guarantee: %s.%s"):format(sink.exactly_once and "exactly once" or "at least once",
    sink.partitions and " `partitionBy` makes folders `column=value/`." or "")
  add_options(lines, sink.options, ("| `checkpointLocation` | text | %s | %s |"):format(
    sink.needs_checkpoint and "" or "a temporary one",
    "folder on a local disk where the query keeps its place, for this query alone"
      .. (sink.needs_checkpoint and " (required)" or "")))
  add_not_yet(lines, sink.not_yet)
  add_refusals(lines, sink.refusals)
end

local function each(types, add, lines)
  local i = 0
  while types[i] ~= nil do
    add(lines, types[i])
    i = i + 1
  end
end

--- The page as Markdown.
---@return string
function M.text()
  local lines = { HEAD }
  each(C.mt_source_types, add_source, lines)
  each(C.mt_sink_types, add_sink, lines)
  return table.concat(lines, "\n") .. "\n"
end

return M
