import path from 'node:path';

/** What a refusal of the file system means, and what to do about it. */
const CAUSES: Readonly<Record<string, { reason: string; remedy: (place: string) => string }>> = {
  ENOSPC: { reason: 'no space left on the device', remedy: (place) => `free some: df -h ${place}` },
  EDQUOT: { reason: 'the disk quota is exceeded', remedy: (place) => `raise it, or free space in ${place}` },
  EROFS: {
    reason: 'the file system is read-only',
    remedy: () => 'mount it writable, or choose another directory',
  },
  EACCES: {
    reason: 'permission denied',
    remedy: (place) => `check owner and mode: ls -ld ${place}; Daybook runs as ${user()}`,
  },
  EPERM: {
    reason: 'operation not permitted',
    remedy: (place) => `check owner and mode: ls -ld ${place}; Daybook runs as ${user()}`,
  },
};

const user = (): string => (process.getuid ? `user ${process.getuid()}` : 'another user');

/**
 * Describes an error of the file system in one line: which path, why, and what to do.
 * @param fallback the path where the error names none, as the error of a write does.
 * @returns null for any other error.
 */
export function describeFileError(error: unknown, fallback?: string): string | null {
  const { code = '', path: named = fallback, syscall } = error as NodeJS.ErrnoException;
  const cause = CAUSES[code];
  if (cause === undefined || named === undefined || syscall === undefined) return null;
  const directory = named === fallback ? named : path.dirname(named);
  return `${named}: ${cause.reason} (${code}, ${syscall}). To fix it, ${cause.remedy(directory)}`;
}

/** PostgreSQL's words for the same refusals, and for modes that it does not accept. */
const PHRASES: readonly (readonly [RegExp, (place: string) => string])[] = [
  [/No space left on device/, (place) => CAUSES['ENOSPC']?.remedy(place) ?? ''],
  [/Disk quota exceeded/, (place) => CAUSES['EDQUOT']?.remedy(place) ?? ''],
  [/Read-only file system/, (place) => CAUSES['EROFS']?.remedy(place) ?? ''],
  [/has invalid permissions/, (place) => `run: chmod 700 ${place}`],
  [
    /has wrong ownership|Permission denied/,
    (place) =>
      `give everything in it to the owner of the directory: chown -R --reference=${place} ${place}, ` +
      `and chmod -R u+rwX ${place}`,
  ],
];

/** What to do about an error that PostgreSQL reports of the files in this directory; empty if unknown. */
export function remedyFor(message: string, directory: string): string {
  const found = PHRASES.find(([phrase]) => phrase.test(message));
  return found === undefined ? '' : `. To fix it, ${found[1](directory)}`;
}
