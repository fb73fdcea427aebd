import { execFile, type ExecFileOptions } from 'node:child_process';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { HELPER_TIMEOUT_MS } from '#db/bounds.ts';
import { StoreError } from '#db/postgres/connect.ts';
import type { Binaries } from '#db/postgres/embedded/binaries.ts';

/**
 * As whom Postgres' programs run. Postgres refuses root, so a Daybook started by root runs them as
 * a system user of its own; anybody else runs them as themselves.
 */
export type RunAs = {
  /** Who owns the cluster; null when that is simply who runs Daybook. */
  owner: { uid: number; gid: number } | null;
  /** What starts a program: its words come before the program's own. */
  prefix: readonly string[];
  /** For `spawn`. Empty when the prefix changes the user. */
  identity: { uid?: number; gid?: number };
};

/** Runs a small program to its end. Rejects when it fails; `stderr` of the error has what it said. */
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
  // Busybox. Its adduser puts the user into a group of the same name.
  ['adduser', '-S', '-D', '-H', '-s', '/sbin/nologin', SYSTEM_USER],
];

/**
 * A clone below /root or a directory of mode 0700 is common, and the system user may not pass
 * through. Then Postgres keeps one capability that lets it. Reading is enough; containers commonly
 * withhold that one but grant the second, which does it too.
 */
const CAPABILITIES = ['dac_read_search', 'dac_override'] as const;

/**
 * Decides as whom to run.
 * @param cluster the cluster's directory; if it exists, its owner goes on owning it.
 * @param dataDir a directory that the programs must be able to enter.
 * @throws {StoreError} when root has no other user that could run them.
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
      // Postgres asks access(2) about its own programs, which sees the capability only with this bit.
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
      'PostgreSQL does not run as root, and this root may not run programs as another user: start Daybook as an ordinary user',
    );
  }
  const blocked: string[] = [];
  for (const place of needed) if (!(await canReach(plain, [place]))) blocked.push(place);
  throw new StoreError(
    `PostgreSQL does not run as root, and user ${owner.uid} cannot reach ${blocked.join(' and ')}: ` +
      'choose another DAYBOOK_DATA (or place for Daybook) that every user may enter, or start Daybook as an ordinary user',
  );
}

/** The words and options with which `spawn` starts a program of Postgres. */
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
    // Not our environment: it holds credentials, and PG* variables would change what Postgres does.
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
    // One that is missing or fails is no fault yet: the look-up tells whether the user is there,
    // also when another starter has just made it.
    await run(program, args).catch(() => null);
    user = await lookUp(SYSTEM_USER);
  }
  user ??= await lookUp('nobody');
  if (user === null) {
    throw new StoreError(
      `PostgreSQL does not run as root, and no user ${SYSTEM_USER} could be made: start Daybook as an ordinary user`,
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
async function canReach(runAs: RunAs, places: readonly string[]): Promise<boolean> {
  const script = 'for place; do test -x "$place" || test -r "$place" || exit 1; done';
  const { program, args, options } = command(runAs, '/bin/sh', ['-c', script, 'sh', ...places]);
  return run(program, args, options).then(
    () => true,
    () => false,
  );
}
