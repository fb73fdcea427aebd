import { queryOptions, useQueries, useQuery } from '@tanstack/react-query';
import type { AttributionKind, AttributionName, AttributionNames } from '#server/contract/attribution.ts';
import { api } from './api.ts';
import { useMe } from './session.ts';

/**
 * Readable values of end users, sessions and tags. Lists, events and addresses contain pseudonyms; the values
 * of those on the screen are looked up together. No page loads more.
 */

/** An end user, a session or a tag of an account. */
export type Attributed = { account: string; kind: AttributionKind; pseudonym: string };

/** The names of kinds in sentences. */
export const KIND_NAMES: Record<AttributionKind, string> = {
  end_user: 'end user',
  session: 'session',
  tag: 'tag',
};

/** Below the bound of the server. */
const BATCH_MAX = 200;
/** Rows that appear at the same time are looked up together. */
const COLLECT_MS = 20;
const FRESH_MS = 60_000;
/** A server stores a new value within a second of its first call. */
const NEW_VALUE_LOOK_MS = 2_000;
const NEW_VALUE_LOOKS_MAX = 2;

type Waiting = Attributed & { settle: PromiseWithResolvers<AttributionName | null> };
let waiting: Waiting[] = [];

const nameOf = ({ kind, pseudonym }: Pick<Attributed, 'kind' | 'pseudonym'>): string =>
  `${kind}/${pseudonym}`;

async function lookUp(account: string, batch: readonly Waiting[]): Promise<void> {
  try {
    const wanted = batch.map(({ kind, pseudonym }) => ({ kind, pseudonym }));
    const { data } = await api<AttributionNames>('POST', `/api/v1/accounts/${account}/attribution`, {
      wanted,
    });
    const found = new Map(data.map((each) => [nameOf(each), each]));
    for (const each of batch) each.settle.resolve(found.get(nameOf(each)) ?? null);
  } catch (error) {
    for (const { settle } of batch) settle.reject(error);
  }
}

function sendAll(): void {
  const all = Map.groupBy(waiting, ({ account }) => account);
  waiting = [];
  for (const [account, ofAccount] of all)
    for (let from = 0; from < ofAccount.length; from += BATCH_MAX)
      void lookUp(account, ofAccount.slice(from, from + BATCH_MAX));
}

function lookUpTogether(attributed: Attributed): Promise<AttributionName | null> {
  const settle = Promise.withResolvers<AttributionName | null>();
  if (waiting.length === 0) setTimeout(sendAll, COLLECT_MS);
  waiting.push({ ...attributed, settle });
  return settle.promise;
}

export const ATTRIBUTION_KEY = ['attribution'] as const;

const attributedQuery = (attributed: Attributed) =>
  queryOptions({
    queryKey: [...ATTRIBUTION_KEY, attributed.account, attributed.kind, attributed.pseudonym],
    queryFn: () => lookUpTogether(attributed),
    staleTime: FRESH_MS,
    retry: false,
    refetchInterval: ({ state: { data, dataUpdateCount } }) =>
      data != null && data.value === null && !data.erased && dataUpdateCount <= NEW_VALUE_LOOKS_MAX
        ? NEW_VALUE_LOOK_MS
        : false,
  });

/** Auditors see pseudonyms only. */
export const useMayReadAttribution = (): boolean => useMe().member.role !== 'auditor';

/** The value of one, or undefined until it is known, and for those who may not see it. */
export function useAttributed(attributed: Attributed): AttributionName | undefined {
  const enabled = useMayReadAttribution();
  return useQuery({ ...attributedQuery(attributed), enabled }).data ?? undefined;
}

/** The values of several, by their pseudonyms; of as many as a page shows. */
export function useAttributedNames(all: readonly Attributed[]): ReadonlyMap<string, AttributionName> {
  const enabled = useMayReadAttribution();
  return useQueries({
    queries: all.map((attributed) => ({ ...attributedQuery(attributed), enabled })),
    combine: (results) =>
      new Map(results.flatMap(({ data }) => (data == null ? [] : [[data.pseudonym, data] as const]))),
  });
}

const PSEUDONYM = /^[0-9A-Za-z]{16}$/;
export const isPseudonym = (text: string): boolean => PSEUDONYM.test(text);

export const shortenPseudonym = (pseudonym: string): string => `${pseudonym.slice(0, 6)}…`;

/**
 * The pseudonym of a typed text, which is a readable value or a pseudonym. The value is in the body of the
 * request, so that no address and no history has it.
 * @param account null: not known, then only pseudonyms are.
 * @returns a problem where it can't be looked up.
 */
export async function findPseudonym(
  account: string | null,
  kind: AttributionKind,
  text: string,
): Promise<{ pseudonym: string } | { problem: string }> {
  if (account === null)
    return isPseudonym(text)
      ? { pseudonym: text }
      : { problem: `To filter by ${KIND_NAMES[kind]}, choose an account first, or enter the pseudonym.` };
  const wanted = [{ kind, value: text }, ...(isPseudonym(text) ? [{ kind, pseudonym: text }] : [])];
  const { data } = await api<AttributionNames>('POST', `/api/v1/accounts/${account}/attribution`, { wanted });
  const known = data.toReversed().find(({ value, erased }) => value !== null || erased);
  if (known) return { pseudonym: known.pseudonym };
  if (isPseudonym(text)) return { pseudonym: text };
  // Not stored: it may have been erased or expired, and requests still have its pseudonym.
  const [byValue] = data;
  return byValue === undefined
    ? { problem: `No request of this account has such ${article(kind)}.` }
    : { pseudonym: byValue.pseudonym };
}

const article = (kind: AttributionKind): string => `${kind === 'end_user' ? 'an' : 'a'} ${KIND_NAMES[kind]}`;
