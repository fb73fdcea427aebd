import { Button } from '../../ui/button.tsx';
import { CommandLine } from '../../ui/command-line.tsx';
import { Empty } from '../../ui/layout/parts.tsx';

/** Shown while the built-in demo is the only upstream. */
export function FirstUpstream({ onAdd }: { /** Null without permission. */ onAdd: (() => void) | null }) {
  if (onAdd === null) {
    return (
      <Empty icon="fork" title="Add your first upstream">
        Only the built-in demo is configured. An administrator can add providers or self-hosted models.
      </Empty>
    );
  }
  return (
    <Empty icon="fork" title="Add your first upstream">
      <p>
        Only the built-in demo is configured. Add a provider or a self-hosted model, set its credential and
        test the connection.
      </p>
      <p className="my-3">
        <Button look="primary" icon="plus" onClick={onAdd}>
          Add upstream
        </Button>
      </p>
      <p className="mb-1.5">Or apply a configuration file:</p>
      <CommandLine command="npm run -s daybook -- apply relay.yaml" />
    </Empty>
  );
}
