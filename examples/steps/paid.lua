--- Paid orders: steps that a job and its trial share.
---@param orders mt.DataFrame with the column value
---@return mt.DataFrame
return function(orders)
  return orders
    :fromJson("value", "order_id BIGINT, event STRING, amount DECIMAL(12,2)")
    :filter(function(row) return row.event == "purchase" and row.amount ~= nil end)
    :select("order_id", "amount")
end
