-- SPDX-License-Identifier: Apache-2.0
--- The loops that call a function of the job once a row, generated anew for each function.
--
-- What a row function costs is decided here: the loop, the row's __index and the stores into
-- columns are one trace when the JIT has seen them. See row.lua for why nothing is shared.
--
-- A loop runs over slices of a batch. When the JIT has given up on the function by the end of one,
-- the next goes through a loop in C with rows that are read in C: 150 ns a row instead of 700 and
-- more. It stays so for the life of the loop. Small batches go that way too: they would not be
-- compiled before they end, and attempts that end with the batch count as failures.
local columns = require "moontide.values.columns"
local core = require "moontide._core"
local crows = require "moontide._rows"
local escape = require "moontide.rows.escape"
local jitwatch = require "moontide.rows.jitwatch"
local keys = require "moontide.rows.keys"
local rows = require "moontide.rows.row"
local suggest = require "moontide.suggest"
local value = require "moontide.values"
local writes = require "moontide.rows.writes"

local M = {}

local SLICE = 16384 -- rows; the JIT gives up on a loop within 40,000

M.small_batch = 256 -- rows; fewer are not worth an attempt to compile

---@class mt.Loop
---@field schema mt.Schema of the rows
---@field run fun(batch: ffi.cdata*, fn: function, ...): any runs fn over a batch
---@field at fun(): integer the row it is at
---@field rest fun() after the loop, however it ended

---@class mt.Slices one kind of loop over one view
---@field slice fun(from: integer, to: integer, fn: function, state: any, ...: any): any the next state
---@field watched function? in whose bytecode the JIT marks that it gave up
---@field finish (fun(n: integer, state: any): any)? after the last slice

local function struct_names(fields, into)
  for _, field in ipairs(fields) do
    if field.type == "STRUCT" then into[field.name] = true end
    struct_names(field.children or {}, into)
  end
  return into
end

-- A loop over slices, each with the view that fits: with and without null checks, or in C. The
-- function is handed to it anew at every run: inside foreachBatch a function is another closure in
-- each batch, over the same code, and the loop that was compiled for that code goes on.
-- first: the state before the first slice. make(view): mt.Slices.
local function sliced(kind, schema, fn, first, make)
  local keeps, trusted = escape.keeps(fn, struct_names(schema.fields, {}))
  local nested = writes.nested_names(schema.fields)
  local found = writes.find(fn, nested)
  local views = rows.views(schema, not keeps, found.lines[1] and found.lines)
  local watch, loops, view, broken = jitwatch.new(kind, fn), {}, nil, false
  local function take_view(batch)
    local picked = views.pick(batch, watch.gave_up or tonumber(batch.array.length) < M.small_batch)
    if picked == view then return end
    if view then view.rest() end
    view = picked
    loops[view] = loops[view] or make(view)
    view.bind(batch)
    view.wake()
  end
  local self = { schema = schema }
  function self.run(batch, f, ...)
    local n, from, state = tonumber(batch.array.length), 0, first
    if not escape.holds(f, trusted) or not writes.holds(f, found) then
      -- from now on each turn has a row of its own, and what it gave out is looked at
      trusted, found = nil, { lines = found.lines, upvalues = {} }
      views, loops = rows.views(schema, true, nested.any and found.lines or nil), {}
    end
    broken = true
    view = nil
    repeat
      take_view(batch)
      local loop, to = loops[view], math.min(n, from + SLICE)
      watch.enter(view.cursor)
      state = loop.slice(from, to, f, state, ...)
      watch.leave(loop.watched)
      from = to
    until from >= n
    if loops[view].finish then state = loops[view].finish(n, state) end
    broken = false
    return state
  end
  function self.at() return view and view.cursor.i or 0 end
  function self.rest()
    if not view then return end
    view.rest()
    if broken then
      watch.leave()
      view.kill()
      views.drop(view)
      loops[view] = nil
    end
  end
  return self
end

-- A template with the code of turns in it; before names of columns get into the text.
local function with_turns(template, view)
  return (template:gsub("TURN", view.turn):gsub("OVER", view.over))
end

-- Runs generated code, named so that whoever looks for the line of an error stops there.
local function generate(name, code, ...)
  return assert(loadstring(code, "=moontide " .. name))(...)
end

