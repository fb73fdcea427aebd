-- The subjects that a call is charged to, where terms limit them: its account, that one's parents and its
-- key, and of each of them every end user, session and tag of the call. `holder` is the account or key whose
-- terms hold, `per` the kind that they count apart (0: none), `account` the one that the subject belongs to.
-- Its twin is db/limits/subjects.ts, and test/db/subjects.test.ts compares the two.
create or replace function daybook.subjects_of(
  _account text, _parents text, _key text, _end_user text, _session text, _tags text
) returns table (holder text, per smallint, subject text, account text)
language sql stable
begin atomic
  select h.holder, p.per, case p.per when 0 then h.holder else p.kind || h.scope || p.pseudonym end, h.account
    from (
      select 'account/' || a.id as holder, '/' || a.id || '/' as scope, a.id as account
        from string_to_table(concat_ws(' ', _account, _parents), ' ') as a(id)
      union all
      select 'key/' || _key, '/' || _account || '/' || _key || '/', _account
    ) h cross join (
      select 0::smallint as per, null::text as kind, null::text as pseudonym
      union all
      select 1::smallint, 'end_user', _end_user where _end_user is not null
      union all
      select 2::smallint, 'session', _session where _session is not null
      union all
      select distinct 3::smallint, 'tag', t.tag from string_to_table(_tags, ' ') as t(tag)
    ) p;
end;
