-- SPDX-License-Identifier: Apache-2.0
-- Small batches, and functions that the JIT gave up on, have rows that are read in C. All that is said
-- of rows elsewhere holds for these.
local loops = require "moontide.rows.loops"

for _, file in ipairs { "rows", "steps", "value", "keys" } do
  describe("read in C:", function()
    local before
    setup(function() before, loops.small_batch = loops.small_batch, math.huge end)
    teardown(function() loops.small_batch = before end)
    setfenv(assert(loadfile("spec/" .. file .. "_spec.lua")), getfenv())()
  end)
end
