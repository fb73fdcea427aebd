import { useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { SinkRow } from '#server/contract/sinks.ts';
import { api } from '../../lib/api/api.ts';
import { showCount } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { TextField } from '../../ui/form/field.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { sinksQuery } from './sink-queries.ts';

/** Continues deliveries behind another position of the log. */
export function MoveSink({
  sink: { name, position, behind },
  onClose,
}: {
  sink: SinkRow;
  onClose: () => void;
}) {
  const [text, setText] = useState(String(position));
  const head = position + behind;
  const move = useChange(() => api<Change>('PATCH', `/api/v1/sinks/${name}`, { position: Number(text) }), {
    done: `Sink ${name} moved to position ${showCount(Number(text))}.`,
    invalidates: [sinksQuery.queryKey],
    onDone: onClose,
  });
  return (
    <Dialog onClose={onClose} title={`Move position of sink ${name}`}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          move.mutate();
        }}
      >
        <TextField
          label="Position"
          required
          inputMode="numeric"
          pattern="[0-9]{1,15}"
          autoComplete="off"
          value={text}
          onChange={({ target }) => setText(target.value.trim())}
          hint={`From 0, the beginning, to ${showCount(head)}, the newest event.`}
        />
        <p>
          An earlier position repeats events, which receivers ignore by their{' '}
          <code className="font-mono text-xs">id</code>. A later one omits events.
        </p>
        <FormProblem error={move.error} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={text === String(position)} busy={move.isPending}>
            Move position
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
