-- number or 0, { host, rank, maximum number of links of the host or 0, count, { fingerprint, link } x count } ...
--   -> '1' for each new link, '0' for each known or dropped one; known, queued
-- Links whose rank is `settled` are settled already: they are not queued. A crawl is restored with them.
-- The effect is idempotent. With a number the reply is idempotent too: it is stored under the caller's own key
-- (the seventh), so that a caller whose reply was lost can find out which links its first attempt inserted.
-- The seen set is a linear hash table that grows by one block per SPLIT fingerprints.
local SPLIT = 224
local REMEMBER_SECONDS = 900
local head = redis.call('HMGET', HEAD, 'known', 'queued', 'level', 'split')
local known, queued, level, split = number(head[1]), number(head[2]), number(head[3]), number(head[4])
local blocks, dirty = {}, {}
if ARGV[1] ~= '0' then
  local last, earlier = string.match(redis.call('GET', KEYS[7]) or '', '^(%d+):(.*)$')
  if last and tonumber(last) >= tonumber(ARGV[1]) then return { earlier, known, queued } end
end

-- The number of the block that a fingerprint belongs to.
local function block_of(fingerprint)
  local low = struct.unpack('>I4', fingerprint, 5)
  local index = low % 2 ^ level
  if index < split then index = low % 2 ^ (level + 1) end
  return index
end

local function read(index)
  if not blocks[index] then blocks[index] = redis.call('HGET', SEEN, text(index)) or '' end
  return blocks[index]
end

-- Whether a block has a fingerprint. A match counts only at the start of a fingerprint.
local function holds(block, fingerprint)
  local from = 1
  while true do
    local at = string.find(block, fingerprint, from, true)
    if not at then return false end
    if (at - 1) % 8 == 0 then return true end
    from = at + 1
  end
end

-- Splits the next block in two.
local function grow()
  local block, stay, move = read(split), {}, {}
  for at = 1, #block, 8 do
    local fingerprint = string.sub(block, at, at + 7)
    local low = struct.unpack('>I4', fingerprint, 5)
    local part = (low % 2 ^ (level + 1) == split) and stay or move
    part[#part + 1] = fingerprint
  end
  local other = split + 2 ^ level
  blocks[split], blocks[other] = table.concat(stay), table.concat(move)
  dirty[split], dirty[other] = true, true
  split = split + 1
  if split == 2 ^ level then level, split = level + 1, 0 end
end

local answer, at, settled = {}, 2, 0
while at <= #ARGV do
  local host, rank, max_links, count = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  -- How many links of the host were put, if that is limited.
  local pages = max_links > 0 and number(redis.call('HGET', QUEUE, 'n:' .. host)) or 0
  local fingerprints, links = {}, {}
  at = at + 4
  for _ = 1, count do
    local fingerprint = ARGV[at]
    local index = block_of(fingerprint)
    local block = read(index)
    if holds(block, fingerprint) or (rank and max_links > 0 and pages >= max_links) then
      answer[#answer + 1] = '0'
    else
      blocks[index], dirty[index] = block .. fingerprint, true
      known, pages = known + 1, pages + 1
      if rank then
        fingerprints[#fingerprints + 1] = fingerprint
        links[#links + 1] = ARGV[at + 1]
      else
        settled = settled + 1
      end
      answer[#answer + 1] = '1'
      if known > SPLIT * (2 ^ level + split) then grow() end
    end
    at = at + 2
  end
  if #links > 0 then
    push(host, rank, fingerprints, links)
    queued = queued + #links
  end
  if max_links > 0 then redis.call('HSET', QUEUE, 'n:' .. host, text(pages)) end
end
if settled > 0 then redis.call('HINCRBY', HEAD, 'settled', settled) end
for index in pairs(dirty) do
  redis.call('HSET', SEEN, text(index), blocks[index])
end
-- The owner counts hosts whose links are all leased, too.
local hosts = math.max(number(redis.call('HGET', HEAD, 'hosts')), redis.call('HLEN', HOST))
redis.call('HSET', HEAD, 'known', text(known), 'queued', text(queued), 'level', level, 'split', text(split),
  'hosts', text(hosts))
local flags = table.concat(answer)
if ARGV[1] ~= '0' then redis.call('SET', KEYS[7], ARGV[1] .. ':' .. flags, 'EX', REMEMBER_SECONDS) end
return { flags, known, queued }
