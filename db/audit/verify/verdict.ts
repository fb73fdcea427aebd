import { NODE_CHILDREN } from '#db/tlog/hashes.ts';
import type { Broken } from '#db/audit/verify/verifier.ts';
import type { Contradiction } from '#db/audit/verify/claims.ts';
import { type Finding, FINDINGS_MAX, OF_ANOTHER_BATCH, spanOf } from '#db/audit/verify/report.ts';

/** All that was seen of a log, before anybody has said which of it follows from what. */
export type Seen = {
  /** What was found in the log's own rows, batches and versions, each at its position. */
  direct: readonly Finding[];
  /** Positions whose leaf is not the one that was published, where that is proved by a signature. */
  different: readonly number[];
  broken: readonly Broken[];
  contradiction: Contradiction | null;
  /** Nodes of the tree that are not those in the table. */
  nodes: readonly { level: number; number: number }[];
  /** Up to here a signed checkpoint agrees with the events. */
  covered: number;
  /** What was found in the tables beside the log. */
  beside: readonly Finding[];
};

/** The positions below a node. */
const below = ({ level, number }: { level: number; number: number }) => ({
  from: number * NODE_CHILDREN ** level + 1,
  to: (number + 1) * NODE_CHILDREN ** level,
});

/**
 * What is wrong, causes and not what follows from them: the log itself first, in its order, then what is
 * beside it. Pure.
 */
export function judge({ direct, different, broken, contradiction, nodes, covered, beside }: Seen): Finding[] {
  const found: Finding[] = [...direct];
  const isExplained = (from: number, to: number): boolean =>
    found.some((finding) => finding.position <= to && (finding.to ?? finding.position) >= from);
  for (const position of different) {
    if (!direct.some((finding) => finding.position === position && finding.table === 'log'))
      found.push({ position, table: 'log', problem: 'is not what was published at this position' });
  }
  const exact = [...found];
  for (const each of broken) {
    const { from, to, leaves } = each;
    const own = exact.filter((finding) => finding.position <= to && (finding.to ?? finding.position) >= from);
    // Nobody knows the leaves, and a row at the end is of the next batch: one before it may have gone.
    const isMovedUp =
      leaves === 'unknown' &&
      own.every(({ problem }) => problem === OF_ANOTHER_BATCH) &&
      own.some(({ position }) => position === to);
    if (own.length > 0 && !isMovedUp) continue;
    found.push(brokenBatch(each, nodes));
  }
  // Versions that don't follow one another may have another cause than what the signature contradicts.
  if (contradiction !== null && different.length === 0 && broken.length === 0)
    found.push(betweenCheckpoints(contradiction, nodes));
  const nodeFindings = nodes.flatMap((node): Finding[] => {
    const { from, to } = below(node);
    if (isExplained(from, to) || (contradiction !== null && to > contradiction.good)) return [];
    const why =
      covered >= to
        ? 'is not the hash of its events'
        : 'does not agree with the events, and no checkpoint tells which of them were changed';
    return [
      {
        position: from,
        table: 'log_node',
        problem: `the row of level ${node.level}, number ${node.number} ${why}`,
      },
    ];
  });
  return [...inOrder(found), ...inOrder([...beside, ...nodeFindings])].slice(0, FINDINGS_MAX);
}

function brokenBatch({ from, to, leaves, isValueAlone }: Broken, nodes: Seen['nodes']): Finding {
  const batch = `the row of the batch that ends at position ${to}`;
  if (isValueAlone)
    return {
      position: from,
      table: 'log_batch',
      problem: `${batch} has another chain value than its events come to; what follows was not changed`,
    };
  if (leaves === 'same')
    return {
      position: from,
      table: 'log_batch',
      problem: `${batch} was changed: its events are those that were published`,
    };
  const narrowed = narrowedBy(nodes, from, to);
  return {
    ...narrowed,
    table: 'log',
    problem: `${spanOf(narrowed.position, narrowed.to)}: one of them, or ${batch}, was changed`,
  };
}

function betweenCheckpoints({ size, from, good }: Contradiction, nodes: Seen['nodes']): Finding {
  const narrowed = narrowedBy(nodes, good + 1, size);
  const between =
    good === 0
      ? `before the checkpoint of size ${size} (bad, ${from})`
      : `between the checkpoints of size ${good} (good) and ${size} (bad, ${from})`;
  return { ...narrowed, table: 'log', problem: `the events ${between} are not those that were signed` };
}

/**
 * The part of a span below the first node that differs, where one does: a node of the table that nobody has
 * changed after the event was.
 */
function narrowedBy(nodes: Seen['nodes'], from: number, to: number): { position: number; to: number } {
  const first = nodes
    .filter(({ level }) => level === 1)
    .map(below)
    .find((span) => span.from <= to && span.to >= from);
  return first
    ? { position: Math.max(from, first.from), to: Math.min(to, first.to) }
    : { position: from, to };
}

function inOrder(findings: readonly Finding[]): Finding[] {
  // Where both are bad the event comes before the row of its batch.
  return findings.toSorted(
    (one, other) =>
      one.position - other.position || Number(one.table !== 'log') - Number(other.table !== 'log'),
  );
}
