import { ChangeReply } from '#server/contract/parts.ts';
import {
  type AttributionName,
  AttributionNames,
  AttributionSummary,
  COUNTED_VALUES_MAX,
  DestroyedAttribution,
  EraseAttribution,
  LookUpAttribution,
} from '#server/contract/attribution.ts';
import type { ClientBase } from 'pg';
import type { z } from 'zod';
import type { Named } from '#db/attribution/keys.ts';
import { findPseudonym, nameKey, readAccountKey, readNames } from '#db/attribution/names.ts';
import { countValues, readAccountKeys, readErased } from '#db/attribution/store.ts';
import { type MasterKeys, UnknownMasterKeyError } from '#db/secrets/envelope.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { AttributionControl } from '#server/control/attribution-control.ts';
import type { Change } from '#server/control/change.ts';
import { makeChange } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, type ApiRoute, CALLERS, route, scopeOfMember } from '#server/dashboard/gate.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import type { Source } from '#server/read/store.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';

type Wanted = z.infer<typeof LookUpAttribution>['wanted'];

/** The values are in tables of their own, which no projection writes. */
const VALUES: Source = { projection: 'requests', tables: [] };

/** Routes to readable values and their erasure, for those who may see them. */
export function attributionRoutes(dashboard: Dashboard): ApiRoute[] {
  const { relay, reads, config } = dashboard;
  /** A member gets 404 for another account. */
  const accountOf = (params: Readonly<Record<string, string>>, who: Caller): string | ApiError => {
    const account = relay.readModel.account(params['account'] ?? '');
    const { account: own } = scopeOfMember(who);
    return account && (own === null || own === account.id) ? account.id : new ApiError('not_found');
  };
  const read = async <T>(who: Caller, use: (client: ClientBase) => Promise<T>): Promise<T | ApiError> => {
    const found = await withReadSlot(reads, holderOf(who), () => reads.read(VALUES, use));
    return found instanceof ApiError ? found : found.found;
  };
  const change = <T extends Change>(
    who: Caller,
    use: (control: AttributionControl) => Promise<T>,
  ): Promise<T | ApiError> =>
    makeChange(dashboard, who, (control, client) =>
      use(new AttributionControl(control, client, masterKeyFile(config))),
    );

  return [
    route(
      'get',
      '/api/v1/accounts/:account/attribution',
      'accounts:read',
      CALLERS,
      { reply: AttributionSummary },
      async ({ params }, who) => {
        const account = accountOf(params, who);
        if (account instanceof ApiError) return account;
        return read(who, async (client): Promise<AttributionSummary> => {
          const [stored] = await readAccountKeys(client, [account]);
          return {
            object: 'attribution',
            key: stored === undefined ? 'none' : 'sealed' in stored ? 'active' : 'destroyed',
            values: await countValues(client, account, COUNTED_VALUES_MAX),
          };
        });
      },
    ),

    route(
      'post',
      '/api/v1/accounts/:account/attribution',
      'accounts:read',
      CALLERS,
      { body: LookUpAttribution, reply: AttributionNames },
      async ({ body: { wanted }, params }, who) => {
        const account = accountOf(params, who);
        if (account instanceof ApiError) return account;
        const keys = readKeys(masterKeyFile(config)) ?? { current: '', all: new Map() };
        const data = await read(who, (client) => lookUp(client, keys, account, wanted).catch(unavailable));
        return data instanceof ApiError ? data : ({ object: 'list', data } satisfies AttributionNames);
      },
    ),

    route(
      'post',
      '/api/v1/accounts/:account/attribution/erase',
      'accounts:write',
      CALLERS,
      { body: EraseAttribution, reply: ChangeReply },
      async ({ body, params }, who) => {
        const account = accountOf(params, who);
        if (account instanceof ApiError) return account;
        const erased = await change(who, (control) => control.erase({ id: account }, body));
        return erased instanceof ApiError ? erased : ({ event: erased.event } satisfies Change);
      },
    ),

    route(
      'post',
      '/api/v1/accounts/:account/attribution/destroy-key',
      'accounts:write',
      ADMINISTRATORS,
      { reply: DestroyedAttribution },
      async ({ params }, who) => {
        const account = accountOf(params, who);
        return account instanceof ApiError
          ? account
          : change(who, (control): Promise<DestroyedAttribution> => control.destroyKey({ id: account }));
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
  const erased = new Set((await readErased(client, account, named)).map(nameKey));
  return named.map((each) => ({
    ...each,
    value: names.get(nameKey(each)) ?? null,
    erased: key === null || erased.has(nameKey(each)),
  }));
}

function unavailable(error: unknown): ApiError {
  if (!(error instanceof UnknownMasterKeyError)) throw error;
  const message =
    `The values are encrypted with the master key ${error.masterKey}, which this server lacks. ` +
    'Copy it from the host where it was made.';
  return new ApiError('attribution_unavailable', { message });
}
