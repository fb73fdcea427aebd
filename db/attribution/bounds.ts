/** Fixed bounds of the stored values of attribution, each with its reason. */

/** Values past their retention that are deleted at once: some milliseconds of work. */
export const VALUES_DELETED_MAX = 1_000;
