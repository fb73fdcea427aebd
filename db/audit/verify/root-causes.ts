import { NODE_CHILDREN } from '#db/tlog/hashes.ts';
import type { NodeId, NodeRange } from '#db/audit/verify/nodes.ts';
import type { BrokenBatch } from '#db/audit/verify/log-verifier.ts';
import type { Contradiction } from '#db/audit/verify/checkpoints.ts';
import { type Finding, spanOf } from '#db/audit/verify/report.ts';
import { FINDINGS_MAX } from '#db/audit/bounds.ts';

/** All observations about a log, before root causes are separated from consequences. */
export type Observations = {
  /** Problems in the log's own lines, batches and versions, each at its position. */
  direct: readonly Finding[];
  /** Positions whose leaf differs from the published one, where a signature proves the published one. */
  different: readonly number[];
  broken: readonly BrokenBatch[];
  contradiction: Contradiction | null;
  /** Stored nodes that differ from the tree. */
  nodes: readonly NodeId[];
  /** Nodes that are not stored. They say nothing about the events below them. */
  missingNodes: readonly NodeRange[];
  /** The size of the largest signed checkpoint that agrees. */
  covered: number;
  /** Problems in the tables beside the log. */
  tableFindings: readonly Finding[];
};

/** The positions below a node. */
const positionsBelow = ({ level, number }: NodeId) => ({
  from: number * NODE_CHILDREN ** level + 1,
  to: (number + 1) * NODE_CHILDREN ** level,
});

/**
 * Derives the findings: root causes without their consequences, the log itself first, in its order, then the
 * tables beside it. Pure.
 */
export function findRootCauses({
  direct,
  different,
  broken,
  contradiction,
  nodes,
  missingNodes,
  covered,
  tableFindings: beside,
}: Observations): Finding[] {
  const found: Finding[] = [...direct];
  for (const position of different) {
    if (!direct.some((finding) => finding.position === position && finding.table === 'log'))
      found.push({ position, table: 'log', problem: 'differs from the published leaf at this position' });
  }
  const exact = [...found];
  for (const each of broken)
    if (!isExplained(exact, each.from, each.to)) found.push(brokenBatch(each, nodes));
  // A version out of order can have another cause than the contradiction.
  if (contradiction !== null && different.length === 0 && broken.length === 0)
    found.push(betweenCheckpoints(contradiction, nodes));
  const nodeFindings = nodes.flatMap((node): Finding[] => {
    const { from, to } = positionsBelow(node);
    if (isExplained(found, from, to) || (contradiction !== null && to > contradiction.verifiedTo)) return [];
    const why =
      covered >= to
        ? 'does not match the hash of its events'
        : 'does not match the events, and no checkpoint shows which of them were changed';
    return [
      {
        position: from,
        table: 'log_node',
        problem: `the row of level ${node.level}, number ${node.number} ${why}`,
      },
    ];
  });
  const missing = missingNodes.map(({ level, from, to }): Finding => {
    const rows =
      from === to
        ? `row of level ${level}, number ${from} is`
        : `rows of level ${level}, numbers ${from} to ${to} are`;
    const { from: position } = positionsBelow({ level, number: from });
    return { position, table: 'log_node', problem: `the ${rows} missing` };
  });
  return [...sortFindings(found), ...sortFindings([...beside, ...nodeFindings, ...missing])].slice(
    0,
    FINDINGS_MAX,
  );
}

const isExplained = (found: readonly Finding[], from: number, to: number): boolean =>
  found.some((finding) => finding.position <= to && (finding.to ?? finding.position) >= from);

function brokenBatch(
  { from, to, leaves, isHashOnly: isValueAlone }: BrokenBatch,
  nodes: Observations['nodes'],
): Finding {
  const batch = `the row of the batch that ends at position ${to}`;
  if (isValueAlone)
    return {
      position: from,
      table: 'log_batch',
      problem: `${batch} has a chain hash that does not match its events; later batches were not changed`,
    };
  if (leaves === 'same')
    return {
      position: from,
      table: 'log_batch',
      problem: `${batch} was changed: its events match the published leaves`,
    };
  const narrowed = narrowByNodes(nodes, from, to);
  return {
    ...narrowed,
    table: 'log',
    problem: `${spanOf(narrowed.position, narrowed.to)}: one of them, or ${batch}, was changed`,
  };
}

function betweenCheckpoints(
  { size, from, verifiedTo }: Contradiction,
  nodes: Observations['nodes'],
): Finding {
  const narrowed = narrowByNodes(nodes, verifiedTo + 1, size);
  const between =
    verifiedTo === 0
      ? `before the checkpoint of size ${size} (contradicted, ${from})`
      : `between the checkpoints of size ${verifiedTo} (verified) and ${size} (contradicted, ${from})`;
  return { ...narrowed, table: 'log', problem: `the events ${between} do not match the signed one` };
}

/**
 * Narrows a range to the positions below the first stored node that differs from the tree, if there is one.
 */
function narrowByNodes(
  nodes: Observations['nodes'],
  from: number,
  to: number,
): { position: number; to: number } {
  const first = nodes
    .filter(({ level }) => level === 1)
    .map(positionsBelow)
    .find((span) => span.from <= to && span.to >= from);
  return first
    ? { position: Math.max(from, first.from), to: Math.min(to, first.to) }
    : { position: from, to };
}

function sortFindings(findings: readonly Finding[]): Finding[] {
  // At the same position the event comes before the row of its batch.
  return findings.toSorted(
    (one, other) =>
      one.position - other.position || Number(one.table !== 'log') - Number(other.table !== 'log'),
  );
}
