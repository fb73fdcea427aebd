import { createWebhookSecret } from '#db/alerts/webhooks.ts';
import { startFlakyReceiver } from '../spend/flaky-receiver.ts';
import type { Ground } from './ground.ts';
import { randomFrom } from './random.ts';
import {
  ALERTED_OUTAGE_MS,
  compareReceived,
  runAroundSink,
  type SpendRun,
  sumOf,
  type Victim,
} from '../spend/spend-run.ts';
import type { Finding } from './verdict.ts';

/** What the run found; `violations` is empty when the promises held. */
export type SpendVerdict = Omit<SpendRun, 'events'> & {
  /** Spend events in the log, and those that the receiver was sent once more. */
  events: number;
  repeated: number;
  batches: number;
  cost_nanousd: string;
  violations: Finding[];
};

const VICTIMS: readonly Victim[] = ['worker', 'server', 'worker', 'postgres'];

/**
 * Kills workers, servers and PostgreSQL with SIGKILL one after another, at random moments, while a receiver
 * fails at random, and lets the receiver be down for a part of the run. In the end the receiver has each
 * spend event of the log once by its id, and its sums are the log's.
 * @param options.outageMs how long the receiver is down; 0: for half of the kills.
 */
export async function killSpend(
  ground: Ground,
  { n, seed, outageMs = 0 }: { n: number; seed: number; outageMs?: number },
): Promise<SpendVerdict> {
  const random = randomFrom(seed);
  const secret = createWebhookSecret();
  await using receiver = await startFlakyReceiver(random, secret);
  const run = await runAroundSink(
    ground,
    {
      config: { kind: 'webhook', url: receiver.url, secret, allow_private: true },
      setDown: (isDown) => {
        receiver.isDown = isDown;
        return Promise.resolve();
      },
    },
    { random, victims: victimsOf(VICTIMS, n), outageMs },
  );
  const found = [...receiver.faults, ...compareReceived(run.events, receiver.taken)];
  return {
    ...run,
    events: run.events.length,
    repeated: receiver.repeated,
    batches: receiver.batches,
    cost_nanousd: String(sumOf(run.events)),
    violations: [...found, ...alertFaults(run)].map((message) => ({ rule: 'spend', request: '', message })),
  };
}

/** So many victims, of these kinds one after another. */
export const victimsOf = (kinds: readonly Victim[], n: number): Victim[] =>
  Array.from({ length: n }, (_, index) => kinds[index % kinds.length] ?? 'worker');

/** A long outage raises the alert of its sink, which recovers after it. */
export const alertFaults = ({ outageS, alerts }: SpendRun): string[] =>
  outageS !== null &&
  outageS * 1_000 >= ALERTED_OUTAGE_MS &&
  !(alerts.length >= 2 && alerts.at(-1) === 'recovered')
    ? [`the alerts of an outage of ${outageS} s were: ${alerts.join(', ')}`]
    : [];
