import { Button } from '../../ui/button.tsx';
import { CommandLine } from '../../ui/command-line.tsx';
import { Empty } from '../../ui/parts.tsx';

/** Where only the demo answers: what to do first. */
export function FirstUpstream({ onAdd }: { /** Null: whoever looks may not. */ onAdd: (() => void) | null }) {
  if (onAdd === null) {
    return (
      <Empty icon="fork" title="Only the built-in demo answers so far">
        An administrator adds a provider here, or a model server of your own.
      </Empty>
    );
  }
  return (
    <Empty icon="fork" title="Only the built-in demo answers so far">
      <p>
        Add a provider or a model server of your own, give it the credential that it asks for, and test it. No
        restart is needed, and every change is in the log.
      </p>
      <p className="my-3">
        <Button look="primary" icon="plus" onClick={onAdd}>
          Add the first upstream
        </Button>
      </p>
      <p className="mb-1.5">Or declare all of it in a file. What would change is shown first:</p>
      <CommandLine command="npm run -s daybook -- apply relay.yaml" />
    </Empty>
  );
}
