-- SPDX-License-Identifier: Apache-2.0
--- What `moontide lua`, the shell and specs have beyond a job file: queries that start, mt.job,
--- mt.table, mt.awaitAny.
local config = require "moontide.config"
local dataframe = require "moontide.declare.dataframe"
local fault = require "moontide.fault"
local handle = require "moontide.live.handle"
local job = require "moontide.declare.job"
local json = require "moontide.values.json"
local memtable = require "moontide.live.memtable"
local mt = require "moontide"
local object = require "moontide.object"
local options = require "moontide.options"
local suggest = require "moontide.suggest"
local writer = require "moontide.declare.writer"

local M = {}

local main ---@type { name: string, text: string }? the script

-- What the engine keeps with a batch of a query that starts here.
local function bundle_of(query)
  if query._bundle then return query._bundle end
  local name = main and main.name or "shell"
  return json.encode { conf = {}, main = name, files = json.array { { name = name, text = main and main.text or "" } } }
end

--- Makes :start() start queries in this state.
---@param file string? the script that runs, or nil
---@param text string? of it
function M.begin(file, text)
  main = file and text and { name = file, text = text } or nil
  config.use_time_zone()
  writer.starter = function(query) return handle.start(query, bundle_of(query)) end
  rawset(mt, "job", M.job)
  rawset(mt, "table", memtable.of)
  rawset(mt, "awaitAny", handle.await_any)
end

-- ---- mt.job

local OPTIONS = { "sources", "sink", "set" }

local function expect_options(given)
  fault.expect("mt.job: the options", given, "table")
  for name in pairs(given) do
    local known = false
    for _, option in ipairs(OPTIONS) do known = known or option == name end
    if not known then
      fault.raise(("mt.job has no option %q%s"):format(tostring(name), suggest.cure(name, OPTIONS)))
    end
  end
  if given.sink ~= nil and given.sink ~= "memory" then
    fault.raise "mt.job: sink is \"memory\", or left away for the sinks that the job declares"
  end
  for name, source in pairs(given.sources or {}) do
    if not object.is_a(source, dataframe.class) then
      fault.raise(("mt.job: source %q is a %s; give a stream, as mt.memoryStream makes it"):format(tostring(name),
        type(source)))
    end
  end
end

-- Answers a reader with the stream that stands in for its source.
local function replacing(sources, met)
  return function(name)
    if met[name] then
      fault.raise(("two sources of the job have the name %q; give each one of its own with :name"):format(name))
    end
    met[name] = true
    return sources[name]
  end
end

local function expect_all_met(sources, met, at)
  for _, name in ipairs(suggest.keys(sources)) do
    if not met[name] then
      fault.raise(("mt.job: the job has no source %q%s"):format(name, suggest.cure(name, suggest.keys(met))), at)
    end
  end
end

-- The query with a memory table in place of its sink, and its checkpoint in a temporary place.
local function standing_in(query, place, sink)
  local changes = { _options = options.without(query._options, "checkpointLocation"), _temporary = true }
  if sink == "memory" and not query._foreach then
    changes._format, changes._options, changes._partition_by, changes._name = "memory", {}, {}, nil
    changes._query_name = query._query_name or "query" .. place
  end
  return object.with(query, changes)
end

--- The queries of a job file, not started. With `sources`, streams stand in for sources of these names
--- and checkpoints are temporary; sink = "memory" puts the rows into a table of the query's name.
---@param file string
---@param given { sources: table<string, mt.DataFrame>?, sink: "memory"?, set: table<string, string>? }?
---@return mt.DataStreamWriter ... one, or several
function M.job(file, given)
  fault.expect("mt.job", file, "string")
  given = given or {}
  expect_options(given)
  local at, met, sources = fault.here(), {}, given.sources or {}
  local queries, bundle = job.borrow(file, given.set, given.sources and replacing(sources, met))
  if given.sources then expect_all_met(sources, met, at) end
  for i, query in ipairs(queries) do
    if given.sources or given.sink then query = standing_in(query, i, given.sink) end
    queries[i] = object.with(query, { _bundle = bundle })
  end
  return unpack(queries)
end

return M
