-- SPDX-License-Identifier: Apache-2.0
--- Loads a job file: runs it, plans a query it returns, and keeps the text of all it consists of.
--
-- The texts are the bundle, from which a batch can be known by the script that made it. So every
-- Lua file that the job requires goes through the searcher here, beside the job file first, and
-- after loading nothing new may be required: it would not be in the bundle.
local config = require "moontide.config"
local blame = require "moontide.rows.blame"
local core = require "moontide._core"
local fault = require "moontide.fault"
local json = require "moontide.values.json"
local json_parse = require "moontide.values.json_parse"
local log = require "moontide.log"
local mt = require "moontide"
local object = require "moontide.object"
local paths = require "moontide.paths"
local query = require "moontide.declare.query"
local reader = require "moontide.declare.reader"
local rows = require "moontide.rows.row"
local value = require "moontide.values"
local writer = require "moontide.declare.writer"
local writes = require "moontide.rows.writes"

local M = {}

---@class mt.Job
---@field file string as given
---@field folder string
---@field files { name: string, path: string, text: string }[] the bundle's, the job file first
---@field texts table<string, string>? by name, of the bundle that is loaded in place of the disk's
---@field sources table<string, boolean> chunk names
---@field before table<string, boolean> modules that were there already
---@field globals table? of its own, where the state is not the job's alone
---@field closed boolean nothing new may be loaded

local job ---@type mt.Job the one that is loading, or was loaded last

-- ---- a job's globals

local raw = { pairs = pairs, next = next, ipairs = ipairs }

local function not_a_row(name, v)
  if rows.is_row(v) then
    error(("%s does not see into a row; use mt.fields(row), or mt.totable(row)"):format(name), 3)
  end
  if type(v) == "cdata" then
    error(("%s takes a table, not %s; a column is walked by number: for i = 1, #column do … column[i] … end")
      :format(name, value.text(v)), 3)
  end
end

-- ipairs would stop at the first null and lose the rest.
local function no_null_inside(t)
  local shape = value.shape_of(t)
  for i = 1, shape and shape.n or 0 do
    if t[i] == nil then
      error(("ipairs stops at a null, and element %d of %d is one; mt.items(list) walks nulls too")
        :format(i, shape.n), 3)
    end
  end
end

-- No tail calls: see exact.lua.
local function safe_pairs(t)
  not_a_row("pairs", t)
  local step, state, from = raw.pairs(t)
  return step, state, from
end

local function safe_ipairs(t)
  not_a_row("ipairs", t)
  no_null_inside(t)
  local step, state, from = raw.ipairs(t)
  return step, state, from
end

local function safe_next(t, k)
  not_a_row("next", t)
  local key, v = raw.next(t, k)
  return key, v
end

for _, fn in raw.ipairs { safe_pairs, safe_ipairs, safe_next } do writes.harmless[fn] = true end
for _, fn in raw.ipairs { log.info, value.text, value.format } do writes.harmless[fn] = "copy" end

local rep = string.rep

-- LuaJIT's own wraps around: 1e10 times a text is the empty text, without an error.
local function safe_rep(text, n, between)
  if type(n) == "number" and n >= 2 ^ 31 then
    error(("string.rep: %.0f times is more than a text can hold"):format(n), 2)
  end
  local repeated = rep(text, n, between)
  return repeated
end

--- Puts in place of LuaJIT's own: pairs, next and ipairs that refuse a row, which looks empty to them, and
--- a string.rep that never gives less than asked.
function M.guard()
  pairs, ipairs, next = safe_pairs, safe_ipairs, safe_next -- luacheck: ignore
  string.rep = safe_rep -- luacheck: ignore
end

--- These, and the print, tostring and %s that round nothing.
function M.install()
  print, tostring, string.format = log.info, value.text, value.format -- luacheck: ignore
  M.guard()
end

-- ---- files

