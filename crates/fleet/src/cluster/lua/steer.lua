-- KEYS: the data of the crawl, the pool. orders that are replaced, new orders, pages to add to the pool, whether the
-- crawl continues -> 1 | 0 if the orders are others by now
-- A crawl that continues after its end begins another leg.
if (redis.call('HGET', KEYS[1], 'orders') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'orders', ARGV[2])
if ARGV[3] ~= '0' then redis.call('HINCRBY', KEYS[2], 'left', ARGV[3]) end
if ARGV[4] == '1' then
  redis.call('HSET', KEYS[1], 'state', 'running')
  redis.call('HINCRBY', KEYS[1], 'continued', 1)
end
return 1
