import type { UseQueryResult } from '@tanstack/react-query';
import type { Target } from '#db/events/upstream-events.ts';
import type { ModelRoute } from '#server/contract/models.ts';
import type { UpstreamRow } from '#server/contract/upstreams.ts';
import { Button } from '../../ui/button.tsx';
import { Icon } from '../../ui/icon.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Card, Empty } from '../../ui/layout/parts.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { upstreamStatus } from './health-status.ts';
import { shareOf, prioritiesOf } from './routing-words.ts';

type CustomModelsProps = {
  models: UseQueryResult<ModelRoute[]>;
  upstreams: readonly UpstreamRow[];
  /** Null without permission. */
  onDefine: ((model: ModelRoute | null) => void) | null;
  onRetire: ((model: ModelRoute) => void) | null;
};

/** Custom models with their routing. */
export function CustomModels({ models, upstreams, onDefine, onRetire }: CustomModelsProps) {
  return (
    <Card
      title="Custom models"
      flush
      actions={
        onDefine && (
          <Button icon="plus" onClick={() => onDefine(null)}>
            Add model
          </Button>
        )
      }
    >
      <Loaded query={models} title="Couldn’t load models" height="h-32">
        {(rows) => (
          <Table
            label="Custom models"
            rows={rows}
            keyOf={({ model }) => model}
            columns={columns(upstreams, onDefine, onRetire)}
            empty={<NoModels mayDefine={onDefine !== null} />}
          />
        )}
      </Loaded>
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        Other models go to the upstream that lists them: exact names first, then patterns in list order. An
        alias counts as its model in prices, permissions and logs.
      </p>
    </Card>
  );
}

function NoModels({ mayDefine }: { mayDefine: boolean }) {
  return (
    <Empty icon="tag" title="No custom models">
      {mayDefine
        ? 'Add a model to balance requests across upstreams, set up fallbacks or create an alias.'
        : 'An administrator can add models to balance requests or set up fallbacks.'}
    </Empty>
  );
}

function columns(
  upstreams: readonly UpstreamRow[],
  onDefine: CustomModelsProps['onDefine'],
  onRetire: CustomModelsProps['onRetire'],
): Column<ModelRoute>[] {
  return [
    { head: 'Model', cell: ({ model }) => <code className="font-mono text-xs wrap-anywhere">{model}</code> },
    {
      head: 'Routing',
      cell: ({ model, terms }) =>
        'alias_of' in terms ? (
          <span>
            Alias of <code className="font-mono text-xs">{terms.alias_of}</code>
          </span>
        ) : (
          <Priorities model={model} targets={terms.targets} upstreams={upstreams} />
        ),
    },
    ...(onDefine && onRetire
      ? [
          actionsColumn<ModelRoute>((row) => (
            <span className="-my-1.5 inline-flex flex-wrap justify-end gap-1">
              <Button
                look="quiet"
                className="max-md:px-1"
                onClick={() => onDefine(row)}
                aria-label={`Edit model ${row.model}`}
              >
                Edit
              </Button>
              <Button
                look="quiet"
                className="max-md:px-1"
                onClick={() => onRetire(row)}
                aria-label={`Retire model ${row.model}`}
              >
                Retire
              </Button>
            </span>
          )),
        ]
      : []),
  ];
}

/** One line per priority. */
function Priorities({
  model,
  targets,
  upstreams,
}: {
  model: string;
  targets: readonly Target[];
  upstreams: readonly UpstreamRow[];
}) {
  const priorities = prioritiesOf(targets);
  return (
    <ol className="flex flex-col gap-1">
      {priorities.map((group, index) => (
        <li key={index} className="flex flex-wrap items-baseline gap-x-3">
          {index > 0 && <span className="text-xs text-muted">Fallback</span>}
          {group.map((target) => (
            <span
              key={`${target.upstream} ${target.model ?? ''}`}
              className="inline-flex flex-wrap items-baseline gap-x-1.5"
            >
              <TargetState upstream={upstreams.find(({ name }) => name === target.upstream)} />
              <span className="wrap-anywhere">{target.upstream}</span>
              {target.model !== undefined && target.model !== model && (
                <code className="font-mono text-xs wrap-anywhere text-muted">{target.model}</code>
              )}
              {group.length > 1 && (
                <span className="text-xs text-muted">{shareOf(target, group) ?? 'Standby'}</span>
              )}
            </span>
          ))}
        </li>
      ))}
    </ol>
  );
}

/** Shown only for unhealthy upstreams. */
function TargetState({ upstream }: { upstream: UpstreamRow | undefined }) {
  const status = upstream
    ? upstreamStatus(upstream)
    : { tone: 'danger' as const, icon: 'warning' as const, word: 'Not found' };
  if (status.tone === 'success') return null;
  return (
    <span
      title={status.word}
      className={[
        'self-center',
        status.tone === 'danger' ? 'text-danger' : status.tone === 'warn' ? 'text-warn' : 'text-muted',
      ].join(' ')}
    >
      <Icon name={status.icon} size={14} />
      <span className="sr-only">{status.word}:</span>
    </span>
  );
}
