-- Shared by all scripts of a bucket. The six keys of a bucket have one hash tag and are declared by every script, so
-- that a slot can be moved between nodes at any time.
--   head   hash  owner, epoch, until; asked = the latest time at which an earlier owner may have sent a request, and the
--                node whose clock that is; hosts = how many hosts have work, for the plan; known, queued, leased, settled, pages, bytes; level and split of the seen set;
--                e<epoch>:<owner> = last settled sequence number; number of the last take; quota and its transfers
--   seen   hash  block number -> fingerprints, 8 bytes each
--   host   hash  host -> rank:first block:last block:links, one for each rank, the lowest first. The rank of a link is
--                its depth. Links with a priority have other ranks, negative for a high priority
--   queue  hash  rank:block:host -> links. A link shares its first bytes with the link before it in the block. It is
--                stored as the number of shared bytes, the length of the rest, its fingerprint and the rest;
--                n:host -> how many links of the host were put, if that is limited
--   run    hash  fingerprint of a leased link -> rank, number of the take, place in the take, host and link
--   note   hash  host -> the note for the next owner of the bucket: see pack_note
local HEAD, SEEN, HOST, QUEUE, RUN, NOTE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
-- A block of the queue is closed when it has this many bytes.
local BLOCK = 4096

-- The time of this node, in milliseconds since the Unix epoch.
local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- The identity of this node. After a failover the bucket is on a node with another clock.
local function node()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
end

-- The number in a reply; 0 if the field does not exist.
local function number(text)
  return tonumber(text or 0) or 0
end

-- A whole number as text, without an exponent.
local function text(value)
  return string.format('%.0f', value)
end

-- Whether the caller still holds the bucket: the fencing token is owner and epoch. A bucket that was acquired has an
-- epoch. Without one, the store has lost the bucket.
local function is_held(owner, epoch)
  local held = redis.call('HMGET', HEAD, 'owner', 'epoch')
  if not held[2] then error({ err = 'LOST the store does not have this bucket' }) end
  return held[1] == owner and held[2] == epoch
end

-- By how much the clocks of two nodes may differ, in milliseconds.
local MAX_SKEW = 600000

-- How long ago a time was that a node has stored. A time of another node cannot be compared exactly: the result is then
-- too small rather than too large.
local function since(time, by)
  local age = clock() - time
  if by ~= node() then age = age - MAX_SKEW end
  return math.max(age, 0)
end

-- A note about a host as a value of the hash `note`: when and by which node it was stored, how long the host must not be
-- asked from then on, and the text.
local function pack_note(wait, note)
  return string.format('%.0f:%s:%s|', clock(), node(), wait) .. note
end

local function unpack_note(value)
  local at, by, wait, note = string.match(value, '^(%d+):(%x*):(%d+)|(.*)$')
  return tonumber(at), by, tonumber(wait), note
end

