-- The events above one position up to another, one row each. Their order is that of positions only with
-- `order by`.
create or replace function daybook.events(
  _after bigint default 0, _up_to bigint default 9223372036854775807
) returns table (
  shard smallint, "position" bigint, at timestamptz, instance integer,
  type smallint, request uuid, account text, key text, model text, route smallint,
  end_user text, session text, tags text, parents text, upstream text, sse boolean,
  body_bytes integer, hold_tokens bigint, retry_count smallint, status smallint, end_reason smallint,
  usage_source smallint, input_tokens integer, cache_read_tokens integer,
  cache_write_tokens integer, output_tokens integer,
  reasoning_tokens integer, attempt_count smallint, first_byte_ms integer, duration_ms integer,
  stream text, version integer, body text, terms_position bigint, hold_cost_nanousd bigint,
  cost_nanousd bigint, upstream_cost_nanousd bigint, stated_cost_nanousd bigint, admitted_minute integer,
  price_version integer, rejected_count integer, error_code text, credential text, answered_model text,
  finish_reason text, service_tier text,
  provider_request text, prompt_estimate integer, max_output_tokens integer)
language sql stable
begin atomic
  select 0::smallint, e.position, e.at, e.instance, (e.f).type, (e.f).request, (e.f).account, (e.f).key,
      (e.f).model, (e.f).route, (e.f).end_user, (e.f).session, (e.f).tags,
      (e.f).parents, (e.f).upstream, (e.f).sse, (e.f).body_bytes, (e.f).hold_tokens, (e.f).retry_count,
      (e.f).status, (e.f).end_reason, (e.f).usage_source, (e.f).input_tokens, (e.f).cache_read_tokens,
      (e.f).cache_write_tokens,
      (e.f).output_tokens, (e.f).reasoning_tokens, (e.f).attempt_count, (e.f).first_byte_ms,
      (e.f).duration_ms, (e.f).stream, (e.f).version, (e.f).body, (e.f).terms_position,
      (e.f).hold_cost_nanousd, (e.f).cost_nanousd, (e.f).upstream_cost_nanousd,
      (e.f).stated_cost_nanousd, (e.f).admitted_minute, (e.f).price_version,
      (e.f).rejected_count, (e.f).error_code, (e.f).credential, (e.f).answered_model,
      (e.f).finish_reason, (e.f).service_tier, (e.f).provider_request,
      (e.f).prompt_estimate, (e.f).max_output_tokens
    from (
      select l.position, l.at, l.instance, l.line::daybook.event_fields as f
        from daybook.lines(_after, _up_to) l
        -- Without this, each field would parse the line again.
        offset 0
    ) e;
end;
