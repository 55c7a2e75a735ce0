-- The steps that a Redis or Valkey server makes as one, for `redis.py` beside this file.
--
-- A section begins with `---- NAME: PIECES`; the pieces are sections that stand before it in the
-- script. `p` is what all keys begin with; constants in capitals that no section defines come from
-- Python. What it takes and gives stands below the name. A `fenced` script is given leases and
-- open entries first, and is refused when one of them is gone.

---- epoch
-- Which server this is: the generation of its data, and the run of its process. A flush ends a
-- generation, a restart or a failover to a replica ends a run. A lease of another epoch is not
-- honored: the server may have forgotten that somebody else had it since.
local function epoch()
  local run = redis.call('INFO', 'server'):match('run_id:(%x+)') or ''
  return (redis.call('GET', p .. 'generation') or '') .. '-' .. run:sub(1, 16)
end

---- fenced: epoch
-- Leases and open entries stand before the other arguments; the next one is ARGV[A + 1].
local L = 2 * tonumber(ARGV[1]) + 1
local A = L + 1 + 2 * tonumber(ARGV[L + 1])
local now = L > 1 and epoch()
for i = 2, L, 2 do
  local value = ARGV[i + 1]
  if redis.call('GET', p .. 'lease:' .. ARGV[i]) ~= value or value:match('[^:]*$') ~= now then
    return redis.error_reply('LOST ' .. ARGV[i])
  end
end
for i = L + 2, A, 2 do
  local mark, state, path =
    unpack(redis.call('HMGET', p .. 'e:' .. ARGV[i], 'mark', 'state', 'path'))
  if mark ~= ARGV[i + 1] or state ~= 'open' then
    return redis.error_reply('LOST ' .. (path or ARGV[2] or ''))
  end
end

---- unfenced
local A = 0

---- queue
-- The queue of a key: a set of names by arrival, and of each a sign that it still waits.
local key, queue = ARGV[1], p .. 'queue:' .. ARGV[1]
local function waits(name) return p .. 'waits:' .. key .. ':' .. name end
local function freed(name) return p .. 'freed:' .. key .. ':' .. name end
local function first()
  while true do
    local name = redis.call('ZRANGE', queue, 0, 0)[1]
    if not name or redis.call('EXISTS', waits(name)) == 1 then return name end
    redis.call('ZREM', queue, name)
  end
end
local function leave(name)
  redis.call('ZREM', queue, name)
  redis.call('DEL', waits(name), freed(name))
end
local function wake()
  local name = first()
  if not name or redis.call('EXISTS', p .. 'lease:' .. key) == 1 then return end
  redis.call('DEL', freed(name))
  redis.call('RPUSH', freed(name), 1)
  redis.call('PEXPIRE', freed(name), WAITS_MS)
end

---- take_lease: epoch queue
local left = redis.call('PTTL', p .. 'lease:' .. key)
local before = first()
if left ~= -2 or (before and before ~= ARGV[2]) then
  if not redis.call('ZSCORE', queue, ARGV[2]) then
    redis.call('ZADD', queue, redis.call('INCR', p .. 'arrivals'), ARGV[2])
  end
  redis.call('SET', waits(ARGV[2]), 1, 'PX', WAITS_MS)
  return {0, left, redis.call('GET', p .. 'holder:' .. key) or ''}
end
leave(ARGV[2])
redis.call('SET', p .. 'holder:' .. key, ARGV[4])
redis.call('SET', p .. 'generation', ARGV[2], 'NX')
local value = redis.call('INCR', p .. 'token') .. ':' .. ARGV[2] .. ':' .. epoch()
redis.call('SET', p .. 'lease:' .. ARGV[1], value, 'PX', ARGV[3])
return {value, 0, ''}

---- leave_queue: queue
leave(ARGV[2]) wake()

