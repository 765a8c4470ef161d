-- KEYS: a hash of the crawl. field, value -> 1
-- Like HSET, but also works on a node that is out of memory.
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
