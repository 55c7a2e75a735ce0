"""The steps of the journal on the server, in Lua: how entries are laid out there.

Invariants: each change is one step; the indexes, and the sum of the bytes, are those of the
entries that there are; an entry is changed only by its id and its mark, for a server that
forgot gives an id again.

An entry is the hash `e:ID`: `fixed` (packed), `inverse`, `diff`, `state`, `mark`, and
while there is use for them `whole` and `undo`; beside it what steps look at. Sets
ordered by id are `edits`, `open`, `at:PATH`, `below:FOLDER`, `hunk:ID`,
`group:NAME`, `undoing:ID`, and `openat:PATH` of the open ones of groups.
"""

from __future__ import annotations

from copydesk.desk.redis.leases import Script

SLACK = 1_000
"""After a server lost ids so many more are passed over: machines may have been given them."""

_INDEXES = """
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
"""

_OPEN = (
    _INDEXES
    + f"local SLACK = {SLACK}"
    + """
local ids, least = {}, tonumber(ARGV[A + 1])
local given = tonumber(redis.call('GET', p .. 'edit') or 0)
if given < least then
  redis.call('RPUSH', p .. 'lost', given + 1, least + SLACK)
  redis.call('SET', p .. 'edit', least + SLACK)
end
for at = A + 2, #ARGV, 10 do
  local fixed, inverse, diff, path, hunk, group, undoes, time, member, mark =
    unpack(ARGV, at, at + 9)
  local id = redis.call('INCR', p .. 'edit')
  redis.call('HSET', p .. 'e:' .. id, 'fixed', fixed, 'inverse', inverse, 'diff', diff,
    'state', 'open', 'path', path, 'hunk', hunk, 'group', group, 'undoes', undoes,
    'time', time, 'member', member, 'mark', mark)
  for _, index in ipairs(indexes(path, hunk, group, undoes)) do
    redis.call('ZADD', p .. index, id, id)
  end
  redis.call('ZADD', p .. 'open', id, id)
  if group ~= '' then redis.call('ZADD', p .. 'openat:' .. path, id, id) end
  redis.call('INCRBY', p .. 'bytes', #inverse + #diff)
  ids[#ids + 1] = id
end
changed()
return ids
"""
)
OPEN = Script(_OPEN, fenced=True)
"""An id below those to be given, and of each entry fixed, inverse, diff, path, hunk, group,
undoes, time, member, mark: their ids."""

REOPEN = Script("local A = 0\n" + _OPEN)
"""The same for who has lost its turn."""

CLOSE = Script(
    _INDEXES
    + """
local gone = 0
for at = 1, #ARGV, 3 do
  local id, e = ARGV[at], p .. 'e:' .. ARGV[at]
  if not is_there(id, ARGV[at + 1]) then
    if ARGV[at + 2] == 'done' then gone = gone + 1 end
  else
    replaced(id, 'whole', '')
    redis.call('HDEL', e, 'whole')
    redis.call('HSET', e, 'state', ARGV[at + 2])
    redis.call('ZREM', p .. 'open', id)
    redis.call('ZREM', p .. 'openat:' .. redis.call('HGET', e, 'path'), id)
  end
end
changed()
return gone
"""
)
"""Of each entry its id, its mark, and the state in which it ended: how many that were written
the server knows nothing of."""

KEEP_WHOLE = Script(_INDEXES + "replaced(ARGV[A + 1], 'whole', ARGV[A + 2])", fenced=True)
"""The id, and the old bytes."""

REPLACE = Script(
    _INDEXES
    + "if is_there(ARGV[1], ARGV[2]) then replaced(ARGV[1], ARGV[3], ARGV[4]) changed() end"
)
"""The id, the mark, the name of a field, and what it holds from now on."""

ONE = Script("return redis.call('HMGET', p .. 'e:' .. ARGV[1], unpack(ARGV, 2))")
"""The id, the names of fields: what they hold."""

OPEN_GROUPS = Script(
    """
local found = {}
for _, id in ipairs(redis.call('ZRANGE', p .. 'openat:' .. ARGV[1], 0, -1)) do
  local mark, group = unpack(redis.call('HMGET', p .. 'e:' .. id, 'mark', 'group'))
  found[#found + 1] = {id, mark, group}
end
return found
"""
)
"""The path: its open entries of groups, as id, mark and group, the oldest first."""

SCAN = Script(
    """
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
"""
)
"""Index, from where, the most, member or nothing, `up` or `down`, the names of fields.

Gives what the fields of the entries hold, each with its id before them, and the
last id that was looked at, 0 when there is none after it.
"""

DAYS = Script(
    """
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
"""
)
"""Today, in days since 1970, and 1 for who prunes. Days ahead of it were seen by a wrong clock.

Gives whether nobody has pruned today, and the days of use with the newest edit of each.
"""

SINCE = Script("redis.call('ZREMRANGEBYSCORE', p .. 'days', '-inf', '(' .. ARGV[1])")
"""The day before which the days of use are dropped."""

HELD = Script(
    """
local oldest = redis.call('ZRANGE', p .. 'edits', 0, 0)[1]
return {redis.call('ZCARD', p .. 'edits'), redis.call('GET', p .. 'bytes') or 0, oldest or 0,
  redis.call('ZCOUNT', p .. 'edits', '-inf', ARGV[1]), redis.call('ZRANGE', p .. 'days', 0, -1)}
"""
)
"""An id: how many entries, their bytes, the oldest, how many up to the id, the days of use."""

GIVEN = Script(
    """
local id, given = tonumber(ARGV[1]), tonumber(redis.call('GET', p .. 'edit') or 0)
local lost = redis.call('LRANGE', p .. 'lost', 0, -1)
for at = 1, #lost, 2 do
  if id >= tonumber(lost[at]) and id <= tonumber(lost[at + 1]) then return {given, 1} end
end
return {given, 0}
"""
)
"""An id: the highest that was given, and whether the server has lost the entry of this one."""

PRUNE = Script(
    _INDEXES
    + """
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
"""
)
"""The id up to which, and the bytes beyond which entries go, how many at most, from where.

Gives how many went, and the last id that was looked at, 0 when there is nothing left to do.
"""
