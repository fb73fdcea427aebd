-- Ends the requests that a dead instance left open, and closes the instance's leases. Since the instance is
-- fenced, its requests and leases can't change any more. Returns how many requests were abandoned; 0 if
-- another recoverer was first.
--
-- A request of the last heartbeat's report (daybook.call_progress) is charged what the report says: its
-- usage by then and a heartbeat's worth. Any other is charged its whole reservation: under a hard limit that
-- alone bounds the usage, since an instance that was only cut off from the database goes on relaying. One
-- whose response goes on in the background of its provider is charged in the same way, and has no ending yet:
-- a server settles it when the response has ended.
create or replace function daybook.recover_instance(_dead integer, _by integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _from bigint;
  _count integer;
  _tokens bigint[];
  _cost bigint[];
  _open bigint[];
  _lines text[];
begin
  -- One recoverer at a time for each dead instance, and the row before the log: a concurrent fence_instance
  -- holds the row while it waits for the log.
  select open_from into _from from daybook.instance
    where id = _dead and dead_at is not null and closed_at is null
    for no key update;
  if not found then
    return 0;
  end if;
  -- Before allowances and the log, as daybook.settle_background locks them.
  update daybook.background_response set due_at = statement_timestamp(), taken_by = null
    where taken_by = _dead;
  update daybook.batch set due_at = statement_timestamp(), taken_by = null where taken_by = _dead;
  with appended as materialized (
    select position, (fields).* from daybook.events_of(_dead, _from)
  ), reservation as (
    -- The newest hold of each request: of its acceptance or of its last extension.
    select distinct on (a.request) a.request, a.account, a.key, a.model, a.route, a.end_user, a.session,
        a.tags, a.parents, a.hold_tokens, a.hold_cost_nanousd, a.admitted_minute, a.terms_position,
        a.body, a.position, daybook.is_handed_over(a.type, a.body) as is_handed_over
      from appended a
      where a.type in (100, 103)
        and not exists (select from appended e where e.type = 101 and e.request = a.request)
      order by a.request, a.position desc
  ), progress as (
    select r.* from daybook.call_progress p,
        unnest(p.request, p.tokens, p.cost_nanousd) as r(request, tokens, cost_nanousd)
      where p.instance = _dead
  ), charge as (
    -- A call that was handed over is no open one: its charge is that of an ended one.
    -- Of nulls "least" takes the other value.
    select r.*, least(r.hold_tokens, p.tokens) as tokens,
        case when r.hold_cost_nanousd is not null
          then least(r.hold_cost_nanousd, p.cost_nanousd) end as cost_nanousd
      from reservation r left join progress p using (request) where not r.is_handed_over
  ), background as (
    update daybook.background_response b
        set hold_tokens = coalesce(c.tokens, r.hold_tokens),
          hold_cost_nanousd = case when c.request is null then r.hold_cost_nanousd else c.cost_nanousd end
      from reservation r left join charge c using (request) where b.request = r.request
      returning b.request
  )
  -- The codes are those of db/events/events.ts: 102 request.abandoned, 9 abandoned, 3 estimated.
  select count(*) filter (where b.request is null), array_agg(c.tokens), array_agg(c.cost_nanousd),
      array_agg(c.position), array_agg(jsonb_populate_record(null::daybook.event_fields, jsonb_build_object(
        'type', 102, 'request', c.request, 'account', c.account, 'key', c.key, 'model', c.model,
        'route', c.route, 'end_user', c.end_user, 'session', c.session, 'tags', c.tags,
        'parents', c.parents,
        'hold_tokens', c.tokens, 'hold_cost_nanousd', c.cost_nanousd, 'admitted_minute', c.admitted_minute,
        'terms_position', c.terms_position, 'body', c.body, 'end_reason', 9, 'usage_source', 3))::text)
        filter (where b.request is null)
    into _count, _tokens, _cost, _open, _lines
    from charge c left join background b using (request);
  perform daybook.close_leases(_dead, _open, _tokens, _cost);
  delete from daybook.call_progress where instance = _dead;
  if _count > 0 then
    -- A recoverer numbers these batches by the dead instance, below zero, so that they differ from its own.
    perform daybook.append(0::smallint, _by, -_dead::bigint, _lines);
  end if;
  update daybook.instance set closed_at = clock_timestamp() where id = _dead;
  return _count;
end
$$;
