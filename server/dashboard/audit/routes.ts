import {
  CheckLine,
  CheckReceipt,
  CheckpointPage,
  CheckpointsQuery,
  Checks,
  PastState,
  Proof,
  ReceiptCheckResult,
  StartCheck,
  StateQuery,
} from '#server/contract/audit.ts';
import type { ClientBase } from 'pg';
import { publishDirectory } from '#db/tlog/publish-directory.ts';
import { listCheckpoints, readProof } from '#server/dashboard/audit/proof.ts';
import { checkReceipt } from '#server/dashboard/audit/receipt.ts';
import { readMoment, readState } from '#server/dashboard/audit/state.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { noteReading } from '#server/dashboard/audit/reader.ts';
import { replyWithLines } from '#server/read/export-reply.ts';
import { type ApiRoute, ANY_ROLE, ADMINISTRATORS_AND_AUDITORS, route } from '#server/dashboard/gate.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import { readQuery } from '#server/read/query.ts';
import type { Source } from '#server/read/store.ts';
import { ApiError } from '#server/errors/api-error.ts';

/** No table of a projection is asked. */
const LOG: Source = { projection: 'directory', tables: [] };
const LINES = ['content-type', 'application/x-ndjson; charset=utf-8'] as const;

/** Routes for proofs of the log, its past states and checks: for administrators and auditors, read-only. */
export function auditRoutes({ reads, audit, checks, config }: Dashboard): ApiRoute[] {
  const readLog = <T>(who: Caller, work: (client: ClientBase) => Promise<T>): Promise<T | ApiError> =>
    withReadSlot(reads, holderOf(who), async () => {
      const read = await reads.read(LOG, work);
      return read instanceof ApiError ? read : read.found;
    });
  return [
    route(
      'get',
      '/api/v1/audit/proof',
      'audit:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: Proof },
      async (_call, who) => {
        // Of a verifier key the name is what stands before its first "+".
        const witnesses = config.WITNESSES.map((line) => line.slice(0, line.indexOf('+')));
        const proof = await readLog(who, (client) => readProof(client, witnesses));
        return proof instanceof ApiError ? proof : ({ object: 'proof', ...proof } satisfies Proof);
      },
    ),

    route(
      'get',
      '/api/v1/audit/checkpoints',
      'audit:read',
      ADMINISTRATORS_AND_AUDITORS,
      { query: CheckpointsQuery, reply: CheckpointPage },
      ({ request }, who) => {
        const query = readQuery(CheckpointsQuery, request.url);
        return query instanceof ApiError
          ? Promise.resolve(query)
          : readLog(who, (client) => listCheckpoints(client, query.limit, query.cursor));
      },
    ),

    // A receipt contains only what its holder has already, so every role may verify one.
    route(
      'post',
      '/api/v1/audit/receipt',
      'audit:read',
      ANY_ROLE,
      { body: CheckReceipt, reply: ReceiptCheckResult },
      ({ body }, who) => readLog(who, (client) => checkReceipt(client, body.receipt)),
    ),

    route(
      'get',
      '/api/v1/audit/state',
      'audit:read',
      ADMINISTRATORS_AND_AUDITORS,
      { query: StateQuery, reply: PastState },
      ({ request }, who) => {
        const query = readQuery(StateQuery, request.url);
        if (query instanceof ApiError) return Promise.resolve(query);
        return withReadSlot(reads, holderOf(who), () =>
          audit.use(async (client) => {
            const moment = await readMoment(client, query);
            await noteReading(client, who, {
              what: 'replay',
              from: Math.min(1, moment.position),
              to: moment.position,
            });
            return readState(client, query, moment);
          }),
        );
      },
    ),

    route('get', '/api/v1/audit/checks', 'audit:read', ADMINISTRATORS_AND_AUDITORS, { reply: Checks }, () =>
      checks.read(),
    ),

    route(
      'post',
      '/api/v1/audit/checks',
      'audit:read',
      ADMINISTRATORS_AND_AUDITORS,
      { body: StartCheck, reply: CheckLine, type: 'application/x-ndjson' },
      async ({ body, response }, who) => {
        const left = new AbortController();
        response.once('close', () => left.abort());
        const lines = await checks.begin(
          body.target,
          who,
          { published: publishDirectory(config) },
          left.signal,
        );
        return lines instanceof ApiError ? lines : replyWithLines(response, LINES, written(lines));
      },
    ),
  ];
}

async function* written(lines: AsyncGenerator<CheckLine>): AsyncGenerator<string> {
  for await (const line of lines) yield `${JSON.stringify(line)}\n`;
}
