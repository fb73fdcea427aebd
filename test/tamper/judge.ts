import { type Evidence } from '#db/audit/verify/evidence.ts';
import { verifyDatabase } from '#db/audit/verify/database.ts';
import type { Finding } from '#db/audit/verify/report.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { type Random } from '../chaos/random.ts';
import { type Attack, type Attacker, oneOf, within } from './trial.ts';
import type { World } from './world.ts';

/** The outcome of one attack. */
export type Outcome = Attack & {
  /** With the publish directory, and with one older checkpoint alone. */
  published: Detection;
  older: Detection & { size: number | null };
};
/**
 * Whether it was detected, whether its position is exact or within the reported range, and whether the
 * reported table is right.
 */
type Detection = { isFound: boolean; isPlaced: boolean; isNamed: boolean; first: Finding | null };

/** The evidence of an auditor with the publish directory. */
const withPublished = ({ directory, key, archive }: World): Evidence => ({
  published: directory,
  keys: [key],
  archive,
});

/** Makes an attack, verifies with both kinds of evidence, and rolls it back. */
export async function tryAttack(world: World, random: Random, attacker: Attacker): Promise<Outcome> {
  return within(world.superuser, async () => {
    const attack = await attacker(world, random);
    const published = evaluate(attack, await verify(world, withPublished(world)), true);
    const { key, archive } = world;
    const covering = world.checkpoints.filter(
      ({ size }) => attack.expected === null || size >= attack.expected,
    );
    const kept = covering.length === 0 ? null : oneOf(random, covering);
    if (kept === null) return { ...attack, published, older: { ...published, size: null } };
    const findings = await verify(world, {
      checkpoints: [{ from: 'kept', note: kept.note }],
      keys: [key],
      archive,
    });
    return { ...attack, published, older: { ...evaluate(attack, findings, false), size: kept.size } };
  });
}

/** Verifies the unchanged log. */
export async function verifyUnchanged(world: World): Promise<Finding[]> {
  return within(world.superuser, () => verify(world, withPublished(world)));
}

async function verify({ superuser }: World, evidence: Evidence): Promise<Finding[]> {
  try {
    return (await verifyDatabase(superuser, evidence)).findings;
  } catch (error) {
    // Detected without a position: the evidence is of another log, or an archive file was swapped.
    if (error instanceof StoreError) return [{ position: 1, table: 'install', problem: error.message }];
    throw error;
  }
}

function evaluate(
  { expected, orElse, table }: Attack,
  findings: readonly Finding[],
  isExact: boolean,
): Detection {
  const first = findings[0] ?? null;
  if (expected === null || first === null)
    return { isFound: first !== null, isPlaced: false, isNamed: false, first };
  const to = isExact ? first.position : (first.to ?? first.position);
  const isPlaced = [expected, orElse].some(
    (position) => position !== undefined && first.position <= position && to >= position,
  );
  return { isFound: true, isPlaced, isNamed: first.table === table, first };
}
