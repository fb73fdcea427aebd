import type { Client } from 'pg';
import { readMajor } from '#db/postgres/check-server.ts';

/** What a member of a role may do: use its privileges as its own, become it, grant it to others. */
export type Membership = { inherit: boolean; set: boolean; admin?: boolean };

/** The first version that states for each membership whether it is inherited and may be set. */
const OPTIONS_SINCE = 16;

/** The argument of pg_has_role() that asks whether a role may be set, as SQL. */
export const MAY_SET = `case when current_setting('server_version_num')::integer < ${OPTIONS_SINCE}0000
  then 'MEMBER' else 'SET' end`;

/**
 * Grants roles to another. Before PostgreSQL 16 each member may set a role, and inherits its privileges
 * unless the member was created with NOINHERIT.
 * @param roles as SQL, separated by commas.
 * @param member as SQL.
 */
export async function grantRole(
  client: Client,
  roles: string,
  member: string,
  { inherit, set, admin = false }: Membership,
): Promise<void> {
  const hasOptions = (await readMajor(client)) >= OPTIONS_SINCE;
  const older = admin ? 'with admin option' : '';
  const options = hasOptions ? `with inherit ${inherit}, set ${set}, admin ${admin}` : older;
  await client.query(`grant ${roles} to ${member} ${options}`);
}
