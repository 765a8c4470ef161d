-- number -> 1
-- Deletes the record of a completed refund.
if redis.call('HGET', HEAD, 'refunds') == ARGV[1] then redis.call('HDEL', HEAD, 'refund') end
return 1
