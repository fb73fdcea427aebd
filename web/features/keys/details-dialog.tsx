import { Link } from '@tanstack/react-router';
import type { KeyRow } from '#server/contract/keys.ts';
import { isActive } from '../../lib/api/names.ts';
import { showCost, showCounted } from '../../lib/format/show.ts';
import { correctedPart, estimatedShare } from '../../lib/format/usage-source.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Copyable } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/dialog/dialog.tsx';
import { Icon } from '../../ui/icon.tsx';
import { Facts } from '../../ui/layout/parts.tsx';
import { describeTerms } from '../../ui/terms/summary.ts';
import { Ago, When } from '../../ui/when.tsx';
import { Expiry, LastUsed, shownSecret, StateBadge } from './key-marks.tsx';
import type { KeyAct } from './keys-table.tsx';

type DetailsDialogProps = {
  row: KeyRow;
  canChange: boolean;
  onAct: (act: KeyAct) => void;
  onClose: () => void;
};

/** Key details with links and actions. */
export function DetailsDialog({ row, canChange, onAct, onClose }: DetailsDialogProps) {
  const {
    id,
    name,
    account_name,
    last4,
    state,
    created_at,
    expires_at,
    revoked_at,
    rotated_at,
    last_used_at,
    month,
    terms,
  } = row;
  return (
    <Dialog onClose={onClose} title={name} shape="side">
      <div className="flex flex-col gap-5">
        {state === 'rotating' && <Overlap row={row} />}
        <Facts
          facts={[
            ['State', <StateBadge key="state" state={state} />],
            [
              'Secret',
              row.workload === null ? (
                <code key="secret" className="font-mono text-xs">
                  {shownSecret(id, last4)}
                </code>
              ) : (
                `Short-lived, by workload ${row.workload}`
              ),
            ],
            ['ID', <Copyable key="id" text={id} what="key ID" />],
            ['Account', account_name],
            ['Last used', <LastUsed key="used" time={last_used_at} />],
            ['Created', <When key="created" time={created_at} />],
            ['Rotated', rotated_at !== null && <When key="rotated" time={rotated_at} />],
            [
              'Expires',
              expires_at === null ? (
                'Never'
              ) : (
                <span key="expires" className="flex flex-wrap gap-x-2">
                  <When time={expires_at} /> <Expiry row={row} />
                </span>
              ),
            ],
            ['Revoked', revoked_at !== null && <When key="revoked" time={revoked_at} />],
            [
              'This month',
              [
                showCounted(month.requests, 'request'),
                showCounted(month.tokens, 'token'),
                showCost(month.cost_nanousd),
                estimatedShare(month),
                correctedPart(month),
              ]
                .filter((part) => part !== null)
                .join(' · '),
            ],
            ['Restrictions', describeTerms(terms ?? {}, 'key')],
          ]}
        />
        <nav aria-label="Key resources" className="flex flex-wrap gap-2">
          <Link to="/requests" search={{ key: id }} className={buttonClass()}>
            <Icon name="list" />
            Requests
          </Link>
          <Link to="/usage" search={{ key: id }} className={buttonClass()}>
            <Icon name="bars" />
            Usage
          </Link>
          <Link to="/audit" search={{ key: id }} className={buttonClass()}>
            <Icon name="scroll" />
            Events
          </Link>
        </nav>
        <div className="flex flex-wrap gap-2 border-t border-line pt-4">
          <Button icon="check" onClick={() => onAct('check')}>
            Test access
          </Button>
          {canChange && isActive(row) && (
            <>
              <Button icon="cog" onClick={() => onAct('change')}>
                Edit
              </Button>
              {row.workload === null && (
                <>
                  <Button icon="refresh" onClick={() => onAct('rotate')}>
                    Rotate
                  </Button>
                  <Button icon="warning" look="danger" onClick={() => onAct('leaked')}>
                    Report leak
                  </Button>
                </>
              )}
              <Button icon="close" look="danger" onClick={() => onAct('revoke')}>
                Revoke
              </Button>
            </>
          )}
        </div>
      </div>
    </Dialog>
  );
}

/** Both secrets of a rotating key, and whether the old one is still in use. */
function Overlap({
  row: { last4, last_used_at, previous_last4, previous_last_used_at, overlap_ends_at, rotated_at },
}: {
  row: KeyRow;
}) {
  const isQuiet =
    previous_last_used_at === null || (rotated_at !== null && previous_last_used_at < rotated_at);
  return (
    <section className="rounded-lg border border-warn bg-warn-soft p-3">
      <h3 className="font-medium text-warn">Two active secrets</h3>
      <dl className="mt-2 grid grid-cols-[auto_auto_1fr] gap-x-4 gap-y-1">
        <dt>New</dt>
        <dd className="contents">
          <code className="font-mono text-xs leading-5">…{last4}</code>
          <span>
            Last used <LastUsed time={last_used_at} />
          </span>
        </dd>
        <dt>Old</dt>
        <dd className="contents">
          <code className="font-mono text-xs leading-5">…{previous_last4}</code>
          <span>
            Last used <LastUsed time={previous_last_used_at} />
            {overlap_ends_at !== null && (
              <>
                , expires <Ago time={overlap_ends_at} />
              </>
            )}
          </span>
        </dd>
      </dl>
      <p className="mt-2">
        {isQuiet
          ? 'The old secret has not been used since the rotation.'
          : 'The old secret is still in use. Update its clients before it expires.'}
      </p>
    </section>
  );
}
