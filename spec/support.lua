-- SPDX-License-Identifier: Apache-2.0
--- What specs share: batches from Lua tables, a frame run over them, job files from text.
local batchframe = require "moontide.batch.frame"
local blame = require "moontide.rows.blame"
local core = require "moontide._core"
local fault = require "moontide.fault"
local job = require "moontide.declare.job"
local loops = require "moontide.rows.loops"
local memory = require "moontide.declare.memory"
local ops = require "moontide.batch.ops"
local run = require "moontide.batch.run"
local schemas = require "moontide.schema"
local tree = require "moontide.declare.tree"
local value = require "moontide.values"
local C = core.C

local M = {}

loops.small_batch = 0 -- specs have few rows; in_c_spec.lua runs them the other way

-- ---- batches

-- Coordinates "orders[2]@100", "@101", … for n rows of a topic; never freed.
local function coords_of(n, topic_name)
  local coords, one_run = core.new "struct mt_coords", core.new "struct mt_coords_run"
  local offsets, topic = core.new("int64_t[?]", math.max(n, 1)), core.cstring(topic_name)
  for i = 0, n - 1 do offsets[i] = 100 + i end
  one_run.topic, one_run.partition, one_run.first_row = topic, 2, 0
  coords.refs, coords.n_runs, coords.runs, coords.offsets, coords.n_rows = 1000000, 1, one_run, offsets, n
  return coords, { one_run, offsets, topic }
end

