import type { Pinning } from '../machine/pinning.ts';
import type { Credential } from '../workloads.ts';
import type { NearEnd } from './near.ts';

/** What a target needs to know to start. */
export type Surroundings = {
  /** A directory for this run, removed at its end. */
  directory: string;
  pinning: Pinning;
  upstreamPort: number;
};

/** A server that is up and takes load. */
export type Running = {
  port: number;
  /** The root of the server's process tree; null where there is no server between. */
  serverPid: number | null;
  /** The root of its Postgres, which may or may not stand below the server. */
  postgresPid: number | null;
  /** The Authorization header of each kind of caller; null for none. */
  authorization: Record<Credential, string | null>;
  /** Where it tells how often it has asked its store about limits; null where it has none. */
  statePath: string | null;
  /** Where its store is; null where it has none. */
  dataDir: string | null;
  /** How it wants to be asked; null: as the upstream itself. */
  dialect: Dialect | null;
  /** Brings the quota of the key `near` close to its end; null where there are no quotas. */
  bringNear: (() => Promise<NearEnd>) | null;
  stop: () => Promise<void>;
};

/** What calls of another gateway have that the upstream's don't. */
export type Dialect = {
  path: string;
  headers: Record<string, string>;
  /** Before the model's name. */
  modelPrefix: string;
  /** Whether it rewrites JSON replies: then they have any length. */
  rewrites: boolean;
};

/**
 * What a target is started for. Where memory per stream is measured, it must hold nothing that was
 * let go of already: such space takes up the streams and hides them.
 */
export type Purpose = 'load' | 'memory';

/** Something that load can be sent to. It may be started and stopped several times in a run. */
export type Target = {
  name: string;
  /** Whether it passes calls on, refuses them, or does both. */
  does: { relay: boolean; refuse: boolean };
  start: (surroundings: Surroundings, purpose: Purpose) => Promise<Running>;
};

/** For targets that look at no key. */
export const ANY_KEY: Running['authorization'] = {
  limited: 'Bearer sk-bench',
  restricted: 'Bearer sk-bench',
  unlimited: 'Bearer sk-bench',
  near: 'Bearer sk-bench',
  missing: null,
  wrong: 'Bearer sk-wrong',
  suspended: 'Bearer sk-suspended',
};
