import { escapeIdentifier } from 'pg';

/** Who the script prepares the database for. */
export type RoleScript = {
  /** The login that migrates: the user of DATABASE_URL. */
  owner: string;
  /** The login of servers and workers where the owner migrates separately; null: the owner is used. */
  service: string | null;
};

export const DAYBOOK_ROLES = ['daybook_relay', 'daybook_worker', 'daybook_auditor'] as const;

/**
 * The statements with which an administrator prepares a database whose owner may not create roles. Contains
 * no password. Valid in every supported version, and repeatable.
 */
export function roleScript({ owner, service }: RoleScript): string {
  const logins = [owner, ...(service === null ? [] : [service])].map((login) => escapeIdentifier(login));
  return [
    `-- Roles of Daybook. Run it as a role with CREATEROLE; PostgreSQL roles belong to the whole server.`,
    `-- The logins must exist: create login roles in the console of your service, or with`,
    ...logins.map((login) => `--   create role ${login} login password '...';`),
    'do $$',
    'begin',
    ...DAYBOOK_ROLES.flatMap((role) => [
      `  if to_regrole('${role}') is null then`,
      `    create role ${role} nologin;`,
      '  end if;',
    ]),
    'end',
    '$$;',
    ...logins.map((login) => `grant ${DAYBOOK_ROLES.join(', ')} to ${login};`),
    '-- The privileges of each role are granted by the first migration, as the owner.',
  ].join('\n');
}
