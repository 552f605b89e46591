-- SPDX-License-Identifier: Apache-2.0
--- What becomes of a secret between mt.secret and the sink that takes it.
local config = require "moontide.config"
local core = require "moontide._core"
local options = require "moontide.options"
local support = require "spec.support"

local function option(name, value) return options.add({}, name, value)[1] end

describe("an option", function()
  before_each(function() config.begin { PW = "hunter2222", OTHER = "another one", SHORT = "a" } end)

  it("that is a secret remembers which", function()
    local one = option("password", config.secret "PW")
    assert.equal("hunter2222", one.value)
    assert.equal('{"secret":"PW"}', one.secret)
    assert.is_nil(option("path", "/out").secret)
  end)

  it("that has secrets in it remembers its parts", function()
    local text = "Pwd=" .. config.secret "PW" .. ";x=" .. config.secret "OTHER" .. config.secret "PW" .. ";"
    assert.equal('["Pwd=",{"secret":"PW"},";x=",{"secret":"OTHER"},{"secret":"PW"},";"]',
      option("connection", text).secret)
  end)

  it("is not taken for a secret because a short one is a part of it", function()
    local short = config.secret "SHORT"
    assert.equal('{"secret":"SHORT"}', option("sep", short).secret)
    assert.is_nil(option("path", "/data").secret)
  end)

  it("reaches the core with it", function()
    local pairs_ = core.pairs { option("user", "me"), option("password", config.secret "PW") }
    assert.is_true(pairs_.items[0].secret == nil)
    assert.equal('{"secret":"PW"}', core.string(pairs_.items[1].secret))
  end)

  it("called connection is refused with a password written out in it", function()
    for _, text in ipairs { "Driver=x;Pwd=hunter3", "DSN=a; PASSWORD = hunter3;", "pwd={hunter3}" } do
      local words = support.error_of(function() option("connection", text) end)
      assert.matches('option "connection" has a password in it', words, 1, true)
      assert.is_nil(words:find "hunter3")
    end
    assert.is_nil(option("connection", "DSN=shop;Pwd=;Uid=me").secret)
    assert.is_not_nil(option("connection", "Uid=me;Pwd=" .. config.secret "PW").secret)
    assert.is_not_nil(option("connection", config.secret "PW").secret)
  end)
end)

describe("the host", function()
  it("asks for a secret by its name, and is told when there is none", function()
    config.begin { PW = "today's" }
    assert.equal("today's", config.recall "PW")
    assert.matches('mt.secret "GONE" is not set; set MOONTIDE_GONE', support.error_of(config.recall, "GONE"), 1, true)
  end)
end)

describe("what is shown", function()
  it("has no secret in it, whatever bytes it has", function()
    config.begin { PW = "hunter2222" }
    config.secret "PW"
    assert.equal("a\0*** and ***", config.mask "a\0hunter2222 and hunter2222")
  end)
end)
