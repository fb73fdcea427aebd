import { execFile, type ExecFileOptions } from 'node:child_process';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { HELPER_TIMEOUT_MS } from '#db/bounds.ts';
import { StoreError } from '#db/postgres/connect.ts';
import type { Binaries } from '#db/postgres/embedded/binaries.ts';

/**
 * The user that runs Postgres' programs. Postgres refuses to run as root, so a Daybook started by root
 * uses a system user; otherwise it is the current user.
 */
export type RunAs = {
  /** The owner of the cluster; null: the current user. */
  owner: { uid: number; gid: number } | null;
  /** A command that starts the program: its words come before the program's own. */
  prefix: readonly string[];
  /** For `spawn`. Empty if the prefix changes the user. */
  identity: { uid?: number; gid?: number };
};

/** Runs a small program to its end. Rejects if it fails; the error has its `stderr`. */
export async function run(
  program: string,
  args: readonly string[],
  options: ExecFileOptions = {},
): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(program, args, { timeout: HELPER_TIMEOUT_MS, ...options, encoding: 'utf8' });
}

const OURSELVES: RunAs = { owner: null, prefix: [], identity: {} };

const SYSTEM_USER = 'daybook';
const CREATE_SYSTEM_USER: readonly (readonly [string, ...string[]])[] = [
  ['useradd', '--system', '--user-group', '--no-create-home', '--shell', '/usr/sbin/nologin', SYSTEM_USER],
  // Busybox. Its adduser adds the user to a group of the same name.
  ['adduser', '-S', '-D', '-H', '-s', '/sbin/nologin', SYSTEM_USER],
];

/**
 * A clone below /root or a directory of mode 0700 is common, and the system user can't traverse it. Then
 * Postgres keeps one capability for that. The first one suffices; containers commonly withhold it but grant
 * the second, which works too.
 */
const CAPABILITIES = ['dac_read_search', 'dac_override'] as const;

/**
 * Chooses the user.
 * @param cluster the cluster's directory; if it exists, its owner stays.
 * @param dataDir a directory that the programs must be able to enter.
 * @throws {StoreError} if no user can run them.
 */
export async function chooseRunAs(cluster: string, dataDir: string, binaries: Binaries): Promise<RunAs> {
  if (process.getuid?.() !== 0) return OURSELVES;
  const owner = (await ownerOf(cluster)) ?? (await systemUser());
  const share = path.resolve(binaries.postgres, '..', '..', 'share', 'postgresql', 'postgres.bki');
  const needed = [dataDir, binaries.postgres, share];
  const plain: RunAs = { owner, prefix: [], identity: owner };
  if (await canReach(plain, needed)) return plain;
  for (const capability of CAPABILITIES) {
    const prefix = [
      'setpriv',
      `--reuid=${owner.uid}`,
      `--regid=${owner.gid}`,
      '--clear-groups',
      '--no-new-privs',
      // Postgres checks its own programs with access(2), which honors the capability only with this bit.
      '--securebits=+no_setuid_fixup',
      `--inh-caps=+${capability}`,
      `--ambient-caps=+${capability}`,
      '--',
    ];
    const enabled: RunAs = { owner, prefix, identity: {} };
    if (await canReach(enabled, needed)) return enabled;
  }
  if (!(await canReach(plain, ['/']))) {
    throw new StoreError(
      'PostgreSQL does not run as root, and this root may not run programs as another user: ' +
        'start Daybook as an ordinary user',
    );
  }
  const blocked: string[] = [];
  for (const file of needed) if (!(await canReach(plain, [file]))) blocked.push(file);
  throw new StoreError(
    `PostgreSQL does not run as root, and user ${owner.uid} cannot reach ${blocked.join(' and ')}: ` +
      'choose a DAYBOOK_DATA (or directory for Daybook) that every user may enter, ' +
      'or start Daybook as an ordinary user',
  );
}

/** The arguments with which `spawn` starts a program of Postgres. */
export function command(
  runAs: RunAs,
  program: string,
  args: readonly string[],
): {
  program: string;
  args: string[];
  options: { uid?: number; gid?: number; cwd: string; env: NodeJS.ProcessEnv };
} {
  const [first, ...rest] = [...runAs.prefix, program, ...args];
  return {
    program: first as string,
    args: rest,
    // Not our environment: it contains credentials, and PG* variables would change Postgres' behavior.
    // Not our directory: the other user may be unable to enter it.
    options: { ...runAs.identity, cwd: path.parse(program).root, env: postgresEnvironment() },
  };
}

function postgresEnvironment(): NodeJS.ProcessEnv {
  const { PATH, SystemRoot } = process.env;
  return { LC_ALL: 'C', TZ: 'UTC', ...(PATH ? { PATH } : {}), ...(SystemRoot ? { SystemRoot } : {}) };
}

async function ownerOf(cluster: string): Promise<{ uid: number; gid: number } | null> {
  const found = await stat(cluster).catch(() => null);
  return found === null || found.uid === 0 ? null : { uid: found.uid, gid: found.gid };
}

async function systemUser(): Promise<{ uid: number; gid: number }> {
  let user = await lookUp(SYSTEM_USER);
  for (const [program, ...args] of CREATE_SYSTEM_USER) {
    if (user !== null) break;
    // A missing or failing program is not an error yet: the lookup decides, also if a concurrent starter
    // has just created the user.
    await run(program, args).catch(() => null);
    user = await lookUp(SYSTEM_USER);
  }
  user ??= await lookUp('nobody');
  if (user === null) {
    throw new StoreError(
      `PostgreSQL does not run as root, and the user ${SYSTEM_USER} could not be created: ` +
        'start Daybook as an ordinary user',
    );
  }
  return user;
}

async function lookUp(name: string): Promise<{ uid: number; gid: number } | null> {
  try {
    const uid = Number((await run('id', ['-u', name])).stdout);
    const gid = Number((await run('id', ['-g', name])).stdout);
    return uid > 0 ? { uid, gid } : null;
  } catch {
    return null;
  }
}

/** Asks the kernel rather than reading modes, which would miss access lists and mounts. */
async function canReach(runAs: RunAs, paths: readonly string[]): Promise<boolean> {
  const script = 'for path; do test -x "$path" || test -r "$path" || exit 1; done';
  const { program, args, options } = command(runAs, '/bin/sh', ['-c', script, 'sh', ...paths]);
  return run(program, args, options).then(
    () => true,
    () => false,
  );
}
