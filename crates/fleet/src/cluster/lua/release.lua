-- owner, epoch -> 1 | 0
if not is_held(ARGV[1], ARGV[2]) then return 0 end
requeue()
redis.call('HSET', HEAD, 'owner', '', 'until', 0, 'asked', text(clock()), 'node', node(),
  'hosts', redis.call('HLEN', HOST))
return 1
