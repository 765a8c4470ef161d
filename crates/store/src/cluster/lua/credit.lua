-- number, amount -> 1
-- Pages from the pool, once for each number.
if number(redis.call('HGET', HEAD, 'credited')) < tonumber(ARGV[1]) then
  redis.call('HSET', HEAD, 'credited', ARGV[1])
  redis.call('HINCRBY', HEAD, 'quota', ARGV[2])
end
return 1
