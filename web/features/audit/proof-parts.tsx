import type { CheckpointRow, LogKey, Proof, WitnessRow } from '#server/contract/audit.ts';
import { Link } from '@tanstack/react-router';
import { showCount, showCounted } from '../../lib/show.ts';
import { CopyButton, Copyable } from '../../ui/copy.tsx';
import { Badge, Card, Empty, Facts } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Ago, When } from '../../ui/when.tsx';

/** The root of a tree, as much of it as tells two apart. */
export const shortRoot = (root: string): string => `${root.slice(0, 12)}…`;

const At = ({ position }: { position: number }) => (
  <Link to="/audit" search={{ at: position }} className="underline hover:text-accent">
    {showCount(position)}
  </Link>
);

export function NewestCheckpoint({ proof: { log }, newest }: { proof: Proof; newest: CheckpointRow }) {
  return (
    <Card title="The newest checkpoint" actions={<CopyButton text={newest.note} label="Copy the note" />}>
      <Facts
        facts={[
          ['Log', <Copyable key="log" text={log.origin} what="the name of the log" />],
          ['Covers', `every event up to position ${showCount(newest.size)}`],
          ['Published', <When key="at" time={newest.published_at} />],
          ['Root', <Copyable key="root" text={newest.root} shown={shortRoot(newest.root)} what="the root" />],
          ['Signed by', newest.signed_by.map(({ key_id }) => `key ${key_id}`).join(', ')],
          ['Cosigned by', newest.witnesses.length === 0 ? 'no witness yet' : newest.witnesses.join(', ')],
        ]}
      />
      <details className="mt-3">
        <summary className="w-fit text-xs text-muted hover:text-ink">The note as it was signed</summary>
        <pre
          tabIndex={0}
          role="region"
          aria-label="The note"
          className="mt-2 overflow-x-auto rounded-md bg-sunken p-3 font-mono text-xs"
        >
          {newest.note}
        </pre>
      </details>
      <p className="mt-3 text-xs text-muted">
        Keep a copy of one where nobody who runs this server can reach it: from then on nobody can rewrite
        what it covers without being found out.
      </p>
    </Card>
  );
}

const WITNESSES: readonly Column<WitnessRow>[] = [
  { head: 'Witness', cell: ({ name }) => <span className="font-medium wrap-anywhere">{name}</span> },
  {
    head: 'State',
    cell: ({ size, configured }) =>
      size === null ? (
        <Badge tone="warn">never seen</Badge>
      ) : configured ? (
        <Badge tone="good">cosigns</Badge>
      ) : (
        <Badge>no longer named</Badge>
      ),
  },
  { head: 'Cosigned up to', align: 'right', cell: ({ size }) => (size === null ? '' : showCount(size)) },
  {
    head: 'Behind',
    align: 'right',
    cell: ({ behind }) => (behind === null ? '' : showCounted(behind, 'event')),
    isExtra: true,
  },
  { head: 'Last heard of', cell: ({ seen_at }) => (seen_at === null ? '' : <Ago time={seen_at} />) },
];

export function Witnesses({ proof }: { proof: Proof }) {
  return (
    <Card title="Witnesses" flush>
      <Table
        label="Witnesses"
        rows={proof.witnesses}
        keyOf={({ name }) => name}
        columns={WITNESSES}
        empty={
          <Empty icon="people" title="Nobody else keeps watch">
            <p>
              A witness follows the checkpoints from another machine, and refuses a history that was changed.
              Without one, whoever holds the signing key can show two people two logs. On another machine:{' '}
              <code className="font-mono text-xs">daybook witness</code>
            </p>
          </Empty>
        }
      />
    </Card>
  );
}

const KEYS: readonly Column<LogKey>[] = [
  {
    head: 'Key',
    cell: ({ key_id, verifier_key }) => (
      <Copyable text={verifier_key} shown={key_id} what={`the verifier key ${key_id}`} />
    ),
  },
  {
    head: 'State',
    cell: ({ is_signing: signs }) =>
      signs ? <Badge tone="good">signs</Badge> : <Badge>signed before</Badge>,
  },
  { head: 'Put down at', align: 'right', cell: ({ position }) => <At position={position} /> },
  { head: 'Since', cell: ({ at }) => at !== null && <When time={at} />, isExtra: true },
];

/** Who signs, and who did. */
export function Keys({ keys }: { keys: readonly LogKey[] }) {
  if (keys.length === 0) return null;
  return (
    <Card title="Keys of the log" flush>
      <Table label="Keys of the log" rows={keys} keyOf={({ key_id }) => key_id} columns={KEYS} />
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        These lines come from the log itself. An auditor takes the verifier key from whoever runs this server,
        once, by another way, and compares.
      </p>
    </Card>
  );
}

const LOST: readonly Column<Proof['lost'][number]>[] = [
  { head: 'History', cell: ({ epoch }) => `Epoch ${epoch}` },
  { head: 'Published up to', align: 'right', cell: ({ size }) => showCount(size) },
  { head: 'Given up at', align: 'right', cell: ({ position }) => <At position={position} /> },
  { head: 'When', cell: ({ at }) => at !== null && <When time={at} />, isExtra: true },
];

/** Histories that were given up on purpose. */
export function Lost({ lost }: { lost: Proof['lost'] }) {
  if (lost.length === 0) return null;
  return (
    <Card title="Histories given up" flush>
      <Table label="Histories given up" rows={lost} keyOf={({ epoch }) => String(epoch)} columns={LOST} />
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        The log was taken up from an older backup, and somebody said so in it. What had been published behind
        that place is lost.
      </p>
    </Card>
  );
}