---- release: queue
if redis.call('GET', p .. 'lease:' .. ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('DEL', p .. 'lease:' .. key, p .. 'holder:' .. key)
wake()
return 1

---- renew
local kept = {}
for i = 2, #ARGV, 2 do
  if redis.call('GET', p .. 'lease:' .. ARGV[i]) == ARGV[i + 1] then
    redis.call('PEXPIRE', p .. 'lease:' .. ARGV[i], ARGV[1])
    kept[#kept + 1] = i / 2 - 1
  end
end
return kept

---- keep_leases: fenced
for i = 2, L, 2 do redis.call('PEXPIRE', p .. 'lease:' .. ARGV[i], ARGV[A + 1]) end
return redis.status_reply('OK')

---- indexes
local function indexes(path, hunk, group, undoes)
  local found = {'edits', 'at:' .. path}
  for slash in path:gmatch('()/') do found[#found + 1] = 'below:' .. path:sub(1, slash - 1) end
  if hunk ~= '' then found[#found + 1] = 'hunk:' .. hunk end
  if group ~= '' then found[#found + 1] = 'group:' .. group end
  if undoes ~= '0' then found[#found + 1] = 'undoing:' .. undoes end
  return found
end
local function is_there(id, mark)
  local e = p .. 'e:' .. id
  return redis.call('EXISTS', e) == 1 and (redis.call('HGET', e, 'mark') or '') == mark
end
local function replaced(id, name, value)
  local e = p .. 'e:' .. id
  if redis.call('EXISTS', e) == 0 then return end
  redis.call('INCRBY', p .. 'bytes', #value - redis.call('HSTRLEN', e, name))
  redis.call('HSET', e, name, value)
end
local function changed() redis.call('HINCRBY', p .. 'changes', 'edits', 1) end

---- ending: indexes
-- Ends the plan that is tied to an entry, or unties it if that was not written.
local function end_plan(id, how, now)
  redis.call('HSET', p .. 'plan:' .. id, 'ended', how, 'expires', now)
  redis.call('HDEL', p .. 'plan:' .. id, 'plan', 'tx')
  redis.call('ZREM', p .. 'waiting', id)
  redis.call('ZADD', p .. 'fading', now, id)
  redis.call('HINCRBY', p .. 'changes', 'plans', 1)
end

---- record
-- The highest id that the caller knows, the minutes since 2020, and of each entry fixed, inverse,
-- diff, path, hunk, group, undoes, time, member, when its plan was prepared or nothing and when that
-- was decided on, mark: their ids; or the id of a plan that may not be written, and why, nothing if
-- it was decided on meanwhile.
-- Ids begin at the minutes: nobody knows which ids were given before by a server that lost them.
-- Those of a caller who knows some are followed by a gap: other processes may have got higher ones.
for at = A + 3, #ARGV, 12 do
  local hunk, created = ARGV[at + 4], ARGV[at + 9]
  if created ~= '' then
    local decided = redis.call('HGET', p .. 'decision:' .. hunk .. ' ' .. created, 'time') or '0'
    if decided ~= ARGV[at + 10] then return {hunk, ''} end
    local key, time = p .. 'plan:' .. hunk, tonumber(ARGV[at + 7])
    local ended, tx, expires = unpack(redis.call('HMGET', key, 'ended', 'tx', 'expires'))
    if not ended and expires and tonumber(expires) <= time then ended = 'expired' end
    if ended or tx or tonumber(redis.call('ZSCORE', p .. 'waiting', hunk) or 0) ~= tonumber(created)
    then
      return {hunk, ended or (tx and 'expired') or 'unknown'}
    end
  end
end
local ids, highest = {}, tonumber(ARGV[A + 1])
local given = tonumber(redis.call('GET', p .. 'edit') or -1)
if given < highest or given < 0 then
  given = math.max(highest, tonumber(ARGV[A + 2])) + (highest > 0 and 1000000 or 0)
  redis.call('SET', p .. 'edit', given)
  redis.call('SET', p .. 'first', given + 1)
end
for at = A + 3, #ARGV, 12 do
  local fixed, inverse, diff, path, hunk, group, undoes, time, member, created, decided, mark =
    unpack(ARGV, at, at + 11)
  local id = redis.call('INCR', p .. 'edit')
  redis.call('HSET', p .. 'e:' .. id, 'fixed', fixed, 'inverse', inverse, 'diff', diff,
    'state', 'open', 'path', path, 'hunk', hunk, 'group', group, 'undoes', undoes,
    'time', time, 'member', member, 'mark', mark)
  for _, index in ipairs(indexes(path, hunk, group, undoes)) do
    redis.call('ZADD', p .. index, id, id)
  end
  redis.call('ZADD', p .. 'open', id, id)
  redis.call('ZADD', p .. 'openat:' .. path, id, id)
  redis.call('INCRBY', p .. 'bytes', #inverse + #diff)
  if created ~= '' then redis.call('HSET', p .. 'plan:' .. hunk, 'tx', id) end
  ids[#ids + 1] = id
end
changed()
return ids

---- open: fenced indexes record

---- reopen: unfenced indexes record
-- The same for who has lost its turn.

---- close: ending
-- Of each entry its id, its mark, and the state in which it ended, which changes nothing if it has
-- ended already in another: how many that were written the server knows nothing of.
local gone = 0
for at = 1, #ARGV, 3 do
  local id, e = ARGV[at], p .. 'e:' .. ARGV[at]
  if not is_there(id, ARGV[at + 1]) then
    if ARGV[at + 2] == 'done' then gone = gone + 1 end
  elseif ENDS:find(' ' .. redis.call('HGET', e, 'state') .. '>' .. ARGV[at + 2] .. ' ', 1, true) then
    replaced(id, 'whole', '')
    redis.call('HDEL', e, 'whole')
    redis.call('HSET', e, 'state', ARGV[at + 2])
    redis.call('ZREM', p .. 'open', id)
    local path, hunk, time = unpack(redis.call('HMGET', e, 'path', 'hunk', 'time'))
    redis.call('ZREM', p .. 'openat:' .. path, id)
    if hunk ~= '' and redis.call('HGET', p .. 'plan:' .. hunk, 'tx') == id then
      if ARGV[at + 2] == 'failed' then redis.call('HDEL', p .. 'plan:' .. hunk, 'tx')
      else end_plan(hunk, 'applied', time) end
    end
  end
end
changed()
return gone

---- keep_whole: fenced indexes
-- The id, and the old bytes.
replaced(ARGV[A + 1], 'whole', ARGV[A + 2])

---- replace: indexes
-- The id, the mark, the name of a field, and what it holds from now on.
-- Not of an entry whose texts were forgotten.
if is_there(ARGV[1], ARGV[2]) and redis.call('HSTRLEN', p .. 'e:' .. ARGV[1], 'inverse') > 0 then
  replaced(ARGV[1], ARGV[3], ARGV[4])
  changed()
end

---- forget_text: indexes
-- The id, the mark, and what the closed entry has without its texts: fixed, diff.
local id, e = ARGV[1], p .. 'e:' .. ARGV[1]
if is_there(id, ARGV[2]) and redis.call('HGET', e, 'state') ~= 'open' then
  for _, name in ipairs({'inverse', 'whole', 'undo'}) do replaced(id, name, '') end
  redis.call('HDEL', e, 'whole', 'undo')
  replaced(id, 'diff', ARGV[4])
  redis.call('HSET', e, 'fixed', ARGV[3])
  changed()
end

---- one
-- The id, the names of fields: what they hold.
return redis.call('HMGET', p .. 'e:' .. ARGV[1], unpack(ARGV, 2))

---- open_at
-- Some paths: their open entries, as id and mark.
local found = {}
for _, path in ipairs(ARGV) do
  for _, id in ipairs(redis.call('ZRANGE', p .. 'openat:' .. path, 0, -1)) do
    found[#found + 1] = {id, redis.call('HGET', p .. 'e:' .. id, 'mark')}
  end
end
return found

---- scan
-- Index, from where, the most, member or nothing, `up` or `down`, the names of fields. Gives what
-- the fields of the entries hold, each with its id before them, and the last id that was looked at,
-- 0 when there is none after it.
local index, from, most, member = unpack(ARGV, 1, 4)
most = tonumber(most)
local step, stop = 'ZREVRANGEBYSCORE', '-inf'
if ARGV[5] == 'up' then step, stop = 'ZRANGEBYSCORE', '+inf' end
local ids = redis.call(step, p .. index, from, stop, 'LIMIT', 0, 500)
local found, last = {}, 0
for _, id in ipairs(ids) do
  if #found == most then return {last, found} end
  last = tonumber(id)
  local e = p .. 'e:' .. id
  if member == '' or redis.call('HGET', e, 'member') == member then
    found[#found + 1] = {id, unpack(redis.call('HMGET', e, unpack(ARGV, 6)))}
  end
end
if #ids < 500 then last = 0 end
return {last, found}

---- days
-- Today, in days since 1970, and 1 for who prunes. Days ahead of it were seen by a wrong clock.
-- Gives whether nobody has pruned today, and the days of use with the newest edit of each.
local today, prunes = tonumber(ARGV[1]), ARGV[2]
redis.call('ZREMRANGEBYSCORE', p .. 'days', '(' .. (today + 1), '+inf')
if redis.call('ZCOUNT', p .. 'days', today, today) == 0 then
  redis.call('ZADD', p .. 'days', today, today .. ':' .. (redis.call('GET', p .. 'edit') or 0))
end
local first = 0
if prunes == '1' and redis.call('GET', p .. 'pruned') ~= ARGV[1] then
  first = 1
  redis.call('SET', p .. 'pruned', ARGV[1])
end
return {first, redis.call('ZRANGE', p .. 'days', 0, -1)}

---- since
-- The day before which the days of use are dropped.
redis.call('ZREMRANGEBYSCORE', p .. 'days', '-inf', '(' .. ARGV[1])

---- held
-- An id: how many entries, their bytes, the oldest, how many up to the id, the days of use.
local oldest = redis.call('ZRANGE', p .. 'edits', 0, 0)[1]
return {redis.call('ZCARD', p .. 'edits'), redis.call('GET', p .. 'bytes') or 0, oldest or 0,
  redis.call('ZCOUNT', p .. 'edits', '-inf', ARGV[1]), redis.call('ZRANGE', p .. 'days', 0, -1)}

---- given
-- The first and the highest id that this server gave.
return redis.call('MGET', p .. 'first', p .. 'edit')

---- prune: indexes
-- The id up to which, and the bytes beyond which entries go, how many at most, from where. Gives
-- how many went, and the last id that was looked at, 0 when there is nothing left to do.
local upto, most, left, from = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local ids = redis.call('ZRANGEBYSCORE', p .. 'edits', from, '+inf', 'LIMIT', 0, 200)
local gone, last = 0, 0
for _, id in ipairs(ids) do
  local e = p .. 'e:' .. id
  local state, path, hunk, group, undoes =
    unpack(redis.call('HMGET', e, 'state', 'path', 'hunk', 'group', 'undoes'))
  local bytes = tonumber(redis.call('GET', p .. 'bytes') or 0)
  if gone == left or (bytes <= most and tonumber(id) > upto) then return {gone, 0} end
  if state ~= 'open' then
    for _, name in ipairs({'inverse', 'diff', 'whole', 'undo'}) do replaced(id, name, '') end
    for _, index in ipairs(indexes(path, hunk, group, undoes)) do
      redis.call('ZREM', p .. index, id)
    end
    redis.call('DEL', e)
    gone = gone + 1
  end
  last = tonumber(id)
end
return {gone, last}

---- touch_text
local now = redis.call('INCR', p .. 'uses')
redis.call('ZADD', p .. 'seen', now, ARGV[2])
redis.call('ZREMRANGEBYRANK', p .. 'seen', 0, -1 - ARGV[3])
if redis.call('EXISTS', p .. 'base:' .. ARGV[1]) == 0 then return 0 end
redis.call('ZADD', p .. 'bases', now, ARGV[1])
return 1

---- keep_text
local version, text, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local function size(name) return redis.call('STRLEN', p .. 'base:' .. name) end
local bytes = redis.call('INCRBY', p .. 'basebytes', #text - size(version))
redis.call('SET', p .. 'base:' .. version, text)
redis.call('ZADD', p .. 'bases', redis.call('INCR', p .. 'uses'), version)
while bytes > most do
  local oldest = redis.call('ZPOPMIN', p .. 'bases')[1]
  if not oldest then return end
  bytes = redis.call('DECRBY', p .. 'basebytes', size(oldest))
  redis.call('DEL', p .. 'base:' .. oldest)
end

---- forget_texts
-- The versions of the texts that stay.
local kept = {}
for _, version in ipairs(ARGV) do kept[version] = true end
for _, version in ipairs(redis.call('ZRANGE', p .. 'bases', 0, -1)) do
  if not kept[version] then
    redis.call('DECRBY', p .. 'basebytes', redis.call('STRLEN', p .. 'base:' .. version))
    redis.call('DEL', p .. 'base:' .. version)
    redis.call('ZREM', p .. 'bases', version)
  end
end

---- find_text
if ARGV[2] ~= '' and not redis.call('ZSCORE', p .. 'seen', ARGV[2]) then return false end
local text = redis.call('GET', p .. 'base:' .. ARGV[1])
if not text then return false end
local now = redis.call('INCR', p .. 'uses')
redis.call('ZADD', p .. 'bases', now, ARGV[1])
if ARGV[2] ~= '' then redis.call('ZADD', p .. 'seen', now, ARGV[2]) end
return text

---- note_shown
redis.call('HSET', p .. 'shown', ARGV[1], ARGV[2])
redis.call('ZADD', p .. 'readers', redis.call('INCR', p .. 'uses'), ARGV[1])
local over = redis.call('ZCARD', p .. 'readers') - tonumber(ARGV[3])
if over <= 0 then return end
for _, one in ipairs(redis.call('ZRANGE', p .. 'readers', 0, over - 1)) do
  redis.call('HDEL', p .. 'shown', one)
  redis.call('ZREM', p .. 'readers', one)
end

---- shown
return redis.call('HGET', p .. 'shown', ARGV[1])

---- erase
for _, key in ipairs(redis.call('KEYS', p .. '*')) do redis.call('DEL', key) end

---- counts
return redis.call('HMGET', p .. 'changes', 'plans', 'decisions', 'edits', 'fared')

---- take_decision
local name, owner, time, told, packed = unpack(ARGV)
local key = p .. 'decision:' .. name
if redis.call('EXISTS', key) == 0 then
  redis.call('HSET', key, 'packed', packed, 'owner', owner, 'time', time, 'told', told)
  redis.call('ZADD', p .. 'decided', time, name)
  if told == '0' then redis.call('ZADD', p .. 'untold:' .. owner, time, name) end
  local of = string.match(name, '^(%S+) %-')
  if of then redis.call('RPUSH', p .. 'comments:' .. of, name) end
  redis.call('HINCRBY', p .. 'changes', 'decisions', 1)
end
return redis.call('HMGET', key, 'packed', 'told')

---- decisions
-- Those of the named decisions that there are.
local function decisions(names)
  local found = {}
  for _, name in ipairs(names) do
    local packed, told = unpack(redis.call('HMGET', p .. 'decision:' .. name, 'packed', 'told'))
    if packed then found[#found + 1] = {packed, told} end
  end
  return found
end

---- decisions_of: decisions
return decisions(ARGV)

---- decided: decisions
return decisions(redis.call('ZRANGE', p .. 'decided', 0, -1))

---- repack
-- A decision, and what it holds from now on.
local key = p .. 'decision:' .. ARGV[1]
if redis.call('EXISTS', key) == 1 then redis.call('HSET', key, 'packed', ARGV[2]) end

---- drop
local function drop(name)
  local key = p .. 'decision:' .. name
  redis.call('ZREM', p .. 'untold:' .. redis.call('HGET', key, 'owner'), name)
  redis.call('ZREM', p .. 'decided', name)
  local of = string.match(name, '^(%S+) %-')
  if of then redis.call('LREM', p .. 'comments:' .. of, 0, name) end
  redis.call('DEL', key)
  redis.call('HINCRBY', p .. 'changes', 'decisions', 1)
end

---- withdraw: drop
if redis.call('HGET', p .. 'decision:' .. ARGV[1], 'time') == ARGV[2] then drop(ARGV[1]) end

---- forget: drop
local spare = redis.call('ZCARD', p .. 'decided') - ARGV[2]
for _, name in ipairs(redis.call('ZRANGEBYSCORE', p .. 'decided', '-inf', '(' .. ARGV[1],
    'LIMIT', 0, math.max(spare, 0))) do
  local plan = string.match(name, '^%S+')  -- eight digits; others are of no plan, and stay
  local ended = redis.call('ZSCORE', p .. 'fading', plan)
  if #plan == 8 and (not ended or tonumber(ended) < tonumber(ARGV[1])) then drop(name) end
end

---- untold: decisions
return decisions(redis.call('ZRANGE', p .. 'untold:' .. ARGV[1], 0, -1))

---- comments: decisions
return decisions(redis.call('LRANGE', p .. 'comments:' .. ARGV[1], 0, -1))

---- tell
local key = p .. 'decision:' .. ARGV[1]
if redis.call('EXISTS', key) == 1 then
  redis.call('HSET', key, 'told', 1)
  redis.call('ZREM', p .. 'untold:' .. redis.call('HGET', key, 'owner'), ARGV[1])
end

---- plan
local id, created, expires, plan = unpack(ARGV)
local function keep_plan()
  redis.call('HSET', p .. 'plan:' .. id, 'plan', plan, 'expires', expires)
  redis.call('ZADD', p .. 'waiting', created, id)
  redis.call('ZADD', p .. 'fading', expires, id)
  redis.call('HINCRBY', p .. 'changes', 'plans', 1)
end

---- add_plan: plan
local forget = ARGV[5]
local spare = redis.call('ZCARD', p .. 'fading') - PLANS_KEPT
for _, old in ipairs(redis.call('ZRANGEBYSCORE', p .. 'fading', '-inf', '(' .. forget,
    'LIMIT', 0, math.max(math.min(spare, 100), 0))) do
  redis.call('DEL', p .. 'plan:' .. old)
  redis.call('ZREM', p .. 'waiting', old)
  redis.call('ZREM', p .. 'fading', old)
end
if redis.call('EXISTS', p .. 'plan:' .. id) == 1 then return 0 end
keep_plan()
return 1

---- put_plan: plan
local ended, until_ = unpack(redis.call('HMGET', p .. 'plan:' .. id, 'ended', 'expires'))
if ended then return ended end
if not until_ then return 'unknown' end
if tonumber(until_) <= tonumber(created) then return 'expired' end
keep_plan()
return ''

---- reopen_plan: plan
if redis.call('HGET', p .. 'plan:' .. id, 'ended') ~= 'applied' then return 0 end
redis.call('HDEL', p .. 'plan:' .. id, 'ended')
keep_plan()
return 1

---- get_plan
return redis.call('HMGET', p .. 'plan:' .. ARGV[1], 'plan', 'ended', 'expires')

---- end_plan: fenced ending
end_plan(ARGV[A + 1], ARGV[A + 2], ARGV[A + 3])
return redis.status_reply('OK')

---- waiting
local found, now = {}, tonumber(ARGV[1])
for _, id in ipairs(redis.call('ZRANGE', p .. 'waiting', 0, -1)) do
  local plan, expires = unpack(redis.call('HMGET', p .. 'plan:' .. id, 'plan', 'expires'))
  if plan and tonumber(expires) > now then found[#found + 1] = plan end
end
return found

---- note_outcome
redis.call('LPUSH', p .. 'fared', ARGV[1])
redis.call('LTRIM', p .. 'fared', 0, MOST_OUTCOMES - 1)
redis.call('HINCRBY', p .. 'changes', 'fared', 1)

---- outcomes
return redis.call('LRANGE', p .. 'fared', 0, -1)
