import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { useMe } from '../../lib/api/session.ts';
import { capitalized, showCost, showCount, showDuration } from '../../lib/format/show.ts';
import { estimateOf } from '../../lib/format/usage-source.ts';
import { useFeed, useFrames } from '../../lib/feed/use-feed.ts';
import { Badge } from '../../ui/layout/parts.tsx';
import { Icon } from '../../ui/icon.tsx';
import { When } from '../../ui/when.tsx';
import { adviceFor } from './explain.ts';
import { ownKeysQuery } from './own-keys.ts';
import { follow, type SeenRequest } from './seen-requests.ts';

/** The account's requests as they happen, from this page or any other client. */
export function SeenPanel() {
  const { account, member } = useMe();
  const [calls, setCalls] = useState<readonly SeenRequest[]>([]);
  useFeed(member.role === 'member' ? {} : { account: account.id }, null);
  useFrames((frames) => setCalls((before) => follow(before, frames, account.id)));
  return (
    <div className="min-h-20" aria-live="polite" aria-relevant="additions">
      {calls.length === 0 ? (
        <p className="flex min-h-20 items-center justify-center gap-2 text-muted">
          <Icon name="clock" />
          Waiting for a request. It appears here as soon as the relay accepts it.
        </p>
      ) : (
        <ol className="flex flex-col divide-y divide-line">
          {calls.map((call) => (
            <Seen key={call.request} call={call} />
          ))}
        </ol>
      )}
    </div>
  );
}

function Seen({ call }: { call: SeenRequest }) {
  const { request, key, model, at, ending } = call;
  const name = useQuery(ownKeysQuery(useMe().account.id)).data?.find(({ id }) => id === key)?.name ?? key;
  return (
    <li className="flex flex-col gap-1.5 py-3 first:pt-0 last:pb-0">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <State call={call} />
        {model !== '' && <span className="font-medium">{model}</span>}
        <span className="text-muted">
          with {name}, <When time={at} form="time" />
        </span>
        <Link
          to="/requests"
          search={{ request }}
          className="ml-auto inline-flex items-center gap-1 text-accent underline"
        >
          View request <Icon name="arrow" size={14} />
        </Link>
      </div>
      <Figures call={call} />
      {ending?.type === 'refused' && (
        <p className="text-muted">{adviceFor(ending.status, ending.error_code)}</p>
      )}
    </li>
  );
}

function State({ call: { ending } }: { call: SeenRequest }) {
  if (ending === null) return <Badge>Running</Badge>;
  if (ending.type === 'refused') {
    return (
      <Badge tone="warn">
        Rejected: {ending.status} {ending.error_code}
      </Badge>
    );
  }
  if (ending.outcome === 'completed') return <Badge tone="success">Completed</Badge>;
  return (
    <Badge tone={ending.outcome === 'client_disconnected' ? 'warn' : 'danger'}>
      {capitalized(ending.end_reason.replaceAll('_', ' '))}
    </Badge>
  );
}

function Figures({ call: { ending, outputTokens } }: { call: SeenRequest }) {
  if (ending?.type === 'refused') return null;
  const figures: [string, string][] = [];
  if (ending?.input_tokens !== undefined) figures.push(['Input tokens', showCount(ending.input_tokens)]);
  figures.push([ending === null ? 'Output tokens so far' : 'Output tokens', showCount(outputTokens)]);
  const estimate = ending === null ? null : estimateOf(ending.usage_source);
  if (ending)
    figures.push([
      estimate === null ? 'Cost' : 'Estimated cost',
      ending.cost_nanousd === undefined ? 'No price set' : showCost(ending.cost_nanousd),
    ]);
  if (ending?.first_byte_ms !== undefined)
    figures.push(['Time to first token', showDuration(ending.first_byte_ms)]);
  if (ending?.duration_ms !== undefined) figures.push(['Duration', showDuration(ending.duration_ms)]);
  return (
    <dl className="flex flex-wrap gap-x-5 gap-y-1">
      {figures.map(([name, value]) => (
        <div key={name} className="flex gap-1.5">
          <dt className="text-muted">{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
