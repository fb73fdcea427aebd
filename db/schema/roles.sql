-- The roles that append-only rests on: privileges, not promises. Roles belong to the whole cluster, so
-- another database of the cluster may have created them already.
do $$
declare
  _role text;
  -- Before PostgreSQL 16 every member of a role may set it.
  _may_set text := case when current_setting('server_version_num')::integer < 160000 then 'MEMBER'
    else 'SET' end;
begin
  foreach _role in array array['daybook_relay', 'daybook_worker', 'daybook_auditor'] loop
    -- Checked first: an owner without CREATEROLE can use roles that an administrator created for it.
    if not exists (select from pg_roles where rolname = _role) then
      begin
        execute format('create role %I nologin', _role);
      exception when duplicate_object or unique_violation then
        null; -- A concurrent starter created it.
      end;
    end if;
    -- The owner may act as each of the roles, so one DATABASE_URL serves all four.
    if not pg_has_role(current_user, _role, _may_set) then
      execute format('grant %I to current_user', _role);
    end if;
  end loop;
exception when insufficient_privilege then
  raise exception '% may not create the role % or become it: an administrator has to run the SQL that '
    '"daybook db roles" prints', current_user, _role using errcode = 'insufficient_privilege';
end
$$;