-- The name in the bundle: relative to the job's folder, so that it is the same from everywhere.
local function bundle_name(file)
  local prefix = job.folder .. "/"
  if job.folder == "." and file:sub(1, 1) ~= "/" then prefix = "" end
  return file:sub(1, #prefix) == prefix and file:sub(#prefix + 1) or file
end

local function read(file)
  if not job.texts then return paths.read(file) end
  return job.texts[bundle_name(file)], ("the batch's script has no file %s"):format(file)
end

-- Reads and compiles a file, and keeps its text.
local function compile(file)
  local text, problem = read(file)
  if not text then error(fault.new("JOB", "FATAL", problem), 0) end
  if not core.C.mt_utf8_valid(text, #text) then
    error(fault.new("JOB", "FATAL", ("%s is not UTF-8 text; write other bytes as \\xNN"):format(file)), 0)
  end
  job.files[#job.files + 1] = { name = bundle_name(file), path = file, text = text }
  blame.remember(file, text)
  job.sources["@" .. file] = true
  local chunk, complaint = loadstring((text:gsub("^#[^\n]*", "")), "@" .. file)
  if chunk then return job.globals and setfenv(chunk, job.globals) or chunk end
  local line, words = complaint:match "^.-:(%d+): (.*)$"
  -- what is never closed is found at the end of the file, and mended where it was opened
  line = words and words:match "%(to close .* at line (%d+)%) near '<eof>'$" or line
  error(fault.at(words or complaint, { file = file, line = tonumber(line) or 1 }), 0)
end

-- nil, and what of the job's folder was looked for: what Lua looks for, Lua tells.
local function find_module(name)
  local beside = ("%s/?.lua;%s/?/init.lua"):format(job.folder, job.folder)
  local templates = beside .. ";" .. package.path
  if not job.texts then
    local file, tried = package.searchpath(name, beside)
    if file then return file end
    return package.searchpath(name, package.path), job.folder ~= "." and tried or ""
  end
  for template in templates:gmatch "[^;]+" do
    local file = template:gsub("%?", (name:gsub("%.", "/"))):gsub("^%./", "")
    if job.texts[bundle_name(file)] then return file end
  end
  return nil, "\n\tnot in the batch's script"
end

-- Stands first among package.loaders: Lua modules of the job. Others are left to the rest.
local function searcher(name)
  if package.preload[name] or name:find "^moontide%f[%z.]" or name:find "^jit%." then return nil end
  if job.closed then
    fault.raise(("require %q: the job is loaded already, and what it loads later would not be kept with "
      .. "it; require it at the top of the file"):format(name))
  end
  local file, tried = find_module(name)
  if not file then return tried end
  return compile((file:gsub("^%./", "")))
end

--- Runs another Lua file, named from the job file's folder, and gives what it returns.
---@param file string
function M.file(file)
  fault.expect("mt.file", file, "string")
  if job.closed then fault.raise(("mt.file %q: the job is loaded already"):format(file)) end
  if file:sub(1, 1) ~= "/" and job.folder ~= "." then file = job.folder .. "/" .. file end
  return compile(file)()
end

-- ---- loading

---@class mt.Loading how a job is loaded, beside its file
---@field set table<string, string>? values of --set
---@field bundle string? JSON: these texts and values, and not those of the disk
---@field globals table? see mt.Job
---@field before string? the bundle that runs, and waits for this one

local function begin(file, how)
  local bundle = how.bundle and json_parse.decode(how.bundle)
  config.begin(how.set or {}, bundle and bundle.conf)
  job = { file = file, folder = paths.folder(file), files = {}, sources = {}, before = {}, closed = false,
    globals = how.globals, texts = bundle and {} }
  for _, one in raw.ipairs(bundle and bundle.files or {}) do job.texts[one.name] = one.text end
  for name in raw.pairs(package.loaded) do job.before[name] = true end
  if package.loaders[1] ~= searcher then table.insert(package.loaders, 1, searcher) end
  rawset(mt, "file", M.file)
  config.use_time_zone()
  if not bundle or bundle.main:sub(1, 1) == "/" or job.folder == "." then return bundle and bundle.main or file end
  return job.folder .. "/" .. bundle.main
end

local raised -- the frame of the error, noted before anything that takes stack

-- Any error of a job file as a fault with its line.
local function as_fault(e)
  raised = raised or debug.getinfo(2, "Sl")
  if fault.is_fault(e) then return e end
  local at = fault.here()
  local text = value.str(e)
  local line = text:match "^[^\n:]*:(%d+): "
  if line and tonumber(line) == at.line then text = text:gsub("^[^\n:]*:%d+: ", "", 1) end
  return fault.at(text, at)
end

-- A function that calls itself without end leaves little stack to as_fault, or none.
local function overflow(text)
  local words = tostring(text):gsub("^[^\n:]*:%d+: ", "")
  if raised and job.sources[raised.source] then
    return fault.at(words, { file = raised.source:sub(2), line = math.max(raised.currentline, raised.linedefined) })
  end
  return fault.new("JOB", "FATAL", ("%s: %s"):format(job.file, words))
end

local function protected(fn, ...)
  raised = nil
  local ok, result = xpcall(fn, as_fault, ...)
  if ok then return result end
  error(fault.is_fault(result) and result or overflow(result), 0)
end

-- What a job file returned, when it is one value.
local function only(...)
  if select("#", ...) > 1 then
    fault.raise(("the job returned %d values; it returns its queries as a list: return { a, b }")
      :format(select("#", ...)))
  end
  return (...)
end

local RELOAD_US = 30e6

-- Calls fn while another script runs in its place: the job's code gets an end, also where it has none. A
-- compiled loop hears no hook, so nothing is compiled meanwhile; what hangs in C hears none either.
local function within_time(file, fn, ...)
  local till = core.C.mt_clock_mono_us() + RELOAD_US
  local words = ("%s: loading it did not end within %d seconds"):format(file, RELOAD_US / 1e6)
  local problem = fault.new("JOB", "FATAL", words)
  local function stop() -- at each instruction: a pcall of the job's does not keep it
    if job.sources[debug.getinfo(2, "S").source] then error(problem, 0) end
  end
  jit.off()
  debug.sethook(function()
    if core.C.mt_clock_mono_us() > till then debug.sethook(stop, "", 1) end
  end, "", 1e6)
  local ok, result = pcall(fn, ...)
  debug.sethook()
  jit.on()
  return ok, result
end

--- Runs a job file and calls finish(what it returned) as a part of it: faults found there have no
--- frame of the job any more and stand at its last line.
---@param file string
---@param how mt.Loading
---@param finish fun(returned: any): any
---@return any what finish gave
function M.run(file, how, finish)
  file = begin(file, how)
  local chunk = compile(file)
  local loaded = { file = file, files = job.sources, chunk = chunk }
  fault.job(loaded)
  if not job.globals then M.install() end
  local starter = writer.starter
  writer.starter = nil
  local function load()
    local returned = only(chunk())
    return finish(returned)
  end
  local ok, result
  if how.before then ok, result = within_time(file, protected, load) else ok, result = pcall(protected, load) end
  writer.starter = starter
  if not ok then error(result, 0) end
  loaded.chunk = nil
  job.closed = true
  config.close()
  return result
end

--- The bundle: texts and values that the job consists of, the same text for the same job.
---@return string JSON
function M.bundle()
  local files = {}
  for i, file in ipairs(job.files) do files[i] = { name = file.name, text = file.text } end
  return json.encode { files = json.array(files), conf = config.given(), main = job.files[1].name }
end

--- Whether a file of the job holds another text than the one that was loaded. One that is not there is
--- being replaced.
---@return boolean
function M.edited()
  for _, file in raw.ipairs(job.files) do
    local text = paths.read(file.path)
    if text and text ~= file.text then return true end
  end
  return false
end

--- Names of C modules that the job loaded; they are not in the bundle.
---@return string[]
function M.c_modules()
  local names = {}
  for name in raw.pairs(package.loaded) do
    if not job.before[name] and not name:find "^moontide" and not package.preload[name]
        and not find_module(name) then
      names[#names + 1] = name
    end
  end
  table.sort(names)
  return names
end

-- ---- for mt.job

-- What a job's code sees in a state that is not its alone. Its modules go with it: the next job may
-- have others of these names.
local function own_globals(modules)
  local globals = {
    print = log.info, tostring = value.text, pairs = safe_pairs, ipairs = safe_ipairs, next = safe_next,
    string = setmetatable({ format = value.format }, { __index = string }),
    require = function(name)
      local module = modules[name]
      if module == nil then module = require(name) end
      return module
    end,
  }
  globals._G = globals
  return setmetatable(globals, { __index = _G })
end

local function take_modules(modules)
  for name, module in raw.pairs(package.loaded) do
    if not job.before[name] and not name:find "^moontide%f[%z.]" then
      modules[name], package.loaded[name] = module, nil
    end
  end
end

-- What loading a job changes in a state. Puts it back and gives what the job's functions need of it.
local function remember()
  local outer, config_before, job_before = job, config.current(), fault.job(nil)
  local file_before, loader = rawget(mt, "file"), package.loaders[1]
  fault.job(job_before)
  return function()
    job = outer
    rawset(mt, "file", file_before)
    if package.loaders[1] ~= loader then table.remove(package.loaders, 1) end
    return { config = config.use(config_before), loaded = fault.job(job_before) }
  end
end

--- Loads a job in a state that goes on afterwards as it was.
---@param file string
---@param set table<string, string>?
---@param stand_in (fun(name: string): mt.DataFrame?)? see moontide.declare.reader
---@return mt.DataStreamWriter[]
---@return string bundle JSON
function M.borrow(file, set, stand_in)
  local put_back, modules = remember(), {}
  reader.stand_in = stand_in
  local ok, queries = pcall(M.run, file, { set = set, globals = own_globals(modules) }, query.list)
  reader.stand_in = nil
  if job and job.file == file then take_modules(modules) end
  local bundle = ok and M.bundle()
  local home = put_back()
  if not ok then error(queries, 0) end
  for i, one in raw.ipairs(queries) do queries[i] = object.with(one, { _home = home }) end
  return queries, bundle
end

-- ---- for the host

local function missing_from(list, other)
  local there, names = {}, {}
  for _, name in raw.ipairs(other) do there[name] = true end
  for _, name in raw.ipairs(list) do
    if not there[name] then names[#names + 1] = name end
  end
  return table.concat(names, ", ")
end

local function lines_of(text)
  local list = {}
  for line in text:gmatch "[^\n]+" do list[#list + 1] = line end
  return list
end

-- A run has the queries that it began with.
local function expect_same_queries(now, before)
  local added, dropped = missing_from(now, before), missing_from(before, now)
  if added == "" and dropped == "" then return end
  local words = {}
  if added ~= "" then words[1] = "adds " .. added end
  if dropped ~= "" then words[#words + 1] = "drops " .. dropped end
  error(fault.new("JOB", "FATAL", ("%s: the file %s; a run keeps the queries it began with: restart for that")
    :format(job.file, table.concat(words, " and "))), 0)
end

local function place_of(identities, which)
  for place, identity in raw.ipairs(identities) do
    if which == place or which == identity then return place end
  end
  error(fault.new("JOB", "FATAL", ("%s: the file has no %s"):format(job.file, which)), 0)
end

-- What of a bundle is another than in the one before, for people.
local function changes_since(before, now)
  local function parts_of(bundle)
    local parts, decoded = {}, json_parse.decode(bundle)
    for _, one in raw.ipairs(decoded.files) do parts[one.name] = one.text end
    for name, v in raw.pairs(decoded.conf) do parts[("mt.conf %q"):format(name)] = v end
    return parts
  end
  local old, new, words = parts_of(before), parts_of(now), {}
  for name, text in raw.pairs(new) do
    if old[name] ~= text then words[#words + 1] = name .. (old[name] and "" or " (new)") end
  end
  for name in raw.pairs(old) do
    if new[name] == nil then words[#words + 1] = name .. " (gone)" end
  end
  table.sort(words)
  return table.concat(words, ", ")
end

---@class mt.HostLoading: mt.Loading
---@field queries string? identities that the job must have, a line each

--- Loads one query of a job.
---@param file string
---@param which integer|string its place, or its identity
---@param how mt.HostLoading
---@return mt.Plan
---@return { bundle: string, identity: string, queries: string, n: integer, files: string, changes: string? }
---queries and files: a line each
function M.load(file, which, how)
  local identities, place = {}, nil
  local plan = M.run(file, how, function(returned)
    local queries = query.list(returned)
    for i, one in raw.ipairs(queries) do identities[i] = query.identity(one, i) end
    if how.queries then expect_same_queries(identities, lines_of(how.queries)) end
    place = place_of(identities, which)
    return query.plan(queries[place])
  end)
  if which == 1 then
    for _, words in raw.ipairs(config.unread()) do log.warn(words) end
  end
  local files = {}
  for i, one in raw.ipairs(job.files) do files[i] = one.path end
  local bundle = M.bundle()
  return plan, { bundle = bundle, identity = identities[place], n = #identities,
    queries = table.concat(identities, "\n"), files = table.concat(files, "\n"),
    changes = how.before and changes_since(how.before, bundle) }
end

return M
