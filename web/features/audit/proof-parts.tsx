import type { CheckpointRow, LogKey, Proof, WitnessRow } from '#server/contract/audit.ts';
import { Link } from '@tanstack/react-router';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { CopyButton, Copyable } from '../../ui/copy.tsx';
import { Badge, Card, Empty, Facts } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { Ago, When } from '../../ui/when.tsx';

/** A shortened root hash. */
export const shortRoot = (root: string): string => `${root.slice(0, 12)}…`;

const At = ({ position }: { position: number }) => (
  <Link to="/audit" search={{ at: position }} className="underline hover:text-accent">
    {showCount(position)}
  </Link>
);

export function NewestCheckpoint({ proof: { log }, newest }: { proof: Proof; newest: CheckpointRow }) {
  return (
    <Card title="Latest checkpoint" actions={<CopyButton text={newest.note} label="Copy checkpoint" />}>
      <Facts
        facts={[
          ['Origin', <Copyable key="log" text={log.origin} what="log origin" />],
          ['Tree size', showCounted(newest.size, 'event')],
          ['Published', <When key="at" time={newest.published_at} />],
          [
            'Root hash',
            <Copyable key="root" text={newest.root} shown={shortRoot(newest.root)} what="root hash" />,
          ],
          ['Signed by', newest.signed_by.map(({ key_id }) => `key ${key_id}`).join(', ')],
          ['Cosigned by', newest.witnesses.length === 0 ? 'No witness yet' : newest.witnesses.join(', ')],
        ]}
      />
      <details className="mt-3">
        <summary className="w-fit text-xs text-muted hover:text-ink">Signed note</summary>
        <pre
          tabIndex={0}
          role="region"
          aria-label="Signed note"
          className="mt-2 overflow-x-auto rounded-md bg-sunken p-3 font-mono text-xs"
        >
          {newest.note}
        </pre>
      </details>
      <p className="mt-3 text-xs text-muted">
        Store a copy outside this server. Anyone who has it can detect changes to the events that it covers.
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
        <Badge tone="warn">Never seen</Badge>
      ) : configured ? (
        <Badge tone="success">Cosigning</Badge>
      ) : (
        <Badge>Not configured</Badge>
      ),
  },
  { head: 'Cosigned up to', align: 'right', cell: ({ size }) => (size === null ? '' : showCount(size)) },
  {
    head: 'Behind',
    align: 'right',
    cell: ({ behind }) => (behind === null ? '' : showCounted(behind, 'event')),
    isExtra: true,
  },
  { head: 'Last seen', cell: ({ seen_at }) => (seen_at === null ? '' : <Ago time={seen_at} />) },
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
          <Empty icon="people" title="No witnesses">
            <p>
              A witness runs on another machine and cosigns only checkpoints that extend the same history.
              Without one, the holder of the signing key could present different logs to different readers.
              Start one with <code className="font-mono text-xs">daybook witness</code>
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
      <Copyable text={verifier_key} shown={key_id} what={`verifier key ${key_id}`} />
    ),
  },
  {
    head: 'State',
    cell: ({ is_signing: signs }) => (signs ? <Badge tone="success">Active</Badge> : <Badge>Retired</Badge>),
  },
  { head: 'Recorded at', align: 'right', cell: ({ position }) => <At position={position} /> },
  { head: 'Since', cell: ({ at }) => at !== null && <When time={at} />, isExtra: true },
];

/** Current and former signing keys. */
export function Keys({ keys }: { keys: readonly LogKey[] }) {
  if (keys.length === 0) return null;
  return (
    <Card title="Signing keys" flush>
      <Table label="Signing keys" rows={keys} keyOf={({ key_id }) => key_id} columns={KEYS} />
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        These keys are read from the log itself. Auditors should obtain the verifier key from the operator
        over a separate channel and compare.
      </p>
    </Card>
  );
}

const LOST: readonly Column<Proof['lost'][number]>[] = [
  { head: 'Epoch', cell: ({ epoch }) => String(epoch) },
  { head: 'Published up to', align: 'right', cell: ({ size }) => showCount(size) },
  { head: 'Ended at', align: 'right', cell: ({ position }) => <At position={position} /> },
  { head: 'Time', cell: ({ at }) => at !== null && <When time={at} />, isExtra: true },
];

/** Epochs that ended with a restore from a backup. */
export function Lost({ lost }: { lost: Proof['lost'] }) {
  if (lost.length === 0) return null;
  return (
    <Card title="Restored epochs" flush>
      <Table label="Restored epochs" rows={lost} keyOf={({ epoch }) => String(epoch)} columns={LOST} />
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        The log was restored from an older backup, and the restore was recorded. Events published after that
        position are lost.
      </p>
    </Card>
  );
}
