import { readdir, readFile, readlink } from 'node:fs/promises';
import path from 'node:path';
import type { Client } from 'pg';
import type { Probed } from './probe.ts';

/** One look at a process and its database. */
export type Sample = {
  at: number;
  /** Calls that have ended so far. */
  calls: number;
  rssMb: number;
  descriptors: number;
  sockets: number;
  /** Connections that the upstreams have open. */
  upstreamConnections: number;
  /** Sessions of the database. */
  sessions: number;
  /** Bytes of each table with its indexes; partitions count with their parent. */
  tables: Map<string, number>;
};

const TABLES = `select coalesce(parent.oid, c.oid)::regclass::text as name,
    sum(pg_total_relation_size(c.oid))::float8 as bytes
  from pg_class c
  left join pg_inherits i on i.inhrelid = c.oid
  left join pg_class parent on parent.oid = i.inhparent
  join pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p') and n.nspname in ('daybook', 'projection', 'graphile_worker')
  group by 1`;
const SESSIONS = `select count(*)::int as count from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid()`;

/** @param client of any role that sees the catalog; it does nothing else. */
export async function takeSample(
  pid: number,
  client: Client,
  counted: Pick<Sample, 'calls' | 'upstreamConnections'>,
): Promise<Sample> {
  const [status, descriptors, tables, sessions] = await Promise.all([
    readFile(`/proc/${pid}/status`, 'utf8'),
    readDescriptors(pid),
    client.query<{ name: string; bytes: number }>(TABLES),
    client.query<{ count: number }>(SESSIONS),
  ]);
  return {
    at: Date.now(),
    ...counted,
    rssMb: Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? NaN) / 1024,
    descriptors: descriptors.length,
    sockets: descriptors.filter((target) => target.startsWith('socket:')).length,
    sessions: sessions.rows[0]?.count ?? NaN,
    tables: new Map(tables.rows.map(({ name, bytes }) => [name, bytes])),
  };
}

async function readDescriptors(pid: number): Promise<string[]> {
  const directory = `/proc/${pid}/fd`;
  const names = await readdir(directory);
  // One may be closed in between.
  return Promise.all(names.map((name) => readlink(path.join(directory, name)).catch(() => '')));
}

/** What the probe within the process has written. */
export async function readProbe(directory: string, pid: number): Promise<Probed[]> {
  const text = await readFile(path.join(directory, `${pid}.jsonl`), 'utf8').catch(() => '');
  return text
    .split('\n')
    .filter((line) => line.endsWith('}'))
    .map((line) => JSON.parse(line) as Probed);
}

/** The longest of many times, and the 99th percentile, in whole milliseconds. */
export type Longest = { p99: number; max: number };

export function longest(times: readonly number[]): Longest {
  const sorted = times.map(Math.round).toSorted((left, right) => left - right);
  return { p99: sorted[Math.floor(sorted.length * 0.99)] ?? 0, max: sorted.at(-1) ?? 0 };
}
