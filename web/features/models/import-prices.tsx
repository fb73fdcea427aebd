import { useMutation } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useState } from 'react';
import { formatDollars } from '#db/money.ts';
import type { PriceImportResult } from '#server/contract/models.ts';
import { api, ApiError } from '../../lib/api.ts';
import { modelsQuery } from '../../lib/models-query.ts';
import { showCount, showCounted } from '../../lib/show.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { Checkbox, TextField } from '../../ui/field.tsx';
import { Badge, Waiting } from '../../ui/parts.tsx';
import { Problem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { pricesQuery } from './prices-query.ts';

type Prices = PriceImportResult['changed'][number]['after'];
type Wanted = { providers: string[]; replace_manual: boolean };

const SHOWN_MAX = 200;
const inShort = ({ input, cached_input, output, reasoning }: Prices): string =>
  [input, cached_input, output, reasoning].map(formatDollars).join(' / ');
const providersOf = (text: string): string[] => text.split(/[,\s]+/).filter((each) => each !== '');

const importPrices = (wanted: Wanted, dryRun: boolean): Promise<PriceImportResult> =>
  api<PriceImportResult>('POST', '/api/prices/import', { ...wanted, dry_run: dryRun });

/** Takes prices from the list that is installed. What would change is shown first; only then it is done. */
export function ImportPrices({ onClose }: { onClose: () => void }) {
  const [providers, setProviders] = useState('');
  const [replacesManual, setReplacesManual] = useState(false);
  const look = useMutation({ mutationFn: (wanted: Wanted) => importPrices(wanted, true) });
  const take = useChange((wanted: Wanted) => importPrices(wanted, false), {
    done: ({ changed }) => `${showCounted(changed.length, 'price')} taken.`,
    altered: [pricesQuery.queryKey, modelsQuery.queryKey],
    onDone: onClose,
  });
  const lookNow = useEffectEvent(() => look.mutate({ providers: [], replace_manual: false }));
  useEffect(() => lookNow(), []);
  const { data: found, variables: shownFor } = look;
  /** The list has nothing under these names, or under the upstreams' addresses. */
  const isUnknown = look.error instanceof ApiError && look.error.code === 'not_found';
  const unknown =
    shownFor?.providers.length === 0
      ? 'None of your upstreams has an address that the price list knows. Name a provider, such as openai.'
      : (look.error?.message ?? null);
  const again = (): void =>
    look.mutate({ providers: providersOf(providers), replace_manual: replacesManual });

  return (
    <Dialog onClose={onClose} title="Import prices" shape="side">
      <div className="flex flex-col gap-4">
        <p className="text-muted">
          From the price list that is installed with Daybook. Nothing is fetched, and nothing changes before
          you have seen what would.
        </p>
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            again();
          }}
        >
          <TextField
            label="Providers"
            placeholder="Those that your upstreams’ addresses belong to"
            hint="Such as openai, anthropic. Separate several by a comma."
            value={providers}
            onChange={({ target }) => setProviders(target.value)}
            error={isUnknown && !look.isPending ? unknown : null}
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
          />
          <Checkbox
            label="Replace prices that were set by hand"
            hint="Else they stay as they are."
            checked={replacesManual}
            onChange={({ target }) => setReplacesManual(target.checked)}
          />
          <div>
            <Button type="submit" busy={look.isPending}>
              Show what would change
            </Button>
          </div>
        </form>
        {look.isPending && <Waiting height="h-48" label="Reading the list" />}
        {look.error && !isUnknown && !look.isPending && (
          <Problem error={look.error} title="The list could not be read" />
        )}
        {take.error && <Problem error={take.error} title="The prices could not be taken" />}
        {found && !look.isPending && <Found found={found} />}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            look="primary"
            disabled={!found || !shownFor || look.isPending || found.changed.length === 0}
            busy={take.isPending}
            onClick={() => shownFor && take.mutate(shownFor)}
          >
            {found && found.changed.length > 0
              ? `Take ${showCounted(found.changed.length, 'price')}`
              : 'Take prices'}
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}

/** What an import would do: added, changed, and left as it is. */
function Found({
  found: { source, providers, changed, kept_manual: kept, unchanged, skipped },
}: {
  found: PriceImportResult;
}) {
  const added = changed.filter(({ before }) => before === null);
  const others = changed.filter(({ before }) => before !== null);
  return (
    <div className="flex flex-col gap-4">
      <p role="status">
        {source}, {providers.length === 0 ? 'no provider' : providers.join(', ')}: {showCount(added.length)}{' '}
        would be added, {showCount(others.length)} changed; {showCount(unchanged)} are the same,{' '}
        {showCount(kept.length)} set by hand are kept, {showCount(skipped.length)} left out.
      </p>
      <p className="text-xs text-muted">
        Dollars for a million tokens: input / cached input / output / reasoning.
      </p>
      <Lines
        title="Added"
        lines={added.map(({ model, after, notes }) => ({ model, text: inShort(after), notes }))}
      />
      <Lines
        title="Changed"
        lines={others.map(({ model, before, after, notes }) => ({
          model,
          text: `${before === null ? '' : `${inShort(before)} → `}${inShort(after)}`,
          notes,
        }))}
      />
      <Lines
        title="Kept, since set by hand"
        lines={kept.map(({ model, set, offered }) => ({
          model,
          text: `${inShort(set)}; the list has ${inShort(offered)}`,
          notes: [],
        }))}
      />
      <Lines
        title="Left out"
        lines={skipped.map(({ provider, model, reason: why }) => ({
          model,
          text: `${provider}: ${why}`,
          notes: [],
        }))}
        isFolded
      />
    </div>
  );
}

function Lines({
  title,
  lines,
  isFolded = false,
}: {
  title: string;
  lines: readonly { model: string; text: string; notes: readonly string[] }[];
  isFolded?: boolean;
}) {
  if (lines.length === 0) return null;
  return (
    <details open={!isFolded} className="rounded-lg border border-line">
      <summary className="px-3 py-2 font-medium">
        {title} <Badge>{showCount(lines.length)}</Badge>
      </summary>
      <ul
        className="max-h-72 divide-y divide-line overflow-y-auto border-t border-line"
        tabIndex={0}
        aria-label={title}
      >
        {lines.slice(0, SHOWN_MAX).map(({ model, text, notes }, index) => (
          <li key={`${model} ${index}`} className="px-3 py-1.5">
            <p className="font-mono text-xs break-all">{model}</p>
            <p className="text-xs text-muted">
              {text}
              {notes.map((note) => ` (${note})`).join('')}
            </p>
          </li>
        ))}
        {lines.length > SHOWN_MAX && (
          <li className="px-3 py-1.5 text-xs text-muted">and {showCount(lines.length - SHOWN_MAX)} more</li>
        )}
      </ul>
    </details>
  );
}