-- The levels of a host's queue, one for each rank: { rank, first block, last block, links }.
local function levels_of(host)
  local levels, found = {}, redis.call('HGET', HOST, host)
  if found then
    for rank, first, last, links in string.gmatch(found, '(-?%d+):(%d+):(%d+):(%d+)') do
      levels[#levels + 1] = { tonumber(rank), tonumber(first), tonumber(last), tonumber(links) }
    end
  end
  return levels
end

-- Stores the levels of a host's queue. Returns the number of its links.
local function keep_levels(host, levels)
  if #levels == 0 then
    redis.call('HDEL', HOST, host)
    return 0
  end
  local parts, links = {}, 0
  for index, level in ipairs(levels) do
    parts[index] = string.format('%.0f:%.0f:%.0f:%.0f', level[1], level[2], level[3], level[4])
    links = links + level[4]
  end
  redis.call('HSET', HOST, host, table.concat(parts, ';'))
  return links
end

-- The field of a block in the hash `queue`.
local function field_of(rank, block, host)
  return text(rank) .. ':' .. text(block) .. ':' .. host
end

-- How many bytes two links share at their start, at most 255. Links of one page begin with the URL of that page.
local function shared_start(one, other)
  local low, high = 0, math.min(#one, #other, 255)
  while low < high do
    local middle = math.floor((low + high + 1) / 2)
    if string.sub(one, 1, middle) == string.sub(other, 1, middle) then low = middle else high = middle - 1 end
  end
  return low
end

-- A link as an entry of a block: it shares its first `shared` bytes with the link before it.
local function pack(fingerprint, link, shared)
  return struct.pack('>I1I3', shared, #link - shared) .. fingerprint .. string.sub(link, shared + 1)
end

-- Appends links of one host and rank, with their fingerprints, to its queue.
local function push(host, rank, fingerprints, links)
  local levels = levels_of(host)
  local at = 1
  while levels[at] and levels[at][1] < rank do at = at + 1 end
  if not levels[at] or levels[at][1] ~= rank then
    table.insert(levels, at, { rank, 0, 0, 0 })
  end
  local level = levels[at]
  local field = field_of(rank, level[3], host)
  local parts = { redis.call('HGET', QUEUE, field) or '' }
  local size = #parts[1]
  local before = ''
  for index, link in ipairs(links) do
    if size >= BLOCK then
      redis.call('HSET', QUEUE, field, table.concat(parts))
      level[3] = level[3] + 1
      field = field_of(rank, level[3], host)
      parts, size, before = {}, 0, ''
    end
    local entry = pack(fingerprints[index], link, shared_start(before, link))
    parts[#parts + 1] = entry
    size, before = size + #entry, link
  end
  redis.call('HSET', QUEUE, field, table.concat(parts))
  level[4] = level[4] + #links
  keep_levels(host, levels)
end

-- Takes up to `room` links of a host from its queue. Returns their fingerprint, rank and link, and how many are left.
local function pull(host, room)
  local levels, taken = levels_of(host), {}
  while #taken < room and levels[1] do
    local level = levels[1]
    local field = field_of(level[1], level[2], host)
    local block = redis.call('HGET', QUEUE, field) or ''
    local at, before = 1, ''
    local function next_link()
      local shared, size = struct.unpack('>I1I3', block, at)
      local fingerprint = string.sub(block, at + 4, at + 11)
      before = string.sub(before, 1, shared) .. string.sub(block, at + 12, at + 11 + size)
      at = at + 12 + size
      return fingerprint, before
    end
    while #taken < room and at <= #block do
      local fingerprint, link = next_link()
      taken[#taken + 1] = { fingerprint, level[1], link }
      level[4] = level[4] - 1
    end
    if at <= #block then
      -- The first link that stays shares nothing with a link before it any more.
      local fingerprint, link = next_link()
      redis.call('HSET', QUEUE, field, pack(fingerprint, link, 0) .. string.sub(block, at))
    else
      redis.call('HDEL', QUEUE, field)
      if level[2] < level[3] then
        level[2] = level[2] + 1
      else
        table.remove(levels, 1)
      end
    end
  end
  return taken, keep_levels(host, levels)
end

-- A leased link as a value of the hash `run`: its rank, the number of the take, its place in the take, host and link.
local function pack_run(rank, take, place, host, link)
  return struct.pack('>i4I4I4I2', rank, take, place, #host) .. host .. link
end

local function unpack_run(entry)
  local rank, take, place, size = struct.unpack('>i4I4I4I2', entry)
  return rank, take, place, string.sub(entry, 15, 14 + size), string.sub(entry, 15 + size)
end

-- Puts all leased links back into their queues. Their order is kept only between ranks, not within one rank.
local function requeue()
  local run = redis.call('HGETALL', RUN)
  local groups = {}
  for index = 1, #run, 2 do
    local rank, _, _, host, link = unpack_run(run[index + 1])
    local key = text(rank) .. ':' .. host
    groups[key] = groups[key] or { host, rank, {}, {} }
    table.insert(groups[key][3], run[index])
    table.insert(groups[key][4], link)
  end
  for _, group in pairs(groups) do
    push(group[1], group[2], group[3], group[4])
  end
  local count = #run / 2
  if count > 0 then
    redis.call('UNLINK', RUN)
    redis.call('HINCRBY', HEAD, 'queued', count)
    redis.call('HSET', HEAD, 'leased', 0)
  end
end
