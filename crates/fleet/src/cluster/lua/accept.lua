-- KEYS: the pool. bucket, number, amount -> 1
-- Adds a refund to the pool. Each number is counted only once.
if tonumber(redis.call('HGET', KEYS[1], 'r' .. ARGV[1]) or 0) < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], 'r' .. ARGV[1], ARGV[2])
  redis.call('HINCRBY', KEYS[1], 'left', ARGV[3])
end
return 1
