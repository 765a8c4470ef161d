-- KEYS: a hash of the crawl. field, value -> 1
-- As HSET, which a node that is out of memory refuses.
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