-- The elements of several lists, as values.
local function all_of(...)
  local list = {}
  for _, one in ipairs { ... } do
    for _, v in ipairs(one) do list[#list + 1] = v end
  end
  return unpack(list)
end

-- ---- filter

local function refuse_answer(meaning)
  return function(answer)
    columns.refuse(("the function returned %s; %s"):format(columns.shown(answer), meaning))
  end
end

local FILTER = [[
local wrong, S, P, LIVE, RESTING, finish, setmetatable = ...
return function(from, n, f, kept, sel)
  for i = from, n - 1 do
    S.i = i
    TURN
    local answer = f(P)
    OVER
    if answer == true then
      sel[kept] = i
      kept = kept + 1
    elseif answer ~= false and answer ~= nil then
      wrong(answer)
    end
  end
  return kept
end]]

local FILTER_IN_C = [[
local wrong, view, filter, address = ...
return function(from, n, f, kept, sel)
  kept = filter(view.c, f, view.row, view.live, view.finish, from, n, wrong, kept, address(sel))
  return kept
end]]

--- run(batch, fn, sel) puts the rows for which fn is true into sel (int32_t *) and returns how many.
---@param schema mt.Schema
---@param fn function whose code is what run is given
---@param meaning string? of the answers, for who gave another
---@return mt.Loop
function M.filter(schema, fn, meaning)
  local wrong_answer = refuse_answer(meaning or "true keeps the row, false and nil drop it")
  return sliced("filter", schema, fn, 0, function(view)
    if view.c then
      return { slice = generate("filter", FILTER_IN_C, wrong_answer, view, crows.filter, core.address) }
    end
    local loop = generate("filter", with_turns(FILTER, view), wrong_answer, unpack(view.values))
    return { slice = loop, watched = loop }
  end)
end

-- ---- withColumn

local EACH_IN_C = [[
return function(from, n, f)
  each(view.c, f, view.row, view.live, view.finish, from, n, take)
end]]

local COLUMN = [[
local S, P, LIVE, RESTING, finish, setmetatable, %s = ...
return function(from, n, f)
  for i = from, n - 1 do
    S.i = i
    TURN
    local v = f(P)
    %s
    OVER
  end
end]]

local COLUMN_IN_C = [[
local view, each, %s = ...
local function take(v, i)
  %s
end
]] .. EACH_IN_C

--- run(batch, fn) builds one column of what fn returns; building.finish gives it.
---@param schema mt.Schema
---@param field mt.Field
---@param fn function whose code is what run is given
---@return mt.Loop, mt.Building
function M.column(schema, field, fn)
  local building = columns.building { field }
  return sliced("withColumn", schema, fn, nil, function(view)
    local function finish(n) building.verify(n, view.cursor) end
    local code = with_turns(view.c and COLUMN_IN_C or COLUMN, view):format(building.names, building.code(1))
    local loop = generate("withColumn", code, all_of(view.c and { view, crows.each } or view.values,
      building.values))
    return { slice = loop, watched = not view.c and loop or nil, finish = finish }
  end), building
end

local function store_code(field, building, n)
  return ("  do local v = t[%q]\n%s end"):format(field.name, building.code(n))
end

-- put(t, i) stores the fields of table t (or of the row) as row i.
local function put_code(fields, building, checks)
  local parts = { "local function put(t, i)", "  if type(t) ~= \"table\" then no_table(t) end" }
  for n, field in ipairs(fields) do parts[#parts + 1] = store_code(field, building, n) end
  if checks then parts[#parts + 1] = "  if t ~= P then check(t) end" end
  parts[#parts + 1] = "end"
  return table.concat(parts, "\n")
end

-- fill(to): the rows before `to` are put as they are.
local MAP_HEAD = [[
local S, P, LIVE, RESTING, finish, setmetatable, view, each, no_table, check, changed, partly, %s = ...
%s
local function fill(to)
  for i = 0, to - 1 do
    S.i = i
    put(P, i)
  end
end
]]

-- Either a function that only returns tables it has just made, or one that may return the row: as
-- long as it only does so nothing is built. At the first other row those before are filled in: all
-- columns, or those that mt.with changes.
local MAP = [[
local function build(from, n, f)
  for i = from, n - 1 do
    S.i = i
    TURN
    put(f(P), i)
    OVER
  end
  return false
end
local function pass(from, n, f)
  for i = from, n - 1 do
    S.i = i
    TURN
    local t = f(P)
    if t ~= P then
      local some = changed(t) == P and partly(t, i)
      if some then
        S.i = i
        some.put(t, i)
        OVER
        return some.run(i + 1, n, f)
      end
      fill(i)
      S.i = i
      put(t, i)
      OVER
      return build(i + 1, n, f)
    end
    OVER
  end
  return true
end
return build, pass, fill, put]]

local MAP_IN_C = [[
local function build(from, n, f)
  each(view.c, f, view.row, view.live, view.finish, from, n, put)
  return false
end
local function pass(from, n, f)
  fill(from)
  return build(from, n, f)
end
return build, pass, fill, put]]

-- Rows with changes (mt.with): only the columns that some row changes are built, the others are the
-- row's and move. At a row that changes another, that one is filled in; at one that is no such row, all.
local PARTLY = [[
local S, P, LIVE, RESTING, finish, setmetatable, changed, built, put_all, build, self, %s = ...
local function put(t, i)
%s
end
local function is_known(t)
  for key in next, t do
    if not built[key] then return false end
  end
  return true
end
function self.run(from, n, f)
  for i = from, n - 1 do
    S.i = i
    TURN
    local t = f(P)
    if t ~= P then
      if changed(t) ~= P then
        self.rest(i)
        S.i = i
        put_all(t, i)
        OVER
        return build(i + 1, n, f)
      elseif not is_known(t) then
        local wider = self.wider(t, i)
        S.i = i
        wider.put(t, i)
        OVER
        return wider.run(i + 1, n, f)
      end
    end
    put(t, i)
    OVER
  end
  return self
end
self.put = put]]

-- The rows before `to` put into one column as they are.
local FILL_ONE = [[
local S, P, LIVE, RESTING, finish, setmetatable, %s = ...
return function(to)
  for i = 0, to - 1 do
    S.i = i
    local t = P
%s
  end
end]]

local function no_table(answer)
  columns.refuse(answer == nil
    and "map: the function returned nil; every row gives a table (drop rows with filter before)"
    or ("map: the function returned %s; it returns a table or the row"):format(columns.shown(answer)))
end

-- Refuses a key that is no column of the result of a step of this kind.
local function key_checker(kind, schema)
  local known, names = schema.by_name, schema:names()
  return function(t)
    for key in next, t do
      if not known[key] then
        columns.refuse(("%s: the result has no column %q%s"):format(kind, value.text(key),
          suggest.cure(key, names)), type(key) == "string" and key or nil)
      end
    end
  end
end

-- True when the column can stand in the result as it is in the row.
local function same_column(schema, field)
  local from = schema.by_name[field.name]
  return from and from.ddl == field.ddl and (field.nullable or not from.nullable)
end

-- True when every column of `out` is a column of `schema` of the same type.
local function same_columns(schema, out)
  for _, field in ipairs(out.fields) do
    if not same_column(schema, field) then return false end
  end
  return true
end

-- Fills columns of `out` with the rows before `to`: those of the set, or (without) all others.
local function filler(view, out, building)
  local fill_one = {}
  return function(to, set, without)
    for n, field in ipairs(out.fields) do
      if (set[field.name] ~= nil) ~= without then
        fill_one[n] = fill_one[n] or generate("map", FILL_ONE:format(building.names, store_code(field, building, n)),
          all_of(view.values, building.values))
        fill_one[n](to)
      end
    end
  end
end

-- What goes through rows that mt.with changed. made(set of columns) and made.first(t, i): for a row.
local function changer(slices, view, schema, out, building, check, put_all, build)
  local fill, known = filler(view, out, building), {}
  local function made(built)
    local names = table.concat(suggest.keys(built), "\0")
    if known[names] then return known[names] end
    local code, self = {}, { built = built, view = view }
    for n, field in ipairs(out.fields) do
      if built[field.name] then code[#code + 1] = store_code(field, building, n) end
    end
    function self.rest(to) fill(to, built, true) end
    function self.wider(t, to)
      check(t)
      local all, more = {}, {}
      for name in pairs(built) do all[name] = true end
      for name in next, t do
        if not built[name] then all[name], more[name] = true, true end
      end
      fill(to, more, false)
      return made(all)
    end
    generate("map", with_turns(PARTLY, view):format(building.names, table.concat(code, "\n")),
      all_of(view.values, { rows.changes, built, put_all, build, self }, building.values))
    slices.last, known[names] = self, self
    return self
  end
  local function first(t, to)
    local built = {}
    for _, field in ipairs(out.fields) do
      if not same_column(schema, field) then built[field.name] = true end
    end
    fill(to, built, false)
    return made(built).wider(t, to)
  end
  return made, first
end

--- run(batch, fn) is true when fn returned the row itself for every row, and its columns can stand for
--- the result's; else the result's columns are built and building.finish gives them: all (false) or
--- those of a set of names.
---@param schema mt.Schema
---@param out mt.Schema
---@param fn function whose code is what run is given
---@return mt.Loop, mt.Building
function M.map(schema, out, fn)
  local building = columns.building(out.fields)
  local proved, may_return_row = keys.proves(fn, out.by_name)
  local head = MAP_HEAD:format(building.names, put_code(out.fields, building, not proved))
  local same, check = same_columns(schema, out), key_checker("map", out)
  return sliced("map", schema, fn, may_return_row, function(view)
    local code = head .. with_turns(view.c and MAP_IN_C or MAP, view)
    local self, changes = {}, {}
    local function partly(t, i)
      local some = changes.first(t, i)
      return some
    end
    local build, pass, fill, put = generate("map", code,
      all_of(view.values, { view, crows.each, no_table, check, rows.changes, partly }, building.values))
    changes.made, changes.first = changer(self, view, schema, out, building, check, put, build)
    function self.finish(n, state)
      if state == true and same then return true end
      if state == true then fill(n) end
      local built = state and state ~= true and state.built
      building.verify(n, view.cursor, built or nil)
      return built
    end
    local function go(from, to, f, state)
      -- what changed rows in the last batch does so in this one
      if state == true and from == 0 and self.last then return self.last.run(from, to, f) end
      if state == true then return pass(from, to, f) end
      if not state then return build(from, to, f) end
      if state.view == view then return state.run(from, to, f) end
      changes.made(state.built).rest(from)
      return build(from, to, f)
    end
    function self.slice(from, to, f, state)
      state = go(from, to, f, state)
      self.watched = not view.c and (not state and build or state == true and pass or state.run) or nil
      return state
    end
    return self
  end), building
end

-- ---- flatMap

-- O.row[k] is the row that row k of the result comes from; there is room for O.room of them.
local Origins = core.typeof "struct { int32_t *row; int32_t room; }"
local MOST = 2 ^ 31 - 1

local SPREAD = [[
local S, P, LIVE, RESTING, finish, setmetatable, view, each, O, more, no_array, no_table, check, %s = ...
%s
local function spread(list, i, made)
  if type(list) ~= "table" then no_array(list) end
  local n = #list
  if n == 0 then no_array(list) end
  if made + n > O.room then more(made, n) end
  for k = 1, n do
    put(list[k], made)
    O.row[made] = i
    made = made + 1
  end
  return made
end
]]

local FLAT_MAP = [[
return function(from, n, f, made)
  for i = from, n - 1 do
    S.i = i
    TURN
    made = spread(f(P), i, made)
    OVER
  end
  return made
end]]

local FLAT_MAP_IN_C = [[
local so_far
local function take(list, i) so_far = spread(list, i, so_far) end
return function(from, n, f, made)
  so_far = made
  each(view.c, f, view.row, view.live, view.finish, from, n, take)
  return so_far
end]]

-- An answer without elements: an empty table is one of none, all else is a mistake.
local function no_array(answer)
  local shape = value.shape_of(answer)
  if shape and shape.kind == "ARRAY" and shape.n == 0 then return end
  if type(answer) == "table" and not rows.is_row(answer) and next(answer) == nil then return end
  local is = answer == nil and "nil" or columns.shown(answer)
  if type(answer) == "table" then is = rows.is_row(answer) and "the row" or "a table that is no array" end
  columns.refuse(("flatMap: the function returned %s; it returns an array of tables, { {…}, {…} }, and {} for "
    .. "no row"):format(is))
end

local function no_element(answer)
  columns.refuse(("flatMap: an element of the array is %s; each is a table or the row"):format(
    answer == nil and "nil" or columns.shown(answer)))
end

-- Room for n rows behind those made.
local function grower(building, origins, keep)
  return function(made, n)
    if made + n > MOST then
      columns.refuse("flatMap: the batch would have more than 2^31 rows; make the batch smaller "
        .. "(maxOffsetsPerTrigger, maxBatchBytes)")
    end
    local room = math.min(MOST, math.max(2 * origins.room, made + n))
    local list = core.new("int32_t[?]", room)
    if made > 0 then core.copy(list, origins.row, 4 * made) end
    keep.list, origins.row = list, list
    building.grow(made, room - made)
    origins.room = room
  end
end

--- run(batch, fn) builds the columns of all that fn's arrays hold and returns how many rows that are.
--- begin(rows) comes before, with room for that many at first; in what it returns, `row` says of each
--- made row which row of the batch it comes from.
---@param schema mt.Schema
---@param out mt.Schema
---@param fn function whose code is what run is given
---@return mt.Loop, mt.Building, fun(rows: integer): { row: ffi.cdata* }
function M.flat_map(schema, out, fn)
  local building, origins, keep = columns.building(out.fields), Origins(), {}
  local more, check = grower(building, origins, keep), key_checker("flatMap", out)
  local head = SPREAD:format(building.names, put_code(out.fields, building, true))
  local loop = sliced("flatMap", schema, fn, 0, function(view)
    local code = head .. with_turns(view.c and FLAT_MAP_IN_C or FLAT_MAP, view)
    local run = generate("flatMap", code, all_of(view.values,
      { view, crows.each, origins, more, no_array, no_element, check }, building.values))
    local came_from = setmetatable({}, { __newindex = function(_, _, made) view.cursor.i = origins.row[made] end })
    local function finish(_, made)
      building.verify(made, came_from)
      return made
    end
    return { slice = run, watched = not view.c and run or nil, finish = finish }
  end)
  return loop, building, function(room)
    building.begin(room)
    origins.room = 0
    more(0, room)
    return origins
  end
end

return M
