import type { Client } from 'pg';
import { verifyDatabase } from '#db/audit/verify/database.ts';
import type { Report } from '#db/audit/verify/report.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { ArchivedError } from '#db/log/read.ts';
import { compare, isEqual } from '#db/projections/compare.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { isLogFault } from '#db/projections/apply-batch.ts';
import type { CheckResult } from '#server/contract/audit.ts';

/** Findings that are listed. One proves that something is wrong; more help to locate it. */
const FINDINGS_SHOWN_MAX = 20;

/** The result of a check, as far as the check itself knows it. */
export type Outcome = Pick<CheckResult, 'outcome' | 'summary' | 'position' | 'findings' | 'findings_omitted'>;

/** A check: reports its progress and can be canceled. */
export type Check = (
  client: Client,
  options: {
    /** The directory that the log is published in. */ published: string;
    signal: AbortSignal;
    onProgress: (done: number) => void;
  },
) => Promise<Outcome>;

/** The projections that can be compared with a replay. */
export const PROJECTION_NAMES: readonly string[] = PROJECTIONS.map(({ name }) => name);

/** The log against its hash chain, its tree and all checkpoints. */
export const LOG = 'log';

/** The check of a name; null if unknown. */
export function checkOf(what: string): Check | null {
  if (what === LOG) return verify;
  const projection = PROJECTIONS.find(({ name }) => name === what);
  if (projection === undefined) return null;
  return async (client, { signal, onProgress }) => {
    const found = await compare(client, projection, { signal, onPage: onProgress });
    const { position, rows, differing } = found;
    const findings = [
      ...found.faults.map((problem) => ({ position: null, where: projection.name, problem })),
      ...found.differences.map(({ table, key, kind, columns }) => ({
        position: null,
        where: `${table} ${Object.entries(key)
          .map(([column, value]) => `${column}=${value}`)
          .join(' ')}`,
        problem: {
          missing: 'is missing',
          surplus: 'is not in the log',
          changed: columns
            .map((each) => `${each.column} is ${each.projected}, not ${each.replayed}`)
            .join('; '),
        }[kind],
      })),
    ];
    return {
      outcome: isEqual(found) ? 'verified' : 'mismatch',
      summary:
        differing === 0 && findings.length > 0
          ? `Not as the log says: ${findings[0]?.problem}.`
          : `${differing} differences in ${rows} rows.`,
      position,
      ...bounded(findings, differing + found.faults.length),
    };
  };
}

const verify: Check = async (client, { published, onProgress }) => {
  const report = await verifyDatabase(client, { published }, { onProgress });
  const { findings, head } = report;
  const [first] = findings;
  return {
    outcome: first === undefined ? 'verified' : 'mismatch',
    summary: first === undefined ? summaryOf(report) : `The first invalid position is ${first.position}.`,
    position: head,
    ...bounded(
      findings.map(({ position, table, problem }) => ({ position, where: table, problem })),
      findings.length,
    ),
  };
};

function summaryOf({ events, batches, checkpoints, covered, head, notes }: Report): string {
  const verified = `${events} events in ${batches} batches verified`;
  const uncovered = covered === head ? '' : ` The newest ${head - covered} events are not covered yet.`;
  const proof =
    covered === 0
      ? 'No checkpoint covers any of these events.'
      : `${checkpoints} checkpoints match; the newest covers positions up to ${covered}.${uncovered}`;
  return [
    `${verified}. ${proof}`,
    ...notes.map((note) => `${note.charAt(0).toUpperCase()}${note.slice(1)}.`),
  ].join(' ');
}

/** The listed findings. @param total their number, including those that aren't listed. */
export function bounded(
  findings: CheckResult['findings'],
  total: number,
): Pick<CheckResult, 'findings' | 'findings_omitted'> {
  const listed = findings.slice(0, FINDINGS_SHOWN_MAX);
  return { findings: listed, findings_omitted: total - listed.length };
}

/** A message if the state of the log prevents the check; null for a bug. */
export function faultOfLog(error: unknown): string | null {
  if (error instanceof ArchivedError)
    return `A part of the log is in its archive, so this is for the command line: ${error.message}.`;
  return isLogFault(error) || error instanceof StoreError ? `${error.message}.` : null;
}
