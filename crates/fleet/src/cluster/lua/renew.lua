-- owner, epoch, milliseconds, hosts with work -> 1 | 0
if not is_held(ARGV[1], ARGV[2]) then return 0 end
redis.call('HSET', HEAD, 'until', text(clock() + tonumber(ARGV[3])), 'hosts', ARGV[4])
return 1
