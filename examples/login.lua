-- A Kafka that asks for a user and a password. The password comes from a file, and is shown nowhere.
--   moontide run examples/login.lua --once --set brokers=… --set user=bob --set password=file:/run/kafka-password
local mt = require "moontide"

return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", mt.conf "brokers")
  :option("kafka.security.protocol", mt.conf("protocol", "SASL_SSL"))
  :option("kafka.sasl.mechanism", mt.conf("mechanism", "SCRAM-SHA-512"))
  :option("kafka.sasl.username", mt.conf "user")
  :option("kafka.sasl.password", mt.secret "password")
  :option("subscribe", mt.conf("topic", "orders"))
  :option("startingOffsets", "earliest")
  :load()
  :map("value STRING", function(row) return { value = row.value } end)
  .writeStream:format "console"
