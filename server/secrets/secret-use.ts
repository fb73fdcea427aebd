import type { Key } from '#db/fold/key.ts';
import type { SecretUsed } from '#db/secrets/secret-use.ts';
import { SECRET_USE_REPORT_MS, SECRETS_NOTED_MAX } from '#server/secrets/bounds.ts';
import { sameDigest } from '#server/secrets/key-secret.ts';

type Noted = { key: string; last4: string; usedMs: number; reportedMs: number };

/**
 * Which secret of a key is in use while its rotation is under way, noted in memory by the calls
 * themselves: all other keys cost a call nothing. Pure: secret-report.ts writes it to the database.
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
   * What should be written down now: a first use soon, later ones once in a while. Those that rest are
   * forgotten.
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

  /** All that was not written down yet. */
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
