-- Nodes of the tree are made from the log, and after its end was given up some of them are of events
-- that nobody has any more. They are made anew then, so they may go; to be changed they never may.
drop trigger append_only on daybook.log_node;
create trigger append_only before update on daybook.log_node
  for each row execute function daybook.refuse_change();

-- Drops the nodes over any position from this one on, but for those that could not be made anew since
-- events below them have left the database. Returns how many.
create function daybook.forget_nodes(_shard smallint, _from bigint) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  with gone as (
    delete from daybook.log_node
      where shard = _shard and (number + 1) * (256 ^ level)::bigint >= _from
        and (level > 1 or number * 256 >= daybook.first_position() - 1)
      returning 1)
  select count(*) from gone;
end;
revoke all on function daybook.forget_nodes(smallint, bigint) from public;
grant execute on function daybook.forget_nodes(smallint, bigint) to daybook_worker;
