-- Whether a login is not one of Daybook's own: neither the owner nor a superuser, and allowed to act as
-- neither relay nor worker, such as the login of an auditor. Reads no table, since a login can make every
-- reader of a table wait.
create or replace function daybook.is_outside(_login oid) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- daybook_auditor itself is a login of the embedded server only, for the audits of the dashboard.
  return _login <> 'daybook_auditor'::regrole and not pg_has_role(_login, 'daybook_relay', 'MEMBER')
    and not pg_has_role(_login, 'daybook_worker', 'MEMBER');
end
$$;
