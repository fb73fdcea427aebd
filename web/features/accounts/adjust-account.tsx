import { useQuery } from '@tanstack/react-query';
import { limitsQuery } from '../../lib/api/limits.ts';
import { AdjustUsage } from '../../ui/adjust/adjust-usage.tsx';
import { quotasOfLimits } from '../../ui/adjust/quotas.ts';
import { Button } from '../../ui/button.tsx';
import { DialogActions } from '../../ui/dialog/dialog.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Empty } from '../../ui/layout/parts.tsx';
import type { StepProps } from './use-account-change.ts';

/** Adjusts the usage that the quotas of an account and its keys count. */
export function AdjustAccount({ account: { id }, onBack, onDone }: StepProps) {
  const query = useQuery(limitsQuery(id));
  return (
    <Loaded query={query} title="Couldn’t load limits" height="h-96">
      {({ data }) => {
        const quotas = quotasOfLimits(data);
        return quotas.length === 0 ? (
          <>
            <Empty icon="gauge" title="No quotas">
              <p>Only the usage of quotas can be adjusted. The account and its keys have none.</p>
            </Empty>
            <DialogActions>
              <Button onClick={onBack}>Back</Button>
            </DialogActions>
          </>
        ) : (
          <AdjustUsage
            account={id}
            quotas={quotas}
            back={{ label: 'Back', go: onBack }}
            onDone={(change) => onDone({ done: 'Usage adjusted.', change })}
          />
        );
      }}
    </Loaded>
  );
}
