-- KEYS: the pool. bucket, wanted -> number, amount | 0, 0
-- If the last transfer is not credited yet, it is returned again.
local pending = redis.call('HGET', KEYS[1], 't' .. ARGV[1])
if pending then
  local number, amount = string.match(pending, '(%d+):(%d+)')
  return { tonumber(number), tonumber(amount) }
end
local left = tonumber(redis.call('HGET', KEYS[1], 'left') or 0)
local amount = math.min(left, tonumber(ARGV[2]))
if amount <= 0 then return { 0, 0 } end
redis.call('HINCRBY', KEYS[1], 'left', -amount)
local number = redis.call('HINCRBY', KEYS[1], 'n' .. ARGV[1], 1)
redis.call('HSET', KEYS[1], 't' .. ARGV[1], number .. ':' .. amount)
return { number, amount }
