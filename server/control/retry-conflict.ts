import { ConflictError } from '#db/log/append.ts';

/** Loads, decides and appends; once more after a conflict with a concurrent change. */
export async function retryConflict<T>(change: () => Promise<T>): Promise<T> {
  try {
    return await change();
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    return change();
  }
}
