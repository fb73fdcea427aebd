import { type Evidence } from '#db/audit/verify/evidence.ts';
import { verifyDatabase } from '#db/audit/verify/verify.ts';
import type { Finding } from '#db/audit/verify/report.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { type Random } from '../chaos/random.ts';
import { type Attack, type Attacker, oneOf, within } from './trial.ts';
import type { World } from './world.ts';

/** What came of one attack. */
export type Outcome = Attack & {
  /** With what was published, and with one older checkpoint alone. */
  published: Judged;
  older: Judged & { size: number | null };
};
/**
 * Whether it was found, whether its place is exact or lies within what is said, and whether its table is the
 * one that is named.
 */
type Judged = { isFound: boolean; isPlaced: boolean; isNamed: boolean; first: Finding | null };

/** What an auditor holds who has the directory in which the log is published. */
const withPublished = ({ directory, key, archive }: World): Evidence => ({
  published: directory,
  keys: [key],
  archive,
});

/** Makes an attack, looks for it by both kinds of evidence, and undoes it. */
export async function tryAttack(world: World, random: Random, attacker: Attacker): Promise<Outcome> {
  return within(world.superuser, async () => {
    const attack = await attacker(world, random);
    const published = judge(attack, await look(world, withPublished(world)), true);
    const { key, archive } = world;
    const covering = world.checkpoints.filter(
      ({ size }) => attack.expected === null || size >= attack.expected,
    );
    const kept = covering.length === 0 ? null : oneOf(random, covering);
    if (kept === null) return { ...attack, published, older: { ...published, size: null } };
    const findings = await look(world, {
      checkpoints: [{ from: 'kept', note: kept.note }],
      keys: [key],
      archive,
    });
    return { ...attack, published, older: { ...judge(attack, findings, false), size: kept.size } };
  });
}

/** That nothing is found where nothing was done. */
export async function lookAtWhole(world: World): Promise<Finding[]> {
  return within(world.superuser, () => look(world, withPublished(world)));
}

async function look({ superuser }: World, evidence: Evidence): Promise<Finding[]> {
  try {
    return (await verifyDatabase(superuser, evidence)).findings;
  } catch (error) {
    // It is told, if not as a place: the evidence is of another log, or a file of the archive is not the one.
    if (error instanceof StoreError) return [{ position: 1, table: 'install', problem: error.message }];
    throw error;
  }
}

function judge({ expected, orElse, table }: Attack, findings: readonly Finding[], isExact: boolean): Judged {
  const first = findings[0] ?? null;
  if (expected === null || first === null)
    return { isFound: first !== null, isPlaced: false, isNamed: false, first };
  const to = isExact ? first.position : (first.to ?? first.position);
  const isPlaced = [expected, orElse].some(
    (position) => position !== undefined && first.position <= position && to >= position,
  );
  return { isFound: true, isPlaced, isNamed: first.table === table, first };
}
