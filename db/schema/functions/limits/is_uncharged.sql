-- Whether a call isn't charged to a limit, since that one is only observed and would have rejected it.
-- `_body` is that of any of its events, which names these limits. Its twin is isUncharged in
-- db/events/admission.ts, and test/db/uncharged.test.ts compares the two for every meter and window.
create or replace function daybook.is_uncharged(
  _body text, _subject text, _meter smallint, _kind smallint
) returns boolean
language sql immutable
begin atomic
  select case when _body like '%"observed":%' then exists (
    select from jsonb_array_elements(_body::jsonb -> 'observed') as o(rejection)
      where o.rejection ->> 'subject' = _subject
        and o.rejection ->> 'meter' = case _meter
          when 1 then 'requests' when 2 then 'tokens' when 3 then 'cost_nanousd' when 4 then 'concurrent' end
        and o.rejection ->> 'window' = case _kind
          when 0 then 'none' when 1 then 'minute' when 2 then 'hour' when 3 then 'day' when 4 then 'week'
          when 5 then 'month' when 6 then 'lifetime' end
  ) else false end;
end;
