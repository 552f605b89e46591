-- SPDX-License-Identifier: Apache-2.0
local batchframe = require "moontide.batch.frame"
local dataframe = require "moontide.declare.dataframe"
local mt = require "moontide"
local program = require "spec.program"
local state = require "moontide.batch.state"
local writer = require "moontide.declare.writer"

local folder = program.folder(before_each, after_each)

describe("moontide new", function()
  it("writes a job that check takes and demo runs", function()
    local done = folder:moontide "new clicks"
    assert.equal(0, done.code, done.err)
    for command in done.out:gmatch "moontide (%l+ clicks%.lua)" do
      local shown = folder:moontide(command .. (command:find "demo" and " --rows 50 --seconds 1" or ""))
      assert.equal(0, shown.code, shown.err)
      assert.equal("", shown.err)
    end
  end)

  it("names query, table and checkpoint after the job, also in a folder", function()
    assert.equal(0, folder:shell("mkdir jobs; moontide new jobs/paid_2.lua").code)
    local shown = folder:moontide "check jobs/paid_2.lua"
    assert.truthy(shown.out:find("(paid_2)", 1, true), shown.out)
    assert.truthy(shown.out:find("/out/paid_2.checkpoint", 1, true), shown.out)
  end)

  it("leaves a file that is there as it is", function()
    folder:write("clicks.lua", "mine")
    local done = folder:moontide "new clicks"
    assert.same({ 2, "moontide: clicks.lua is there already: choose another name\n" }, { done.code, done.err })
    assert.equal("mine", folder:read "clicks.lua")
  end)

  it("refuses what is no name, and a folder that is not there", function()
    for _, name in ipairs { "'a b'", "a/", "'x\"y'", "nowhere/x" } do
      local done = folder:moontide("new " .. name)
      assert.equal(2, done.code, name)
      assert.equal("", done.out)
    end
  end)
end)

describe("moontide types", function()
  local text

  before_each(function()
    local done = folder:moontide "types ."
    assert.equal(0, done.code, done.err)
    text = folder:read "moontide.d.lua"
  end)

  it("writes Lua that names all of mt", function()
    assert(loadstring(text))
    for name, v in pairs(mt) do
      local wanted = type(v) == "function" and "function mt." .. name .. "(" or "---@field " .. name .. " "
      assert.truthy(text:find(wanted, 1, true), name)
    end
    assert.truthy(text:find("---@field readStream mt.DataStreamReader", 1, true))
  end)

  it("names every method of frames and writers, with its words", function()
    local parents = { ["mt.DataStreamWriter"] = "mt.Destination" }
    local function body(class)
      return class and text:match("%-%-%-@class " .. class:gsub("%.", "%%.") .. "%f[^%w][^\n]*\n(.-)\nend\n") or ""
    end
    for class, of in pairs { ["mt.DataFrame"] = dataframe.class, ["mt.DataStreamWriter"] = writer.class,
      ["mt.Batch"] = batchframe.class, ["mt.State"] = state.class } do
      local own = body(class) .. body(parents[class])
      for name in pairs(of) do
        local only_refuses = name == "start" or name == "toTable"
        assert.truthy(only_refuses or own:find("[^\n]\nfunction class:" .. name .. "%("), class .. ":" .. name)
      end
    end
  end)

  it("says what each type is that it uses, and nothing of what is private", function()
    for name in text:gmatch "mt%.%u%w*" do
      assert.truthy(text:find("%-%-%-@%l+ " .. name:gsub("%.", "%%.") .. "%f[%W]"), name)
    end
    assert.falsy(text:find("package", 1, true))
  end)

  it("is written over, and the settings are left as they are", function()
    folder:write("moontide.d.lua", "old")
    folder:write(".luarc.json", "mine")
    local done = folder:moontide "types ."
    assert.equal(text, folder:read "moontide.d.lua")
    assert.equal("mine", folder:read ".luarc.json")
    assert.truthy(done.out:find("left as it is", 1, true))
  end)

  it("says that a folder is not there", function()
    local done = folder:moontide "types nowhere"
    assert.equal(2, done.code)
    assert.truthy(done.err:find("nowhere", 1, true), done.err)
  end)
end)
