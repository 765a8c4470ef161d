-- owner, epoch, milliseconds -> 1 | 0
if not is_held(ARGV[1], ARGV[2]) then return 0 end
redis.call('HSET', HEAD, 'until', text(clock() + tonumber(ARGV[3])))
return 1
