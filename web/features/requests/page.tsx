import { useSearch } from '@tanstack/react-router';
import { useCallback, useRef } from 'react';
import { queryString } from '../../lib/api/api.ts';
import { type FilterSearch, requestFilterOf } from '../../lib/search/filter.ts';
import { useSearchChange } from '../../lib/hooks/use-search-change.ts';
import { useNow } from '../../lib/hooks/use-now.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Download } from '../../ui/download.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { TimeRange } from '../../ui/form/time-range.tsx';
import { FilterBar } from './filter-bar.tsx';
import { FILTER_NAMES } from './filter-text.ts';
import { FALLBACK_RANGE, listQuery } from './queries.ts';
import { RequestsList } from './requests-list.tsx';
import { RequestDialog } from './request-dialog.tsx';

/** The live request list, with details of one request in a side panel. */
export function RequestsPage() {
  const { request, ...search } = useSearch({ from: '/inside/requests' });
  const change = useSearchChange({ replace: false });
  const filterField = useRef<HTMLInputElement>(null);
  useShortcuts({ '/': () => filterField.current?.focus() });
  const open = useCallback((id: string): void => change({ request: id }), [change]);
  const clear = (): void => change(Object.fromEntries(FILTER_NAMES.map((name) => [name, undefined])));

  return (
    <>
      <PageHead title="Requests" about="Every request with its outcome, tokens, cost and duration.">
        <CsvLink search={search} />
      </PageHead>
      <div className="mb-3 flex flex-col gap-2">
        <FilterBar search={search} onChange={change} input={filterField} />
        <TimeRange search={search} fallback={FALLBACK_RANGE} onChange={change} />
      </div>
      <Card flush className="overflow-hidden">
        <RequestsList
          key={JSON.stringify([requestFilterOf(search), search.range, search.from, search.to])}
          search={search}
          open={request}
          onOpen={open}
          onClear={clear}
        />
      </Card>
      {request !== undefined && (
        <RequestDialog
          key={request}
          request={request}
          filter={requestFilterOf(search)}
          onClose={() => change({ request: undefined })}
        />
      )}
    </>
  );
}

const MINUTE_MS = 60_000;

/** Downloads the listed requests. */
function CsvLink({ search }: { search: FilterSearch }) {
  const nowMs = useNow(MINUTE_MS);
  return (
    <Download
      href={`/api/v1/requests${queryString({ ...listQuery(search, nowMs), format: 'csv' })}`}
      name="CSV"
      title="Download matching requests as CSV"
    />
  );
}
