import { useMutation } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useState } from 'react';
import type { PriceTerms } from '#db/pricing/parts.ts';
import type { PriceImportResult } from '#server/contract/models.ts';
import { api, ApiError } from '../../lib/api/api.ts';
import { modelsQuery, pricesQuery } from '../../lib/api/queries.ts';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { Checkbox, TextField } from '../../ui/form/field.tsx';
import { Badge, Waiting } from '../../ui/layout/parts.tsx';
import { Problem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { showTerms } from './price-match.ts';

type Wanted = { providers: string[]; replace_manual: boolean };

const SHOWN_MAX = 200;
const inShort = (terms: PriceTerms): string => showTerms(terms, showCount);
const providersOf = (text: string): string[] => text.split(/[,\s]+/).filter((each) => each !== '');

const importPrices = (wanted: Wanted, dryRun: boolean): Promise<PriceImportResult> =>
  api<PriceImportResult>('POST', '/api/v1/prices/import', { ...wanted, dry_run: dryRun });

/** Imports prices from the bundled list, after a preview of the changes. */
export function ImportPrices({ onClose }: { onClose: () => void }) {
  const [providers, setProviders] = useState('');
  const [replacesManual, setReplacesManual] = useState(false);
  const preview = useMutation({ mutationFn: (wanted: Wanted) => importPrices(wanted, true) });
  const apply = useChange((wanted: Wanted) => importPrices(wanted, false), {
    done: ({ changed }) => `${showCounted(changed.length, 'price')} imported.`,
    invalidates: [pricesQuery.queryKey, modelsQuery.queryKey],
    onDone: onClose,
  });
  const previewNow = useEffectEvent(() => preview.mutate({ providers: [], replace_manual: false }));
  useEffect(() => previewNow(), []);
  const { data: found, variables: shownFor } = preview;
  /** The list has no entry for these providers or the upstreams' addresses. */
  const isUnknown = preview.error instanceof ApiError && preview.error.code === 'not_found';
  const unknown =
    shownFor?.providers.length === 0
      ? 'The price list has no entry for your upstreams. Enter a provider, such as openai.'
      : (preview.error?.message ?? null);
  const again = (): void =>
    preview.mutate({ providers: providersOf(providers), replace_manual: replacesManual });

  return (
    <Dialog onClose={onClose} title="Import prices" shape="side">
      <div className="flex flex-col gap-4">
        <p className="text-muted">
          Imports from the price list bundled with Daybook. Review the changes before you apply them.
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
            placeholder="Providers of your upstreams"
            hint="For example: openai, anthropic"
            value={providers}
            onChange={({ target }) => setProviders(target.value)}
            error={isUnknown && !preview.isPending ? unknown : null}
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
          />
          <Checkbox
            label="Replace manual prices"
            hint="By default, prices set manually are kept."
            checked={replacesManual}
            onChange={({ target }) => setReplacesManual(target.checked)}
          />
          <div>
            <Button type="submit" busy={preview.isPending}>
              Preview changes
            </Button>
          </div>
        </form>
        {preview.isPending && <Waiting height="h-48" label="Loading price list" />}
        {preview.error && !isUnknown && !preview.isPending && (
          <Problem error={preview.error} title="Couldn’t load the price list" />
        )}
        {apply.error && <Problem error={apply.error} title="Couldn’t import prices" />}
        {found && !preview.isPending && <Found found={found} />}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            look="primary"
            disabled={!found || !shownFor || preview.isPending || found.changed.length === 0}
            busy={apply.isPending}
            onClick={() => shownFor && apply.mutate(shownFor)}
          >
            {found && found.changed.length > 0
              ? `Import ${showCounted(found.changed.length, 'price')}`
              : 'Import prices'}
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}

/** The preview: added, changed, kept and skipped prices. */
function Found({
  found: { source, providers, changed, kept_manual: kept, unchanged, skipped },
}: {
  found: PriceImportResult;
}) {
  const added = changed.filter(({ before }) => before === null);
  const others = changed.filter(({ before }) => before !== null);
  const counts = [
    `${showCount(added.length)} new`,
    `${showCount(others.length)} changed`,
    `${showCount(unchanged)} unchanged`,
    `${showCount(kept.length)} manual kept`,
    `${showCount(skipped.length)} skipped`,
  ];
  return (
    <div className="flex flex-col gap-4">
      <p role="status">
        {`${source} (${providers.join(', ') || 'no provider'}): `}
        {counts.join(', ')}.
      </p>
      <p className="text-xs text-muted">US dollars: of tokens and characters per million, of others each</p>
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
        title="Manual prices kept"
        lines={kept.map(({ model, set, offered }) => ({
          model,
          text: `${inShort(set)} (list: ${inShort(offered)})`,
          notes: [],
        }))}
      />
      <Lines
        title="Skipped"
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
          <li className="px-3 py-1.5 text-xs text-muted">{showCount(lines.length - SHOWN_MAX)} more</li>
        )}
      </ul>
    </details>
  );
}
