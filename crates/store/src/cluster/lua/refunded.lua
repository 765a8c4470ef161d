-- number -> 1
if redis.call('HGET', HEAD, 'refunds') == ARGV[1] then redis.call('HDEL', HEAD, 'refund') end
return 1
