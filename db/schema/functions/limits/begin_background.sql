-- Records that the response of a call may go on in the background, before its client sees its id.
-- Raises DB001 if the instance is not live: its recovery has ended the call, or will.
create or replace function daybook.begin_background(
  _instance integer, _request uuid, _account text, _id text, _upstream text, _credential text, _call text,
  _hold_tokens bigint, _hold_cost_nanousd bigint
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- The row stays locked until the commit, so that recovery finds every call.
  perform 1 from daybook.instance where id = _instance and dead_at is null for share;
  if not found then
    raise exception 'instance % is not live', _instance using errcode = 'DB001';
  end if;
  insert into daybook.background_response
      (request, account, id, upstream, credential, call, hold_tokens, hold_cost_nanousd, holder)
    values (_request, _account, _id, _upstream, _credential, _call, _hold_tokens, _hold_cost_nanousd,
      _instance);
end
$$;
