/**
 * The tests' own account of the subjects that a call is charged to, independent of db/limits/subjects.ts and
 * `daybook.subjects_of`, which it judges.
 */

export type Charged = {
  account: string;
  key: string;
  parents?: readonly string[] | undefined;
  end_user?: string | undefined;
  session?: string | undefined;
  tags?: readonly string[] | undefined;
};

export type ExpectedSubject = { name: string; holder: string; per: string | null; account: string };

export function expectedSubjects(call: Charged): ExpectedSubject[] {
  const { account, key, parents, end_user: user, session, tags } = call;
  const apart: [string, string][] = [];
  if (user !== undefined) apart.push(['end_user', user]);
  if (session !== undefined) apart.push(['session', session]);
  for (const tag of new Set(tags)) apart.push(['tag', tag]);
  const found: ExpectedSubject[] = [];
  for (const id of [account, ...(parents ?? [])]) {
    const holder = `account/${id}`;
    found.push({ name: holder, holder, per: null, account: id });
    for (const [per, each] of apart) found.push({ name: `${per}/${id}/${each}`, holder, per, account: id });
  }
  const holder = `key/${key}`;
  found.push({ name: holder, holder, per: null, account });
  for (const [per, each] of apart)
    found.push({ name: `${per}/${account}/${key}/${each}`, holder, per, account });
  return found;
}