--- A batch of a schema out of rows that are tables, as if they came from a topic.
function M.batch(schema, rows, topic)
  local batch = ops.batch()
  batch.schema, batch.array = schema.c, memory.array_of(schema, rows)
  local coords, keep = coords_of(#rows, topic or "orders")
  batch.coords = coords
  M.keep = { M.keep, coords, keep } -- borrowed by batches of any age
  return batch
end

--- The rows of a batch as tables.
function M.rows_of(batch, schema)
  local rows = {}
  for i = 0, tonumber(batch.array.length) - 1 do
    local row = {}
    for _, field in ipairs(schema.fields) do
      row[field.name] = value.read(field, batch.array.children[field.index], i)
    end
    rows[i + 1] = row
  end
  return rows
end

local function only(rows, schema)
  local cut = {}
  for i, row in ipairs(rows) do
    cut[i] = {}
    for _, field in ipairs(schema.fields) do cut[i][field.name] = row[field.name] end
  end
  return cut
end

-- What each source of a frame reads.
local function reads_of(frame)
  local reads, wanted = {}, run.wanted(frame)
  for i, source in ipairs(tree.sources(frame._tree)) do
    local list = {}
    for k, name in ipairs(wanted[i]) do list[k] = source.schema.by_name[name] end
    reads[i] = schemas.of(list)
  end
  return reads
end

local TOPICS = { "orders", "returns", "events" }

-- The rows of each source as one array of batches, and what frees them.
local function inputs_of(reads, all_rows)
  local inputs = core.new("struct mt_batch[?]", #reads)
  for i, read in ipairs(reads) do
    local batch = M.batch(read, only(all_rows[i], read), TOPICS[i])
    inputs[i - 1] = batch
    core.gc(batch, nil) -- moved
  end
  return inputs, function()
    for i = 1, #reads do C.mt_batch_release(inputs + (i - 1)) end
  end
end

--- Makes a frame ready once; the result runs it over the rows of each source and gives the rows, step
--- counts and where each row came from.
function M.ready(frame)
  local reads = reads_of(frame)
  local stages, out = run.bind(frame, reads)
  local runner, n = run.runner(stages, reads), #stages
  return function(...)
    local inputs, free = inputs_of(reads, { ... })
    local steps = core.new("struct mt_step_count[?]", math.max(1, n))
    local one = core.new "struct mt_run"
    one.inputs, one.n_inputs, one.steps, one.max_steps, one.time_us = inputs, #reads, steps, n, 0
    local ok, problem = pcall(runner, core.address(core.cast("struct mt_run *", one)))
    free()
    if not ok then error(problem, 0) end
    local counts = {}
    for i = 0, tonumber(one.n_steps) - 1 do
      counts[i + 1] = { name = core.string(steps[i].name), came = tonumber(steps[i]["in"]),
        went = tonumber(steps[i].out), filtered = tonumber(steps[i].filtered),
        malformed = tonumber(steps[i].malformed), made = steps[i].made ~= 0 and tonumber(steps[i].made) or nil }
    end
    local result = M.rows_of(one.output, out)
    local places = {}
    for i = 0, #result - 1 do places[i + 1] = blame.where(one.output, i) end
    C.mt_batch_release(one.output)
    return result, counts, places
  end
end

--- A foreachBatch over a frame, without an engine: what it gives hands rows to fn as one batch more.
function M.foreach(frame, fn)
  local read = reads_of(frame)[1]
  assert(#read.fields == #tree.sources(frame._tree)[1].schema.fields, "the frame reads all columns")
  local stages, out = run.bind(frame, { read })
  local runner = run.runner(stages, { read }, batchframe.caller(fn, out))
  local id, offsets = 16, '[{"source":"orders","start":{"orders":{"2":100}},"end":{"orders":{"2":104,"10":7}}}]'
  return function(rows)
    id = id + 1
    local steps, one = core.new("struct mt_step_count[?]", math.max(1, #stages)), core.new "struct mt_run"
    local input = M.batch(read, only(rows, read))
    one.inputs, one.n_inputs, one.steps, one.max_steps = input, 1, steps, #stages
    one.batch_id, one.time_us, one.seed, one.offsets = id, 1760000000123456, 7, offsets
    local ok, problem = pcall(runner, core.address(core.cast("struct mt_run *", one)))
    C.mt_batch_release(input)
    if not ok then error(problem, 0) end
  end
end

--- Runs a frame's steps over the rows of each source.
function M.run(frame, ...)
  return M.ready(frame)(...)
end

--- The text of the error that a call raises; fails when it raises none.
function M.error_of(fn, ...)
  local ok, problem = pcall(fn, ...)
  assert(not ok, "no error was raised")
  return tostring(problem)
end

--- The line this was called from, for "file:line:" of an error in a spec.
function M.line()
  return debug.getinfo(2, "l").currentline
end

-- ---- job files

--- A new folder with files of these texts.
function M.folder(files)
  local pipe = assert(io.popen "mktemp -d")
  local folder = pipe:read "*l"
  pipe:close()
  for name, text in pairs(files) do
    os.execute(("mkdir -p '%s/%s'"):format(folder, name:match "^(.*)/" or "."))
    local file = assert(io.open(folder .. "/" .. name, "w"))
    file:write(text)
    file:close()
  end
  return folder
end

local GLOBALS = { "print", "tostring", "pairs", "ipairs", "next" }

-- Calls fn, then puts back what a job's state replaces, and forgets the modules it loaded.
local function with_globals(fn)
  local format, rep, first, kept, loaded = string.format, string.rep, package.loaders[1], {}, {}
  for name in pairs(package.loaded) do loaded[name] = true end
  for _, name in ipairs(GLOBALS) do kept[name] = _G[name] end
  local ok, a, b = pcall(fn)
  for name, v in pairs(kept) do rawset(_G, name, v) end
  string.format, string.rep = format, rep -- luacheck: ignore
  for name in pairs(package.loaded) do
    if not loaded[name] and not name:find "^moontide" then package.loaded[name] = nil end
  end
  fault.job(nil) -- else lines of later errors would be looked for in it
  if package.loaders[1] ~= first then table.remove(package.loaders, 1) end
  if not ok then error(a, 0) end
  return a, b
end
M.with_globals = with_globals

--- What map stores for v in a column of the type, read back.
function M.stored(type_, v)
  local one = memory.stream "x INT"
  return M.run(one:map("v " .. type_, function() return { v = v } end), { { x = 1 } })[1].v
end

--- The error of storing it.
function M.refused(type_, v)
  return M.error_of(M.stored, type_, v)
end

--- job.load, without what a job's state replaces.
function M.load_query(file, which, how)
  return with_globals(function() return job.load(file, which, how) end)
end

--- Loads job.lua among files (or the text of it): the plan and the bundle.
function M.load(files, set)
  if type(files) == "string" then files = { ["job.lua"] = files } end
  local folder = M.folder(files)
  local plan, loaded = M.load_query(folder .. "/job.lua", 1, { set = set })
  return plan, loaded.bundle, folder
end

--- The error of loading a job, its file without the folder: "job.lua:3: …".
function M.load_error(files, set)
  local text = M.error_of(M.load, files, set)
  return (text:gsub("[%w/._-]*/(job%.lua:)", "%1"))
end

--- Frees what a plan of load holds.
function M.free(plan)
  C.mt_sink_free(core.at("struct mt_sink *", plan.sink))
  for _, source in ipairs(plan.sources) do C.mt_source_free(core.at("struct mt_source *", source)) end
end

return M
