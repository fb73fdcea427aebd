/**
 * The advisory locks of a database, as Postgres takes them: two numbers each. All of them stand here,
 * those of the migrations too, so that no two things ever wait for one another by mistake.
 *
 * Taken by SQL alone: 19 is the log's, by shard; 20 keeps partitions from being made while they
 * come and go; 21 is of one dead instance, by its number.
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
