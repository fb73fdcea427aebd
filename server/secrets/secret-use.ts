import type { Key } from '#db/fold/key.ts';
import type { SecretUsed } from '#db/secrets/secret-use.ts';
import { SECRET_USE_REPORT_MS, SECRETS_NOTED_MAX } from '#server/secrets/bounds.ts';
import { sameDigest } from '#server/secrets/key-secret.ts';

type Noted = { key: string; last4: string; usedMs: number; reportedMs: number };

/**
 * Notes in memory which secret of a rotating key is in use. Keys that are not rotating cost a call nothing.
 * Pure: secret-report.ts writes the uses to the database.
 */
export class SecretUse {
  readonly #noted = new Map<string, Noted>();

  /**
   * A valid secret of a key was used.
   * @param nowMs by Postgres' clock, in milliseconds since 1970.
   */
  note({ id, secret, previous }: Key, digest: string, nowMs: number): void {
    if (previous === null || previous.endsAt.getTime() <= nowMs) return;
    const { last4 } = sameDigest(digest, secret.digest) ? secret : previous;
    const name = id + last4;
    const noted = this.#noted.get(name);
    if (noted) noted.usedMs = nowMs;
    // Beyond that many keys in rotation at once some are not noted: they look unused until others have been
    // reported.
    else if (this.#noted.size < SECRETS_NOTED_MAX)
      this.#noted.set(name, { key: id, last4, usedMs: nowMs, reportedMs: -Infinity });
  }

  /**
   * The uses to record now: a first use soon, later ones once per SECRET_USE_REPORT_MS. Secrets that are no
   * longer used are removed.
   */
  takeDue(nowMs: number): SecretUsed[] {
    const due: SecretUsed[] = [];
    for (const [name, noted] of this.#noted) {
      if (nowMs - noted.reportedMs < SECRET_USE_REPORT_MS) continue;
      if (noted.usedMs <= noted.reportedMs) this.#noted.delete(name);
      else due.push(this.#report(noted, nowMs));
    }
    return due;
  }

  /** All uses that were not recorded yet. */
  takeAll(nowMs: number): SecretUsed[] {
    return [...this.#noted.values()]
      .filter(({ usedMs, reportedMs }) => usedMs > reportedMs)
      .map((noted) => this.#report(noted, nowMs));
  }

  #report(noted: Noted, nowMs: number): SecretUsed {
    noted.reportedMs = Math.max(nowMs, noted.usedMs);
    return { key: noted.key, last4: noted.last4, usedAt: new Date(noted.usedMs) };
  }
}
