/**
 * The advisory locks of a database: two numbers each, all in one list, so that no two purposes share one.
 *
 * Taken by SQL functions only: 19 is the log's, by shard; 20 excludes concurrent changes of partitions. The
 * lock order everywhere: an instance's row, allowances by their identity, the log.
 */
export const LOCKS = {
  partitions: '20, 0',
  migration: '22, 0',
  serviceLogin: '22, 1',
  /** Who moves the projections. */
  projecting: '23, 0',
  rebuild: '24, 0',
  archive: '25, 0',
  /** Who makes the first administrator. */
  setup: '26, 0',
  /** Who signs the head of the log. */
  checkpoint: '27, 0',
  /** Who seals a credential under the master key, or makes another one. */
  masterKey: '28, 0',
} as const;
