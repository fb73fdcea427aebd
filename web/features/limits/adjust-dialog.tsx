import type { LimitRow } from '#server/contract/limits.ts';
import { AdjustUsage } from '../../ui/adjust/adjust-usage.tsx';
import { quotasOfLimits } from '../../ui/adjust/quotas.ts';
import { announceChange } from '../../ui/change.tsx';
import { Dialog } from '../../ui/dialog/dialog.tsx';

type AdjustDialogProps = {
  account: string;
  name: string;
  rows: readonly LimitRow[];
  /** The key that is chosen at first; empty: none. */ ofKey: string;
  onClose: () => void;
};

/** Adjusts the usage that the shown quotas count. */
export function AdjustDialog({ account, name, rows, ofKey, onClose }: AdjustDialogProps) {
  return (
    <Dialog onClose={onClose} title={`Adjust usage of ${name}`}>
      <AdjustUsage
        account={account}
        quotas={quotasOfLimits(rows)}
        ofKey={ofKey}
        back={{ label: 'Cancel', go: onClose }}
        onDone={(change) => {
          announceChange('Usage adjusted.', change);
          onClose();
        }}
      />
    </Dialog>
  );
}
