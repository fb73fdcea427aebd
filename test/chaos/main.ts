import { parseArgs } from 'node:util';
import { failover } from '../postgres/failover.ts';
import { fallback } from './fallback.ts';
import { freezeInstance } from './freeze-instance.ts';
import { clusterGround, type Ground } from './ground.ts';
import { idempotency } from './idempotency.ts';
import { killInstance } from './kill-instance.ts';
import { killProjector } from './kill-projector.ts';
import { killServer } from './kill-server.ts';
import { revokeSockets } from './revoke-sockets.ts';
import { upgradeOnCluster } from './upgrade.ts';
import { rolling } from './rolling.ts';
import { killSpend } from './spend.ts';
import { killKafka } from '../spend/kafka-verdict.ts';
import { canRunFront } from '../support/deploy/front.ts';

/**
 * `npm run chaos -- CASE [--n N] [--streams 50] [--rate 500] [--seed 1] [--outage S] [--front haproxy]`:
 * breaks things on purpose and checks that the promises held. With `--outage` the receiver of `spend` and
 * `kafka` is down for so many seconds by the clock of the retries, and most of the kills are spread over
 * them. `--front haproxy` puts HAProxy with deploy/haproxy.cfg before the relays of `rolling`, in place of
 * the balancer of the tests.
 * Prints a verdict as JSON and exits 1 on any violation.
 */
const FRONTS = ['balancer', 'haproxy'] as const;
type Options = {
  n: number;
  streams: number;
  rate: number;
  seed: number;
  outageMs: number;
  front: (typeof FRONTS)[number];
};

const CASES: Record<string, { n: number; run: (options: Options) => Promise<{ violations: unknown[] }> }> = {
  'kill-server': { n: 100, run: ({ n, ...more }) => killServer({ kills: n, ...more }) },
  'kill-instance': { n: 50, run: killInstance },
  'kill-projector': { n: 100, run: onCluster(killProjector) },
  fallback: { n: 20, run: onCluster(fallback) },
  upgrade: { n: 2000, run: ({ n, streams }) => upgradeOnCluster({ calls: n, streams }) },
  'freeze-instance': { n: 3, run: (options) => freezeInstance({ ...options, frozenMs: 20_000 }) },
  rolling: { n: 50, run: rolling },
  failover: { n: 20, run: ({ n, ...more }) => failover({ runs: n, ...more }) },
  spend: { n: 100, run: onCluster(killSpend) },
  idempotency: { n: 10_000, run: onCluster(idempotency) },
  'revoke-sockets': { n: 50, run: onCluster(revokeSockets) },
  kafka: { n: 100, run: onCluster(killKafka) },
};
/** Runs a case on a cluster of its own. */
function onCluster<T>(run: (ground: Ground, options: Options) => Promise<T>) {
  return async (options: Options): Promise<T> => {
    await using ground = await clusterGround();
    return await run(ground, options);
  };
}

const SHOWN_VIOLATIONS = 20;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    n: { type: 'string' },
    streams: { type: 'string', default: '50' },
    rate: { type: 'string', default: '500' },
    seed: { type: 'string', default: '1' },
    outage: { type: 'string', default: '0' },
    front: { type: 'string', default: 'balancer' },
  },
});
const [name = ''] = positionals;
const chosen = CASES[name];
if (!chosen) {
  process.stderr.write(`chaos: name a case: ${Object.keys(CASES).join(', ')}\n`);
  process.exit(2);
}
const front = FRONTS.find((each) => each === values.front);
if (front === undefined) {
  process.stderr.write(`chaos: --front is one of: ${FRONTS.join(', ')}\n`);
  process.exit(2);
}
if (front === 'haproxy' && !canRunFront) {
  process.stderr.write('chaos: --front haproxy needs HAProxy and OpenSSL, which are not installed here\n');
  process.exit(2);
}
const options = {
  n: Number(values.n ?? chosen.n),
  streams: Number(values.streams),
  rate: Number(values.rate),
  seed: Number(values.seed),
  outageMs: Number(values.outage) * 1_000,
  front,
};
const { violations, ...figures } = await chosen.run(options);
const shown = violations.slice(0, SHOWN_VIOLATIONS);
const report = { case: name, ...options, ...figures, violations: violations.length, shown };
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
process.exitCode = violations.length === 0 ? 0 : 1;
