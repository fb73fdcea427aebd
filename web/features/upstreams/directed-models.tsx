import type { UseQueryResult } from '@tanstack/react-query';
import type { Target } from '#db/events/upstream-events.ts';
import type { ModelRoute } from '#server/contract/models.ts';
import type { UpstreamRow } from '#server/contract/upstreams.ts';
import { Button } from '../../ui/button.tsx';
import { Icon } from '../../ui/icon.tsx';
import { Loaded } from '../../ui/loaded.tsx';
import { Card, Empty } from '../../ui/parts.tsx';
import { actionsColumn, type Column, Table } from '../../ui/table.tsx';
import { upstreamStanding } from './health-words.ts';
import { shareOf, turnsOf } from './target-words.ts';

type DirectedModelsProps = {
  models: UseQueryResult<ModelRoute[]>;
  upstreams: readonly UpstreamRow[];
  /** Null: whoever looks may not. */
  onDefine: ((model: ModelRoute | null) => void) | null;
  onRetire: ((model: ModelRoute) => void) | null;
};

/** The models that were defined, each with where its calls go. */
export function DirectedModels({ models, upstreams, onDefine, onRetire }: DirectedModelsProps) {
  return (
    <Card
      title="Defined models"
      flush
      actions={
        onDefine && (
          <Button icon="plus" onClick={() => onDefine(null)}>
            Define a model
          </Button>
        )
      }
    >
      <Loaded query={models} title="The models could not be loaded" height="h-32">
        {(rows) => (
          <Table
            label="Defined models"
            rows={rows}
            keyOf={({ model }) => model}
            columns={columns(upstreams, onDefine, onRetire)}
            empty={<NoModels mayDefine={onDefine !== null} />}
          />
        )}
      </Loaded>
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        Any other name goes to the upstream that serves it by name: an exact one before any pattern, then the
        first of them in the list. Another name of a model is that model in prices, permissions and the log,
        too.
      </p>
    </Card>
  );
}

function NoModels({ mayDefine }: { mayDefine: boolean }) {
  return (
    <Empty icon="tag" title="No model is defined: each goes to the upstream that serves it by name">
      {mayDefine
        ? 'Define one to spread its calls over several upstreams, to have another take over when one fails, or to give it a name of your own.'
        : 'An administrator can spread the calls of one over several upstreams, or have another take over when one fails.'}
    </Empty>
  );
}

function columns(
  upstreams: readonly UpstreamRow[],
  onDefine: DirectedModelsProps['onDefine'],
  onRetire: DirectedModelsProps['onRetire'],
): Column<ModelRoute>[] {
  return [
    { head: 'Model', cell: ({ model }) => <code className="font-mono text-xs wrap-anywhere">{model}</code> },
    {
      head: 'Goes to',
      cell: ({ model, terms }) =>
        'alias_of' in terms ? (
          <span>
            wherever <code className="font-mono text-xs wrap-anywhere">{terms.alias_of}</code> goes
          </span>
        ) : (
          <Turns model={model} targets={terms.targets} upstreams={upstreams} />
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
                aria-label={`Change model ${row.model}`}
              >
                Change
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

/** One line for each turn, in their order. */
function Turns({
  model,
  targets,
  upstreams,
}: {
  model: string;
  targets: readonly Target[];
  upstreams: readonly UpstreamRow[];
}) {
  const turns = turnsOf(targets);
  return (
    <ol className="flex flex-col gap-1">
      {turns.map((turn, index) => (
        <li key={index} className="flex flex-wrap items-baseline gap-x-3">
          {index > 0 && <span className="text-xs text-muted">then</span>}
          {turn.map((target) => (
            <span
              key={`${target.upstream} ${target.model ?? ''}`}
              className="inline-flex flex-wrap items-baseline gap-x-1.5"
            >
              <TargetState upstream={upstreams.find(({ name }) => name === target.upstream)} />
              <span className="wrap-anywhere">{target.upstream}</span>
              {target.model !== undefined && target.model !== model && (
                <code className="font-mono text-xs wrap-anywhere text-muted">{target.model}</code>
              )}
              {turn.length > 1 && (
                <span className="text-xs text-muted">{shareOf(target, turn) ?? 'stands in'}</span>
              )}
            </span>
          ))}
        </li>
      ))}
    </ol>
  );
}

/** Only where something is amiss: what is well needs no mark. */
function TargetState({ upstream }: { upstream: UpstreamRow | undefined }) {
  const standing = upstream
    ? upstreamStanding(upstream)
    : { tone: 'bad' as const, icon: 'warning' as const, word: 'It is not there' };
  if (standing.tone === 'good') return null;
  return (
    <span
      title={standing.word}
      className={`self-center ${standing.tone === 'bad' ? 'text-bad' : standing.tone === 'warn' ? 'text-warn' : 'text-muted'}`}
    >
      <Icon name={standing.icon} size={14} />
      <span className="sr-only">{standing.word}:</span>
    </span>
  );
}
