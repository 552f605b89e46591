-- SPDX-License-Identifier: Apache-2.0
--- The writer of a batch inside foreachBatch: each save() is one sink, exactly once.
local core = require "moontide._core"
local destination = require "moontide.declare.destination"
local fault = require "moontide.fault"
local object = require "moontide.object"
local options = require "moontide.options"
local scopes = require "moontide.batch.scope"
local suggest = require "moontide.suggest"
local C = core.C

local M = {}

---@class mt.DataFrameWriter: mt.Destination
---@field package _scope mt.Scope
---@field package _mode mt.Option?
local Writer = {}

--- A writer of a batch.
---@param frame mt.Batch
---@param scope mt.Scope
---@return mt.DataFrameWriter
function M.of(frame, scope)
  local state = destination.state(frame)
  state._scope = scope
  return object.new(Writer, state)
end

--- Sets an option of the sink.
---@param name string in any case
---@param value string|number|boolean
---@return mt.DataFrameWriter
function Writer:option(name, value)
  if type(name) == "string" and name:lower() == "checkpointlocation" then
    fault.raise "checkpointLocation is the query's: it stands at writeStream, beside foreachBatch"
  end
  return destination.class.option(self, name, value)
end

local REFUSED = {
  overwrite = "would take away what earlier batches wrote",
  ignore = "would write the first batch alone, and nothing of the later ones",
  error = "would fail from the second batch on, when the destination is there",
  upsert = "is for databases (format \"odbc\")",
}
REFUSED.errorifexists, REFUSED.default = REFUSED.error, REFUSED.error

local DATABASES = { odbc = true, jdbc = true }

--- What becomes of rows that are there already. Inside foreachBatch it is "append", and a database has more:
--- "upsert" by key, "overwrite", "ignore" of rows whose key is there, "error" when the table is not the query's.
---@param mode string
---@return mt.DataFrameWriter
function Writer:mode(mode)
  fault.expect("mode", mode, "string")
  local word = mode:lower()
  if word ~= "append" and not REFUSED[word] then
    fault.raise(("unknown mode %q%s"):format(mode,
      suggest.cure(mode, { "append", "overwrite", "ignore", "error", "upsert" })))
  end
  return object.with(self, { _mode = { name = "mode", value = word == "default" and "error" or word, given = mode,
    at = fault.here() } })
end

-- The options of a save, with its mode where the format has one.
local function options_of(self)
  local mode = self._mode
  if not mode then return self._options end
  if DATABASES[self._format] then return options.add(self._options, "mode", mode.value) end
  if mode.value ~= "append" then
    fault.raise(("mode %q %s; inside foreachBatch each batch is appended once: write :mode \"append\", or leave "
      .. ":mode away"):format(mode.given, REFUSED[mode.value]), mode.at)
  end
  return self._options
end

local WORDS = { [C.MT_RETRY] = "RETRY", [C.MT_REJECT] = "REJECT", [C.MT_FATAL] = "FATAL" }

-- The core's last failure, at the line of the option that it names, else at that of save. What has
-- doomed the batch is answered to every later save: it stands where it happened.
local function failed(self, status, at)
  local text, class, name = core.failure()
  local rejected = status == C.MT_REJECT
  if not rejected and self._scope.doom then return self._scope.doom end
  local option = name and options.find(self._options, name)
  at = option and option.at or at
  local made = class == "JOB" and fault.at(text, at)
    or fault.new(class, WORDS[tonumber(status)], fault.place(at) .. text)
  if not rejected then self._scope.doom = made end
  return made
end

--- Writes the rows, exactly once where the sink can. Raises when that fails.
---@param path string? the same as the option "path"
function Writer:save(path)
  scopes.expect_alive(self._scope, "a frame", "save")
  if self._scope.lost then error(self._scope.lost, 0) end
  local at = fault.here()
  local settings, keep = destination.settings(self, options_of(self))
  if path ~= nil then
    if options.find(self._options, "path") then fault.raise "the path is given twice: as an option and to save" end
    keep.path = destination.path("save: the path", path)
    settings.path = keep.path
  end
  if self._format == "memory" then
    if not self._name then fault.raise "save to memory: say what the table is called, with :name \"…\"" end
    settings.query_name = self._name
  end
  self._scope.saving = keep
  local stored = core.new "struct mt_sink_record"
  local status = C.mt_run_save(self._scope.run, settings, self._frame._batch, stored, core.err)
  if status ~= 0 then error(failed(self, status, at), 0) end
end

object.seal(Writer, {
  name = "DataFrameWriter",
  parent = destination.class,
  callable = true,
  newindex = "; set options with :option(name, value)",
  later = object.later [[bucketBy clusterBy csv insertInto jdbc json orc parquet saveAsTable sortBy text xml]],
})
M.class = Writer

return M
