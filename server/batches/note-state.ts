import { contentOf } from '#server/batches/description.ts';
import type { BatchState } from '#server/batches/judge-batch.ts';
import type { StoredName, StoredPlace } from '#db/stored/places.ts';
import type { Relay } from '#server/relay/relay.ts';

/**
 * Notes how a batch stands: its account finds it and the files with its output, which can't be deleted before
 * its lines are settled, and lists show its state.
 */
export async function noteState(
  { routeBack, batchStore }: Pick<Relay, 'routeBack' | 'batchStore'>,
  { account, id, kind, upstream, credential }: StoredName & StoredPlace,
  { output, error, ended, object }: BatchState,
): Promise<void> {
  const held = { account, upstream, credential };
  const content = contentOf(object);
  const files = [output, error].flatMap((file) => (file === null ? [] : [file]));
  await routeBack.add([
    { ...held, id, kind, content },
    ...files.map((file) => ({ ...held, id: file, kind: 'file' as const })),
  ]);
  await routeBack.describe({ account, id }, content);
  await batchStore.noteOutput({ account, id }, { output, error, hasEnded: ended !== null });
}
