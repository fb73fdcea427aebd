import type { ClientBase } from 'pg';
import type { z } from 'zod';
import type { Named } from '#db/attribution/keys.ts';
import { findPseudonym, nameKey, readAccountKey, readNames } from '#db/attribution/names.ts';
import { type MasterKeys, UnknownMasterKeyError } from '#db/secrets/envelope.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import {
  type AttributionName,
  type AttributionNames,
  LookUpAttribution,
} from '#server/contract/attribution.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { type ApiRoute, CALLERS, route, scopeOfMember } from '#server/dashboard/gate.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import type { Source } from '#server/read/store.ts';
import { readKeys } from '#server/secrets/master-key.ts';

type Wanted = z.infer<typeof LookUpAttribution>['wanted'];

/** The values are in tables of their own, which no projection writes. */
const VALUES: Source = { projection: 'requests', tables: [] };

/** The route to readable values, for those who may see them. */
export function attributionRoutes({ relay, reads, config }: Dashboard): ApiRoute[] {
  return [
    route(
      'post',
      '/api/accounts/:account/attribution',
      CALLERS,
      LookUpAttribution,
      async ({ body: { wanted }, params }, who) => {
        const account = relay.readModel.account(params['account'] ?? '');
        const { account: own } = scopeOfMember(who);
        if (!account || (own !== null && own !== account.id)) return new ApiError('not_found');
        const keys = readKeys(masterKeyFile(config)) ?? { current: '', all: new Map() };
        const read = await withReadSlot(reads, holderOf(who), () =>
          reads.read(VALUES, (client) => lookUp(client, keys, account.id, wanted).catch(unavailable)),
        );
        if (read instanceof ApiError) return read;
        if (read.found instanceof ApiError) return read.found;
        return { object: 'list', data: read.found } satisfies AttributionNames;
      },
    ),
  ];
}

async function lookUp(
  client: ClientBase,
  keys: MasterKeys,
  account: string,
  wanted: Wanted,
): Promise<AttributionName[]> {
  const key = await readAccountKey(client, keys, account);
  const named = wanted.flatMap((each): Named[] => {
    const { kind } = each;
    if ('pseudonym' in each) return [each];
    const pseudonym = key && findPseudonym(key, kind, each.value);
    return pseudonym === null ? [] : [{ kind, pseudonym }];
  });
  const names = key === null ? new Map<string, string>() : await readNames(client, key, named);
  return named.map((each) => ({ ...each, value: names.get(nameKey(each)) ?? null }));
}

function unavailable(error: unknown): ApiError {
  if (!(error instanceof UnknownMasterKeyError)) throw error;
  const message =
    `The values are encrypted with the master key ${error.masterKey}, which this server lacks. ` +
    'Copy it from the host where it was made.';
  return new ApiError('attribution_unavailable', { message });
}
