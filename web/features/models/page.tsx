import { useQuery } from '@tanstack/react-query';
import { Suspense, useState } from 'react';
import { modelsQuery, pricesQuery } from '../../lib/api/queries.ts';
import { useNotices } from '../../lib/feed/use-notices.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { Button } from '../../ui/button.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Models } from './models.tsx';
import { Prices } from './prices.tsx';
import type { PriceWanted } from './set-price.tsx';
import { lazyPart } from '../../lib/lazy-part.ts';

const SetPrice = lazyPart(() => import('./set-price.tsx'), 'SetPrice');
const ImportPrices = lazyPart(() => import('./import-prices.tsx'), 'ImportPrices');

export function ModelsPage() {
  const models = useQuery(modelsQuery);
  const prices = useQuery(pricesQuery);
  const isAdministrator = useIsAdministrator();
  const [wanted, setWanted] = useState<PriceWanted | null>(null);
  const [imports, setImports] = useState(false);
  useNotices(['model.', 'upstream.'], [modelsQuery.queryKey, pricesQuery.queryKey]);
  const set = isAdministrator ? setWanted : null;
  return (
    <>
      <PageHead
        title="Models and prices"
        about="Available models and their prices in US dollars: of tokens per million, of other units each."
      >
        {isAdministrator && (
          <>
            <Button icon="download" onClick={() => setImports(true)}>
              Import prices
            </Button>
            <Button
              look="primary"
              icon="plus"
              onClick={() => setWanted({ model: '', plan: null, now: null })}
            >
              Set price
            </Button>
          </>
        )}
      </PageHead>
      <div className="flex flex-col gap-5">
        <Models models={models} prices={prices.data ?? []} onSet={set} />
        <Prices prices={prices} onSet={set} />
      </div>
      <Suspense>
        {wanted && <SetPrice wanted={wanted} onClose={() => setWanted(null)} />}
        {imports && <ImportPrices onClose={() => setImports(false)} />}
      </Suspense>
    </>
  );
}
