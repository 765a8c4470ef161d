-- number, amount -> 1
-- Credits pages from the pool. Each number is credited only once.
if number(redis.call('HGET', HEAD, 'credited')) < tonumber(ARGV[1]) then
  redis.call('HSET', HEAD, 'credited', ARGV[1])
  redis.call('HINCRBY', HEAD, 'quota', ARGV[2])
end
return 1
