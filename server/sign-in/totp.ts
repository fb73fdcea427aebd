import { Secret, TOTP } from 'otpauth';

/** Codes of a device, RFC 6238: what every authenticator app reads. Pure but for the random secret. */

const PERIOD_S = 30;
/** A code is good a step before and after its own: clocks differ, and people type slowly. */
const STEPS_ASIDE = 1;
/** What sealed secrets are sealed for. */
export const TOTP_PURPOSE = 'daybook totp';

const SECRET_BYTES = 20;

/** A new secret, in base 32 as people can type it. */
export function createTotpSecret(): string {
  return new Secret({ size: SECRET_BYTES }).base32;
}

/** What a device reads as a QR code. */
export function totpUri(secret: string, email: string): string {
  return totp(secret, email).toString();
}

/** The step of which a code is, in periods since 1970; null: it is not good now. */
export function stepOf(secret: string, code: string, nowMs: number): number | null {
  const delta = totp(secret, '').validate({ token: code, timestamp: nowMs, window: STEPS_ASIDE });
  return delta === null ? null : Math.floor(nowMs / 1_000 / PERIOD_S) + delta;
}

function totp(secret: string, label: string): TOTP {
  return new TOTP({
    issuer: 'Daybook',
    label,
    algorithm: 'SHA1',
    digits: 6,
    period: PERIOD_S,
    secret: Secret.fromBase32(secret),
  });
}
