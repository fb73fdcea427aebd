import type { RelayedRoute } from '#db/limits/limits.ts';
import type { StoredKind } from '#db/stored/places.ts';
import { type BatchState, readBatchState } from '#server/batches/judge-batch.ts';
import { readMessageBatchState } from '#server/batches/messages/state.ts';
import { readResultLine } from '#server/batches/messages/result-line.ts';
import { type OutputLine, readOutputLine } from '#server/batches/output-line.ts';
import { MESSAGES_PATH, VERSION_HEADER } from '#server/providers/anthropic/request.ts';

/** How a protocol has its batches. Pure. */
export type BatchWire = {
  /** As the route-back table has them. */
  kind: StoredKind;
  path: string;
  headers: readonly string[];
  /** Whether a batch whose creation had no reply is found by its file in the provider's list. */
  canBeFound: boolean;
  /** @returns null: the bytes describe no batch. */
  readState: (bytes: Buffer) => BatchState | null;
  /** The paths of the output of a batch that has ended. */
  outputs: (id: string, state: BatchState) => string[];
  /** @returns null: it is no line of an output. */
  readOutput: (bytes: Buffer) => OutputLine | null;
};

const FILES: BatchWire = {
  kind: 'batch',
  path: '/batches',
  headers: [],
  canBeFound: true,
  readState: readBatchState,
  outputs: (_, { output, error }) =>
    [output, error].flatMap((file) => (file === null ? [] : [`/files/${encodeURIComponent(file)}/content`])),
  readOutput: readOutputLine,
};

const MESSAGES: BatchWire = {
  kind: 'message_batch',
  path: `${MESSAGES_PATH}/batches`,
  headers: VERSION_HEADER,
  canBeFound: false,
  readState: readMessageBatchState,
  outputs: (id) => [`${MESSAGES_PATH}/batches/${encodeURIComponent(id)}/results`],
  readOutput: readResultLine,
};

/** @param route of the lines. */
export const wireOf = (route: RelayedRoute): BatchWire => (route === '/v1/messages' ? MESSAGES : FILES);
