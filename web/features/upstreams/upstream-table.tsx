import type { UpstreamRow } from '#server/contract/upstreams.ts';
import { showCount } from '../../lib/format/show.ts';
import { Menu, type MenuItem } from '../../ui/dialog/menu.tsx';
import { Badge } from '../../ui/layout/parts.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { HealthMark } from './health-mark.tsx';
import { upstreamStatus } from './health-status.ts';
import { choiceOf } from './provider-choices.ts';

export type UpstreamAction = 'show' | 'test' | 'change' | 'remove';
type UpstreamTableProps = {
  upstreams: readonly UpstreamRow[];
  /** False for auditors. */ mayChange: boolean;
  onOpen: (what: UpstreamAction, upstream: string) => void;
};

/** Upstreams in order, with their health. */
export function UpstreamTable({ upstreams, mayChange, onOpen }: UpstreamTableProps) {
  return (
    <Table
      label="Upstreams"
      rows={upstreams}
      keyOf={({ name }) => name}
      columns={columns(mayChange, onOpen)}
    />
  );
}

const NAME_LOOK = [
  'text-left font-medium underline decoration-line-strong underline-offset-2',
  'wrap-anywhere hover:decoration-current',
].join(' ');
const MODELS_SHOWN_MAX = 4;

const columns = (mayChange: boolean, onOpen: UpstreamTableProps['onOpen']): Column<UpstreamRow>[] => [
  {
    head: 'Upstream',
    cell: (row) => (
      <>
        <p className="flex flex-wrap items-center gap-x-2">
          <button
            type="button"
            onClick={() => onOpen('show', row.name)}
            aria-label={`Upstream ${row.name}`}
            className={NAME_LOOK}
          >
            {row.name}
          </button>
          <SourceMark source={row.source} />
        </p>
        <p className="text-xs text-muted">
          {kindOf(row)}
          {row.source !== 'demo' && row.terms.network === 'private' && (
            <span className="max-md:hidden"> · private network</span>
          )}
        </p>
        {row.source !== 'demo' && row.terms.base_url !== undefined && (
          <p className="text-xs wrap-anywhere text-muted max-md:hidden">
            <code className="font-mono">{row.terms.base_url}</code>
          </p>
        )}
      </>
    ),
  },
  { head: 'Health', cell: (row) => <HealthMark status={upstreamStatus(row)} /> },
  { head: 'Models', cell: ({ terms: { models } }) => <Names names={models} />, isExtra: true },
  {
    head: 'Credentials',
    cell: ({ source, credentials }) =>
      source === 'demo' ? <span className="text-muted">Built in</span> : <Labels credentials={credentials} />,
    isExtra: true,
  },
  { head: 'Running', align: 'right', cell: ({ health: { running } }) => showCount(running), isExtra: true },
  actionsColumn((row) => (
    <span className="-my-1.5 inline-flex">
      <Menu
        label={`Actions for ${row.name}`}
        items={actionsOf(row, mayChange, (what) => onOpen(what, row.name))}
      />
    </span>
  )),
];

function actionsOf(
  { source }: UpstreamRow,
  mayChange: boolean,
  open: (what: UpstreamAction) => void,
): MenuItem[] {
  const own: MenuItem[] = [
    { label: 'Edit', icon: 'cog', onChoose: () => open('change') },
    { label: 'Remove', icon: 'close', onChoose: () => open('remove'), isDanger: true },
  ];
  return [
    { label: 'Details', icon: 'list', onChoose: () => open('show') },
    ...(mayChange
      ? [{ label: 'Test connection', icon: 'rocket' as const, onChoose: () => open('test') }]
      : []),
    ...(mayChange && source === 'log' ? own : []),
  ];
}

/** The provider's name. */
function kindOf({ source, terms }: UpstreamRow): string {
  if (source === 'demo') return 'Echoes your prompt';
  const { name, short = name } = choiceOf(terms);
  return terms.provider === 'bridge' ? (terms.package ?? name) : short;
}

/** The source of an upstream that can't be edited here. */
export function SourceMark({ source }: Pick<UpstreamRow, 'source'>) {
  return source === 'log' ? null : <Badge>{source === 'demo' ? 'Built in' : 'Environment'}</Badge>;
}

/** The first model names and patterns. */
function Names({ names }: { names: readonly string[] }) {
  if (names.length === 0) return <span className="text-muted">Custom models only</span>;
  const rest = names.length - MODELS_SHOWN_MAX;
  return (
    <ul className="flex max-w-72 flex-wrap gap-1">
      {names.slice(0, MODELS_SHOWN_MAX).map((name) => (
        <li key={name} className="rounded-sm bg-sunken px-1.5">
          <code className="font-mono text-xs wrap-anywhere">{name}</code>
        </li>
      ))}
      {rest > 0 && <li className="text-muted">{showCount(rest)} more</li>}
    </ul>
  );
}

function Labels({ credentials }: Pick<UpstreamRow, 'credentials'>) {
  const [first] = credentials;
  if (first === undefined || first.source === 'none') return <span className="text-muted">None</span>;
  if (first.source === 'environment') return <span className="text-muted">Environment</span>;
  return (
    <ul>
      {credentials.map(({ id, label, last4 }) => (
        <li key={id} className="wrap-anywhere">
          {label} {last4 !== '' && <code className="font-mono text-xs text-muted">…{last4}</code>}
        </li>
      ))}
    </ul>
  );
}
