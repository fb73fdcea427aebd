import { type Limit, type SubjectLimits } from '#db/limits/limits.ts';
import { AdmissionController } from '#server/limits/admission-controller.ts';
import { Reservation } from '#server/limits/reservation.ts';
import { SimStore } from '../test/sim/store.ts';
import type { Goal } from './goals.ts';
import { median } from './median.ts';
import type { Stage } from './relay.ts';
import type { Settings } from './settings.ts';
import { figure, table } from './table.ts';

/** What admitting and settling a call costs, by the number of its subjects. */
export type AdmissionCost = { subjects: number; cpuUs: number | null; timesTwo: number | null };
export type AdmissionReport = { admissionCosts: AdmissionCost[]; goals: Goal[] };

/** Two: an account and its key. Five: also an end user, a session and a tag. */
const SUBJECTS = [1, 2, 5] as const;
const ADDED_US_MAX = 5;
/** Of the measured seconds of a round, for each number of subjects. */
const SHARE = 0.1;
const CALLS_AT_ONCE = 1_000;
const WARMUP_CALLS = 50_000;

const NEED = { minimum: { tokens: 10, cost: 10 }, wanted: { tokens: 10, cost: 10 } };
/** Far from its limit after all calls of a run. */
const CAP = 10 ** 15;
const FIRST_NEED = { minimum: NEED.minimum, wanted: { tokens: CAP / 100, cost: CAP / 100 } };
const USED = { input_tokens: 7, output_tokens: 3, cost_nanousd: 10 };

/**
 * Measures admission from leases alone, without sockets or a database: all limits are far, so that no call
 * waits. Each subject has a quota of tokens and one of cost.
 */
export async function benchAdmission(settings: Settings, { signal }: Stage): Promise<AdmissionReport> {
  const servers = SUBJECTS.map((subjects) => ({
    subjects,
    server: new Server(subjects),
    us: [] as number[],
  }));
  for (let round = 0; round < settings.rounds; round++) {
    for (const { server, us } of round % 2 === 0 ? servers : servers.toReversed()) {
      signal.throwIfAborted();
      us.push(cpuUsPerCall(server, settings.secs * SHARE));
      // A signal is taken between two of them.
      await new Promise(setImmediate);
    }
  }
  const usOf = (subjects: number): number[] => servers.find((each) => each.subjects === subjects)?.us ?? [];
  const [two, five] = [usOf(2), usOf(5)];
  const added = five.map((us, round) => us - (two[round] ?? NaN));
  return {
    admissionCosts: servers.map(({ subjects, us }) => ({
      subjects,
      cpuUs: median(us),
      timesTwo: median(us.map((each, round) => each / (two[round] ?? NaN))),
    })),
    goals: [
      {
        name: 'CPU of an admission with five subjects, above one with two',
        measured: median(added),
        bound: 'at most',
        limit: ADDED_US_MAX,
        unit: 'µs',
      },
    ],
  };
}

export function renderAdmission({ admissionCosts }: AdmissionReport): string {
  const rows = admissionCosts.map(({ subjects, cpuUs, timesTwo }) => [
    `${subjects} ${subjects === 1 ? 'subject' : 'subjects'}`,
    figure(cpuUs),
    figure(timesTwo),
  ]);
  return `\nadmission\n${table(['', 'CPU µs/call', '× two subjects'], rows)}`;
}

/** A server with leases of the subjects of one call, and a store in memory. */
class Server {
  readonly #admission = new AdmissionController();
  readonly #subjects: readonly SubjectLimits[];
  readonly #nowMs = Date.parse('2026-11-23T12:00:00Z');

  constructor(count: number) {
    const names = ['account/Account1', 'key/Key00001', ...['end_user', 'session', 'tag'].map(pseudonymous)];
    this.#subjects = names.slice(0, count).map((subject) => ({
      subject,
      limits: (['tokens', 'cost_nanousd'] as const).map((meter): Limit => ({
        meter,
        window: 'month',
        cap: CAP,
        enforcement: 'soft',
        reset: 0,
      })),
      position: 1,
      replyTokensMax: null,
    }));
    const store = new SimStore();
    const instance = store.register();
    // The first call leases enough for all others, and returns it here.
    this.#admission.admit(this.#subjects, FIRST_NEED, this.#nowMs, (outcome) => {
      if (outcome instanceof Reservation) outcome.release();
    });
    const request = this.#admission.nextRequest(this.#nowMs, 0);
    if (request === null) throw new Error('the first call requests no lease');
    this.#admission.applyResponse(store.exchange(instance, request, this.#nowMs), this.#nowMs);
  }

  /** Admits and settles a call. @throws {Error} where the leases don't suffice. */
  call(): void {
    const outcome = this.#admission.admit(this.#subjects, NEED, this.#nowMs, () => {});
    if (!(outcome instanceof Reservation)) throw new Error('a call was not admitted at once');
    outcome.settle(USED);
  }
}

const pseudonymous = (kind: string): string => `${kind}/Account1/0000000000000001`;

function cpuUsPerCall(server: Server, secs: number): number {
  for (let count = 0; count < WARMUP_CALLS; count++) server.call();
  const began = process.cpuUsage();
  let [calls, us] = [0, 0];
  while (us < secs * 1e6) {
    for (let count = 0; count < CALLS_AT_ONCE; count++) server.call();
    calls += CALLS_AT_ONCE;
    const { user, system } = process.cpuUsage(began);
    us = user + system;
  }
  return us / calls;
}
