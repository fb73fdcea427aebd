import { isActiveKey, type Key } from '#db/fold/key.ts';
import type { Account } from '#db/fold/account.ts';
import type { Member } from '#db/fold/member.ts';
import { findByEmail, readEmails } from '#db/members/members.ts';
import { db, rowOf } from '#db/schema/query.ts';
import {
  SEARCH_KINDS,
  type SearchKind,
  type SearchQuery,
  type SearchResult,
} from '#server/contract/reads/search.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { scopeOfMember } from '#server/dashboard/gate.ts';
import { modelsOf } from '#server/dashboard/models/list.ts';
import { findBest, Matcher } from '#server/dashboard/search/find.ts';
import { UUID } from '#server/read/api.ts';
import { subjectConditions } from '#server/read/request-filter.ts';
import { REQUESTS } from '#server/read/request-list.ts';
import type { SignedIn } from '#server/sign-in/signed-in.ts';
import { ApiError } from '#server/errors/api-error.ts';

type Search = Dashboard & {
  who: SignedIn;
  /** The account whose keys and members are found; null: all accounts. */
  account: string | null;
  /** What the text matches, for keys without the prefix of secrets. */
  matcher: Matcher;
  text: string;
  limit: number;
};
type Find = (wanted: Search) => Promise<SearchResult[]>;

const FINDERS: Record<SearchKind, Find> = {
  request: findRequest,
  key: findKeys,
  account: findAccounts,
  member: findMembers,
  model: findModels,
  upstream: findUpstreams,
};

/** What the member may see of what matches. */
export async function search(
  dashboard: Dashboard,
  who: SignedIn,
  { q, kind, account, limit }: SearchQuery,
): Promise<SearchResult[] | ApiError> {
  const { account: own } = scopeOfMember(who);
  if (own !== null && account !== undefined && account !== own) return new ApiError('not_found');
  const text = q.trim();
  const searched = { ...dashboard, who, account: own ?? account ?? null, matcher: new Matcher(text) };
  const results: SearchResult[] = [];
  for (const each of kind === undefined ? SEARCH_KINDS : [kind])
    results.push(...(await FINDERS[each]({ ...searched, text, limit })));
  return results;
}

/** The request of an id, which must be whole: it is read from an index. */
async function findRequest({ reads, who, text }: Search): Promise<SearchResult[]> {
  if (!UUID.test(text)) return [];
  const read = await reads.read(REQUESTS, async (client) => {
    let query = db.selectFrom('projection.request').select(['model']).where('request', '=', text);
    for (const condition of subjectConditions(scopeOfMember(who), {})) query = query.where(condition);
    return rowOf(client, query);
  });
  if (read instanceof ApiError || read.found === undefined) return [];
  const id = text.toLowerCase();
  return [{ kind: 'request', id, name: read.found.model ?? id, account_name: null, active: true }];
}

/** Also by the public parts of a secret: `dbk_<id>_…`, and its last characters. */
async function findKeys({
  relay: { readModel },
  who,
  account,
  text,
  limit,
}: Search): Promise<SearchResult[]> {
  const now = new Date(readModel.nowMs());
  const typed = /^dbk_([0-9A-Za-z]{0,8})/.exec(text)?.[1] ?? text;
  const keys = account === null ? readModel.keys : readModel.keysOf(account);
  const textsOf = ({ name, id, secret }: Key): string[] => [name, id, secret.last4];
  return (await findBest(keys, new Matcher(typed), limit, textsOf)).map((key) => ({
    kind: 'key',
    id: key.id,
    name: key.name,
    account_name: who.role === 'member' ? null : (readModel.account(key.account)?.name ?? null),
    active: isActiveKey(key, now),
  }));
}

async function findAccounts({ relay: { readModel }, who, matcher, limit }: Search): Promise<SearchResult[]> {
  if (who.role === 'member') return [];
  const textsOf = ({ id, name }: Account): string[] => [name, id];
  return (await findBest(readModel.accounts, matcher, limit, textsOf)).map(({ id, name, state }) => ({
    kind: 'account',
    id,
    name,
    account_name: null,
    active: state === 'active',
  }));
}

/** By their email addresses, which are in the table of members; auditors, who see none, by their ids. */
async function findMembers(wanted: Search): Promise<SearchResult[]> {
  const { relay, signIn, who, account, matcher, text, limit } = wanted;
  const { readModel } = relay;
  const members = [...readModel.members].filter(
    (member) => member.state === 'active' && (account === null || member.account === account),
  );
  const byId = await findBest(members, matcher, limit, ({ id }) => [id]);
  const result = ({ id, account: of }: Member, name: string): SearchResult => ({
    kind: 'member',
    id,
    name,
    account_name: who.role === 'member' ? null : (readModel.account(of)?.name ?? null),
    active: true,
  });
  if (who.role === 'auditor') return byId.map((member) => result(member, member.id));
  const among = account === null ? null : members.map(({ id }) => id);
  const found = text === '' ? [] : await findByEmail(signIn.pool, text.toLowerCase(), limit, among);
  const ids = [...new Set([...found, ...byId.map(({ id }) => id)])].slice(0, limit);
  const emails = await readEmails(signIn.pool, ids);
  return ids.flatMap((id) => {
    const member = readModel.member(id);
    return member?.state === 'active' ? [result(member, emails.get(id) ?? id)] : [];
  });
}

/** Those that the member's account may use; administrators and auditors find all. */
async function findModels({ relay, modelList, who, matcher, limit }: Search): Promise<SearchResult[]> {
  const mayUse = who.role === 'member' ? modelsOf(relay.readModel, who.account) : () => true;
  const models = (await modelList.read()).filter(({ model }) => mayUse(model));
  return (await findBest(models.toReversed(), matcher, limit, ({ model }) => [model])).map(({ model }) => ({
    kind: 'model',
    id: model,
    name: model,
    account_name: null,
    active: true,
  }));
}

async function findUpstreams({ relay, who, matcher, limit }: Search): Promise<SearchResult[]> {
  if (who.role === 'member') return [];
  const { all } = relay.upstreams;
  return (await findBest(all, matcher, limit, ({ name }) => [name])).map(({ name, terms }) => ({
    kind: 'upstream',
    id: name,
    name,
    account_name: null,
    active: !terms.paused,
  }));
}
